"""The toy language: symbols that copy the recent past or the last period, by known odds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

RECENT_WEIGHTS = (8, 4, 2, 1)  # odds of a copy from 1, 2, 3, 4 symbols back
ALPHABET = 16
PERIOD = 12
P_RECENT = 0.45
P_PERIOD = 0.35
_BITS = 32


def toy_language(
    length: int,
    *,
    seed: int,
    alphabet: int = ALPHABET,
    period: int = PERIOD,
    p_recent: float = P_RECENT,
    p_period: float = P_PERIOD,
) -> Tensor:
    """Generate a sequence whose two sources of predictability, recency and period, are known.

    With probability `p_recent` symbol t copies symbol t − d, d in 1..4 with odds 8:4:2:1; with
    probability `p_period` it copies symbol t − `period`; else, and whenever the symbol to copy
    does not exist yet, it is uniform.

    Args:
        length: number of symbols.
        seed: non-negative integer; the same seed gives the same bytes on every machine, and a
            longer sequence begins with the shorter one.
        alphabet: number of symbols, 2 to 256.
        period: distance of the periodic copy, in symbols.
        p_recent: probability of a recent copy.
        p_period: probability of a periodic copy.

    Returns:
        Symbols (length,), uint8.

    Raises:
        ValueError: for a length below 1, or odds or sizes out of range.

    Limits:
        Probabilities are resolved to 2⁻³². Nothing beyond `period` symbols back helps a predictor.
    """
    _check(alphabet, period, p_recent, p_period)
    if length < 1:
        raise ValueError(f"length is {length}; the toy language needs at least 1 symbol")
    # Raw 64-bit words and integer arithmetic: unlike numpy's distributions, the raw stream of a
    # bit generator is promised never to change.
    words = np.random.PCG64(seed).random_raw(2 * length).reshape(length, 2)
    low = np.uint64((1 << _BITS) - 1)
    mechanism = words[:, 0] >> np.uint64(_BITS)
    distance = _scaled(words[:, 0] & low, sum(RECENT_WEIGHTS))
    uniform = _scaled(words[:, 1] >> np.uint64(_BITS), alphabet)

    recent_below = round(p_recent * (1 << _BITS))
    period_below = recent_below + round(p_period * (1 << _BITS))
    recent_lag = np.repeat(np.arange(1, len(RECENT_WEIGHTS) + 1), RECENT_WEIGHTS)[distance]
    lag = np.where(mechanism < recent_below, recent_lag, period)
    lag[mechanism >= period_below] = 0
    lag[lag > np.arange(length)] = 0

    symbols = uniform.tolist()
    for t, back in enumerate(lag.tolist()):
        if back:
            symbols[t] = symbols[t - back]
    return torch.tensor(symbols, dtype=torch.uint8)


def toy_ideal_nats(
    tokens: Tensor,
    *,
    alphabet: int = ALPHABET,
    period: int = PERIOD,
    p_recent: float = P_RECENT,
    p_period: float = P_PERIOD,
) -> Tensor:
    """Score a toy sequence as a predictor that knows the rule: the floor for any model.

    −ln p(x_t | past), p = Σ_d p_recent w_d [x_t = x_{t−d}] + p_period [x_t = x_{t−period}]
    + (rest)/alphabet, where a term whose symbol does not exist yet counts as uniform.

    Args:
        tokens: symbols (n,) from the start of a sequence, made with the same parameters.
        alphabet: number of symbols.
        period: distance of the periodic copy, in symbols.
        p_recent: probability of a recent copy.
        p_period: probability of a periodic copy.

    Returns:
        Negative log-likelihood per symbol (n,), nats, float64; its mean is the entropy rate up to
        sampling noise.

    Raises:
        ValueError: for odds or sizes out of range.

    Limits:
        In an excerpt the first `period` symbols are scored as if nothing came before them.
    """
    _check(alphabet, period, p_recent, p_period)
    tokens = tokens.to(torch.int64)
    total = sum(RECENT_WEIGHTS)
    copies = [(d, p_recent * w / total) for d, w in enumerate(RECENT_WEIGHTS, start=1)]
    copies.append((period, p_period))
    uniform = 1.0 / alphabet
    likelihood = torch.full(tokens.shape, max(0.0, 1.0 - p_recent - p_period) * uniform).double()
    for lag, weight in copies:
        likelihood[:lag] += weight * uniform
        likelihood[lag:] += weight * (tokens[lag:] == tokens[:-lag])
    return -likelihood.log()


def _scaled(words: np.ndarray, outcomes: int) -> np.ndarray:
    return ((words * np.uint64(outcomes)) >> np.uint64(_BITS)).astype(np.int64)


def _check(alphabet: int, period: int, p_recent: float, p_period: float) -> None:
    if not 2 <= alphabet <= 256:
        raise ValueError(f"alphabet is {alphabet}; a toy symbol is a byte, so use 2 to 256")
    if period < 1:
        raise ValueError(f"period is {period}; it must be at least 1 symbol")
    if min(p_recent, p_period) < 0 or p_recent + p_period > 1 + 1e-12:
        raise ValueError(
            f"p_recent {p_recent} and p_period {p_period} must be ≥ 0 with a sum of at most 1"
        )
