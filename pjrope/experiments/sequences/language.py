"""Two languages with one question a sequence: a sum over lags, and a key to be found in noise.

*Lag language*: a sequence is random bits and, last, QUERY. With s = ±1 for the bits, its score is
``sum_d K(d) s(d)`` over the lags d = 1, 2, … seen from QUERY; the answer is the score's sign.

*Needle language*: pairs of a key and a value at random places, noise elsewhere, and at the end
QUERY and one of the keys; the answer is that key's value. The pairs of a sequence all start at
places of one parity, so that they cannot overlap.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...training.loop import Sampler

QUERY = 2  # asks; the two letters of the lag language are 0 and 1
# The needle language has noise of four tokens, QUERY among them; BOS begins, keys and values follow.
BOS, SPECIAL = 1, 4

# Functions of the lag d in tokens, of x = d / L, and of the phase omega d; all fp64 tensors.
LAG_FUNCTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "mixed_raw": lambda d, x, phase: x * phase.cos(),
    "high_jet_r2": lambda d, x, phase: x**2 * phase.cos(),
    "high_jet_r3": lambda d, x, phase: x**3 * phase.cos(),
    "scaled_high_jet_r2": lambda d, x, phase: x**2 * torch.exp(-0.1 * x) * phase.cos(),
    "scaled_high_jet_r3": lambda d, x, phase: x**3 * torch.exp(-0.1 * x) * phase.cos(),
    "seasonal_trend": lambda d, x, phase: (0.35 + 0.9 * x) * phase.cos() + 0.25 * phase.sin(),
    "damped_wave": lambda d, x, phase: (
        torch.exp(-1e-4 * d) * (phase.cos() + 0.75 * x * phase.sin())
    ),
}


def lag_weights(name: str, longest: int, length: int, omega: float) -> Tensor:
    """K at the lags 1 … longest, of unit norm over the lags below the training length.

    Args:
        name: one of ``LAG_FUNCTIONS``.
        longest: last lag, tokens.
        length: L, tokens.
        omega: radians per token.

    Returns:
        ``(longest,)`` fp64. Beyond L nothing is scaled anew, so scores grow with the lag.

    Raises:
        ValueError: an unknown name.
    """
    if name not in LAG_FUNCTIONS:
        raise ValueError(f"target {name!r}: there are {sorted(LAG_FUNCTIONS)}")
    lags = torch.arange(1, max(longest, length - 1) + 1, dtype=torch.float64)
    weights = LAG_FUNCTIONS[name](lags, lags / length, omega * lags)
    return weights[:longest] / weights[: length - 1].norm()


def scores_of(tokens: Tensor, weights: Tensor) -> Tensor:
    """The score of each sequence, ``sum_d K(d) s(d)`` with lags counted from the last token.

    Args:
        tokens: ``(batch, N)`` bits, the last token apart.
        weights: ``(N - 1,)`` fp64, K at the lags 1 … N - 1.

    Returns:
        ``(batch,)`` fp64.
    """
    signs = 2.0 * tokens[:, :-1].flip(1).double() - 1.0  # column d - 1 stands at lag d
    return signs @ weights


def lag_sampler(name: str, length: int, omega: float) -> Sampler:
    """Draws sequences of the language; any length, one language.

    Args:
        name, length, omega: as for :func:`lag_weights`; ``length`` is the training length.

    Returns:
        ``(generator, batch, N) -> (tokens, labels)`` with ``(batch, N)`` and ``(batch, 1)`` int64.
    """

    def sample(generator: torch.Generator, batch: int, n: int) -> tuple[Tensor, Tensor]:
        tokens = torch.randint(2, (batch, n), generator=generator)
        tokens[:, -1] = QUERY
        scores = scores_of(tokens, lag_weights(name, n - 1, length, omega))
        return tokens, (scores > 0).long()[:, None]

    return sample


def pair_places(
    generator: torch.Generator, batch: int, length: int, pairs: int, distance: int | None
) -> Tensor:
    """Places of the keys; each value stands one further. The first is the one asked for.

    Args:
        generator: of the places.
        batch: sequences.
        length: N, tokens.
        pairs: P.
        distance: from the last token back to the key asked for; None draws it from 4 … N - 2.

    Returns:
        ``(batch, P)`` int64 in 1 … N - 5, no two pairs overlapping.

    Raises:
        ValueError: a distance that does not fit, or too many pairs for the length.
    """
    if distance is None:
        asked = torch.randint(1, length - 4, (batch, 1), generator=generator)
    elif 4 <= distance <= length - 2:
        asked = torch.full((batch, 1), length - 1 - distance)
    else:
        raise ValueError(f"distance {distance}: in {length} tokens it is from 4 to {length - 2}")
    if pairs > (length - 6) // 2:
        raise ValueError(f"{pairs} pairs: {length} tokens hold at most {(length - 6) // 2}")
    places = torch.arange(1, length - 4)
    order = torch.rand(batch, len(places), generator=generator)
    order[(places - asked) % 2 == 1] = -1.0  # pairs of another parity might overlap
    order.scatter_(1, asked - 1, 2.0)
    return order.topk(pairs, dim=1).indices + 1


def needle_sampler(pairs: int, keys: int, values: int, distance: int | None = None) -> Sampler:
    """Draws sequences with pairs in noise and a question.

    Args:
        pairs: P, at most ``keys``.
        keys, values: how many tokens there are of each; keys of a sequence differ, values need not.
        distance: as in :func:`pair_places`.

    Returns:
        ``(generator, batch, N) -> (tokens, labels)``, ``(batch, N)`` and ``(batch, 1)`` int64; the
        label is the value's token.
    """

    def sample(generator: torch.Generator, batch: int, n: int) -> tuple[Tensor, Tensor]:
        tokens = torch.randint(SPECIAL, (batch, n), generator=generator)
        places = pair_places(generator, batch, n, pairs, distance)
        shuffled = torch.rand(batch, keys, generator=generator).argsort(1)
        key = SPECIAL + shuffled[:, :pairs]
        value = SPECIAL + keys + torch.randint(values, (batch, pairs), generator=generator)
        tokens[:, 0] = BOS
        tokens.scatter_(1, places, key).scatter_(1, places + 1, value)
        tokens[:, -2], tokens[:, -1] = QUERY, key[:, 0]
        return tokens, value[:, :1]

    return sample
