"""A language of two letters whose last question is answered by a function of the lag.

A sequence is random bits and, last, QUERY. With s = ±1 for the bits, its score is
``sum_d K(d) s(d)`` over the lags d = 1, 2, … seen from QUERY; the answer is the score's sign.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...training.loop import Sampler

QUERY = 2  # the two letters are 0 and 1

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
