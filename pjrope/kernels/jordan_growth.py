"""How far a Jordan action carries: what one origin serves, and where its channels overflow."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..positions.coordinates import bounded_shear
from .base import PositionKernel
from .growth import ROOM, jet_bound, numbers
from .paths import Paths

# One origin serves positions as long as the damping stays below e^GROWTH and the largest entry of
# the shear below SHEAR: what a product of a grown and a shrunken channel loses in each number type.
GROWTH = {torch.float16: 4.0, torch.bfloat16: 40.0, torch.float32: 40.0, torch.float64: 100.0}
SHEAR = {torch.float16: 1.0, torch.bfloat16: 1.0, torch.float32: 64.0, torch.float64: 1e6}
LARGEST_EXPONENT = {torch.float32: 80.0, torch.float64: 700.0}  # of e^x, before it overflows


class JordanGrowth(PositionKernel, register=False):
    """The part of :class:`JordanAction` that knows sizes: damping, shear and their limits."""

    length: float
    order: int
    form: str
    paths: Paths
    omega: Tensor
    eta: Tensor | None
    gamma: Tensor | None
    gamma_raw: Tensor | None

    @property
    def per_token(self) -> float:
        """What turns a rate of this form into one per token: 1/L for the scaled form, else 1."""
        return 1 / self.length if self.form == "scaled" else 1.0

    def reach(self, number: torch.dtype) -> float:
        if self.stays_in_range:
            return math.inf
        tokens = math.inf
        if self.gamma_raw is not None:
            tokens = GROWTH[number] / max(self._largest_gamma(), 1e-30)
        if self.eta is not None and self.form in ("scaled", "exact"):
            power = self.order - 1
            most = (SHEAR[number] * math.factorial(power)) ** (1 / power)
            tokens = min(tokens, most / max(largest_of(self.eta.abs()) * self.per_token, 1e-30))
        return tokens

    @property
    def degree(self) -> int:
        straight = self.form in ("scaled", "exact") and not self.paths.bent_amplitude
        return self.order - 1 if self.eta is not None and straight else 0

    def largest(self, distance: float) -> float:
        if self.eta is None and (self.gamma_raw is None or self.claims.relative):
            return 0.0
        p = torch.tensor(distance, dtype=torch.float64, device="cpu")
        t = float(self.paths.amplitude(p)) * self.per_token
        bent, relative = self.form in ("stabilized", "lag"), self.claims.relative
        shear = float(bounded_shear(p, self.length)) if bent else t
        if relative:  # about a near origin keys fade as they grow
            return ROOM * jet_bound(self._shears(), None if bent else self.gamma, shear)
        # At absolute positions the shears of query and key multiply, and keys grow by the damping.
        bound = jet_bound(self._shears(), None, 2 * shear)
        return ROOM * bound * (1.0 if self.gamma_raw is None else grown(t * self._steepest()))

    def _shears(self) -> Tensor:
        """``(.., order)`` coefficients of ``x^s/s!``."""
        if self.eta is None:
            return self.omega.new_ones(1, 1)
        eta = numbers(self.eta)[..., None]  # in fp32 a power of a large one would be inf
        return eta ** torch.arange(self.order, device=eta.device)

    def overflow_at(self, number: torch.dtype) -> int | None:
        first = super().overflow_at(number)
        bounded = self.claims.relative or self.gamma_raw is None or self.paths.bent_amplitude
        if bounded or first == 0:
            return first
        # Where rotate() refuses, which leaves the content of the channels some room.
        steep = LARGEST_EXPONENT[torch.float64 if number == torch.float64 else torch.float32]
        refused = int(steep / max(self._largest_gamma(), 1e-30)) + 1
        return refused if first is None else min(first, refused)

    def _steepest(self) -> float:
        """Damping of the steepest block in the form's unit."""
        return self._largest_gamma() / self.per_token

    def _largest_gamma(self) -> float:
        """Damping of the steepest block, per token; in Python's floats, as decoding asks often."""
        raw = largest_of(self.gamma_raw)
        return (max(raw, 0.0) + math.log1p(math.exp(-abs(raw)))) * self.per_token

    def _check_range(self, exponent: Tensor, number: torch.dtype) -> None:
        if torch.compiler.is_compiling() or exponent.is_meta or not exponent.numel():
            return
        most, rate = float(exponent.detach().max()), self._largest_gamma()
        if most <= LARGEST_EXPONENT[number]:
            return
        if self.paths.bent_amplitude:
            raise ValueError(
                f"damping {rate:.3g} per token over L = {self.length:g} tokens grows channels by "
                f"e^{most:.0f}, beyond {number}: use less damping"
            )
        said = (
            f"keys about {most / rate:.0f} tokens ahead of the origin, or queries as far behind "
            f"it, grow by e^{most:.0f} at gamma {rate:.3g} per token, beyond {number}. "
        )
        if not self.claims.relative:
            longer = ", a larger length" if self.form == "scaled" else ""
            raise ValueError(
                f"{said}This kernel is not relative, so attend() cannot count from elsewhere: use "
                f"less damping{longer}, positions nearer to 0, or fp64 inputs"
            )
        raise ValueError(
            f"{said}rotate() alone needs positions counted from a nearer origin. In attend() it "
            "takes keys far ahead of their query: use causal=True with positions that do not fall "
            "back, or less damping"
        )


def grown(exponent: float) -> float:
    """``e^x``, infinity where Python would raise."""
    return math.exp(exponent) if exponent < 700 else math.inf


def largest_of(rates: Tensor) -> float:
    """The largest rate, 0 on the meta device."""
    return 0.0 if rates.is_meta else float(rates.detach().max())
