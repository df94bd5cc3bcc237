"""A language whose answers come from a teacher: a kernel of the PJ family that weighs random bits.

A sequence is random bits and, last, QUERY; a bit at lag d counts ``s = ±1`` times a weight of the
teacher's kernel k(d). Two ways to read k: *signed* weights are ``k / ||k||``; *attention* weights
are ``softmax(lambda k)``, so that a larger lambda means a narrower support. The answer is whether
the weighted sum lies above a threshold. Norms and softmax run over the sequence at hand; L and the
frequency stay those of training at every length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..positions import coordinates
from ..training.loop import Sampler
from .lag_language import QUERY, scores_of

DAMPING = 0.1  # c of the damped jets
THRESHOLDS = ("zero", "median")


@dataclass(frozen=True)
class Kernel:
    """A teacher's kernel and the part of the PJ family it lives in.

    Args:
        formula: k in words, with x = d/L, w the frequency, and phi, beta of the light cone.
        values: (d, L, w) → k(d); all fp64.
        sector: "fj", "affine" or "lc"; of a mixture the one that weighs more.
        order: of the highest jet; None where there is none.
    """

    formula: str
    values: Callable[[Tensor, float, float], Tensor]
    sector: Literal["fj", "affine", "lc"]
    order: int | None


def _jet(r: int) -> Callable[[Tensor, float, float], Tensor]:
    def values(d: Tensor, length: float, omega: float) -> Tensor:
        x = d / length
        return x**r * torch.exp(-DAMPING * x) * torch.cos(omega * d)

    return values


def _recency_weak_jet(d: Tensor, length: float, omega: float) -> Tensor:
    x = d / length
    return -0.4 * x + 0.15 * x**2 * torch.cos(omega * d)


def _lc_core(d: Tensor, length: float, omega: float) -> Tensor:
    beta, phi = coordinates.velocity(d, length), coordinates.phase(d, length)
    return torch.cos(omega * phi) * (1 + 0.4 * beta + 0.2 * beta**2)


KERNELS: dict[str, Kernel] = {
    "phase": Kernel("cos wd", lambda d, length, omega: torch.cos(omega * d), "fj", 0),
    "affine": Kernel("-0.4 x", lambda d, length, omega: -0.4 * d / length, "affine", None),
    "recency_weak_jet": Kernel(
        "-0.4 x + 0.15 x^2 cos wd, undamped", _recency_weak_jet, "affine", 2
    ),
    # The protocol damps the second and third jets only.
    "first_jet": Kernel(
        "x cos wd", lambda d, length, omega: d / length * torch.cos(omega * d), "fj", 1
    ),
    "second_jet": Kernel("x^2 e^(-0.1 x) cos wd", _jet(2), "fj", 2),
    "third_jet": Kernel("x^3 e^(-0.1 x) cos wd", _jet(3), "fj", 3),
    "lc_core": Kernel("cos(w phi) (1 + 0.4 beta + 0.2 beta^2)", _lc_core, "lc", 0),
}


@dataclass(frozen=True)
class Teacher:
    """Who decides the answers.

    Args:
        kernel: one of ``KERNELS``.
        sharpness: lambda of an attention teacher; None for a signed one.
        length: L, tokens.
        cycles: w in turns per L tokens.

    Raises:
        ValueError: an unknown kernel, or a sharpness that is not positive.
    """

    kernel: str
    sharpness: float | None
    length: int
    cycles: float

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS:
            raise ValueError(f"teacher {self.kernel!r}: there are {', '.join(KERNELS)}")
        if self.sharpness is not None and not self.sharpness > 0:
            raise ValueError(f"sharpness is {self.sharpness!r}: a number > 0, or None for signed")

    @property
    def omega(self) -> float:
        """The frequency w, radians per token."""
        return 2 * math.pi * self.cycles / self.length

    @property
    def name(self) -> str:
        """ "signed first_jet", "attention affine 16"."""
        if self.sharpness is None:
            return f"signed {self.kernel}"
        return f"attention {self.kernel} {self.sharpness:g}"

    def weights(self, longest: int) -> Tensor:
        """Weights of the lags 1 … longest, ``(longest,)`` fp64.

        Signed weights have unit norm, those of an attention teacher the sum 1.
        """
        lags = torch.arange(1, longest + 1, dtype=torch.float64)
        k = KERNELS[self.kernel].values(lags, self.length, self.omega)
        return k / k.norm() if self.sharpness is None else (self.sharpness * k).softmax(0)

    def support(self, longest: int) -> float | None:
        """How many of the lags 1 … longest an attention teacher reads: e to its entropy."""
        if self.sharpness is None:
            return None
        return float(torch.special.entr(self.weights(longest)).sum().exp())


def teacher_sampler(teacher: Teacher, threshold: str = "zero") -> Sampler:
    """Draws sequences of a teacher's language, of any length.

    Args:
        teacher: a :class:`Teacher`.
        threshold: "zero", the median of all sequences, since flipping every bit flips the score;
            or "median", that of the batch at hand, which halves each batch exactly and for it
            answers the sequences near zero at random.

    Returns:
        ``(generator, batch, N) -> (tokens, labels)`` with ``(batch, N)`` and ``(batch, 1)`` int64.

    Raises:
        ValueError: another threshold.
    """
    if threshold not in THRESHOLDS:
        raise ValueError(f"threshold {threshold!r}: choose from {', '.join(THRESHOLDS)}")

    def sample(generator: torch.Generator, batch: int, n: int) -> tuple[Tensor, Tensor]:
        tokens = torch.randint(2, (batch, n), generator=generator)
        tokens[:, -1] = QUERY
        scores = scores_of(tokens, teacher.weights(n - 1))
        cut = 0.0 if threshold == "zero" else scores.quantile(0.5)
        return tokens, (scores > cut).long()[:, None]

    return sample


def majority_accuracy(tokens: Tensor, labels: Tensor) -> float:
    """Accuracy of the unweighted vote: answer what most bits are, no training needed.

    Args:
        tokens: ``(n, N)``, the last token QUERY; with N even there are no ties.
        labels: ``(n, 1)``.

    Returns:
        Share of right answers; a tie counts one half.
    """
    votes = scores_of(tokens, torch.ones(tokens.shape[1] - 1, dtype=torch.float64))
    right = torch.where(votes == 0, 0.5, ((votes > 0) == (labels[:, 0] > 0)).double())
    return float(right.mean())
