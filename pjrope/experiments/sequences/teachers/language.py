"""A language whose answers come from a teacher: a lag function that weighs random bits.

A sequence is random bits and, last, QUERY; a bit at lag d counts ``s = ±1`` times a weight made
of the teacher's k(d). Two ways to read k: *signed* weights are ``k / ||k||``; *attention* weights
are ``softmax(lambda k)``, so that a larger lambda means a narrower support. The answer is whether
the weighted sum lies above a threshold. Norm and softmax run over the sequence at hand; L and the
frequency stay those of training at every length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ....training.loop import Sampler
from ...functions.spans import Lags
from ...functions.teachers import TEACHERS as LAG_FUNCTIONS
from ...functions.teachers import Teacher
from ..language import QUERY, scores_of

THRESHOLDS = ("zero", "median")

TEACHERS: dict[str, Teacher] = {
    **{name: LAG_FUNCTIONS[name] for name in ("phase", "first_jet", "second_jet", "third_jet")},
    **{name: LAG_FUNCTIONS[name] for name in ("recency_weak_jet", "lc_core")},
    "affine": Teacher("-0.4x", "affine", None, lambda lags: -0.4 * lags.x),
}


@dataclass(frozen=True)
class Language:
    """A teacher and the way its lag function is read.

    Args:
        teacher: one of ``TEACHERS``.
        sharpness: lambda of attention weights; None for signed ones.
        length: L, tokens.
        cycles: turns of the frequency in L tokens.

    Raises:
        ValueError: an unknown teacher, or a sharpness that is not positive.
    """

    teacher: str
    sharpness: float | None
    length: int
    cycles: float

    def __post_init__(self) -> None:
        if self.teacher not in TEACHERS:
            raise ValueError(f"teacher {self.teacher!r}: there are {', '.join(TEACHERS)}")
        if self.sharpness is not None and not self.sharpness > 0:
            raise ValueError(f"sharpness is {self.sharpness!r}: a number > 0, or None for signed")

    @property
    def name(self) -> str:
        """Such as "first_jet, signed" or "affine, λ = 16"."""
        way = "signed" if self.sharpness is None else f"λ = {self.sharpness:g}"
        return f"{self.teacher}, {way}"

    @property
    def omega(self) -> float:
        """The teacher's frequency, radians per token."""
        return float(self._lags(1).omega)

    def _lags(self, longest: int) -> Lags:
        d = torch.arange(1, longest + 1, dtype=torch.float64)
        return Lags(d, self.length, self.cycles)

    def weights(self, longest: int) -> Tensor:
        """Weights of the lags 1 … longest, ``(longest,)`` fp64.

        Signed weights have norm 1, attention weights the sum 1. Answers do not hang on either.
        """
        k = TEACHERS[self.teacher].values(self._lags(longest))
        return k / k.norm() if self.sharpness is None else (self.sharpness * k).softmax(0)

    def support(self, longest: int) -> float | None:
        """How many of the lags 1 … longest attention weights reach: e to their entropy."""
        if self.sharpness is None:
            return None
        return float(torch.special.entr(self.weights(longest)).sum().exp())

    def sampler(self, threshold: str = "zero") -> Sampler:
        """Draws sequences of the language, of any length.

        Args:
            threshold: "zero", the median over all sequences, since flipping every bit flips the
                score; or "median", that of the batch at hand, which answers exactly half of each
                batch with 1 and so a few sequences near zero by chance.

        Returns:
            ``(generator, batch, N) -> (tokens, labels)`` with ``(batch, N)`` and ``(batch, 1)``
            int64.

        Raises:
            ValueError: another threshold.
        """
        if threshold not in THRESHOLDS:
            raise ValueError(f"threshold {threshold!r}: choose from {', '.join(THRESHOLDS)}")

        def sample(generator: torch.Generator, batch: int, n: int) -> tuple[Tensor, Tensor]:
            tokens = torch.randint(2, (batch, n), generator=generator)
            tokens[:, -1] = QUERY
            scores = scores_of(tokens, self.weights(n - 1))
            cut = 0.0 if threshold == "zero" else scores.quantile(0.5)
            return tokens, (scores > cut).long()[:, None]

        return sample


def majority_accuracy(tokens: Tensor, labels: Tensor) -> float:
    """Accuracy of the unweighted vote, which answers what most bits are and learns nothing.

    Args:
        tokens: ``(n, N)``, the last token QUERY; with N even there are no ties.
        labels: ``(n, 1)``.

    Returns:
        Share of right answers; a tie counts one half.
    """
    votes = scores_of(tokens, torch.ones(tokens.shape[1] - 1, dtype=torch.float64))
    right = torch.where(votes == 0, 0.5, ((votes > 0) == (labels[:, 0] > 0)).double())
    return float(right.mean())
