"""How far a Jordan action carries: what one origin serves, and where its channels overflow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from .growth import ROOM, Growth, anywhere, jet_bound, numbers
from .shear import Shear

# One origin serves positions as long as the damping stays below e^FADING and the largest entry of
# the shear below SHEAR: what a product of a grown and a shrunken channel loses in each number type.
FADING = {torch.float16: 4.0, torch.bfloat16: 40.0, torch.float32: 40.0, torch.float64: 100.0}
SHEAR = {torch.float16: 1.0, torch.bfloat16: 1.0, torch.float32: 64.0, torch.float64: 1e6}
LARGEST_EXPONENT = {torch.float32: 80.0, torch.float64: 700.0}  # of e^x, before it overflows


@dataclass(frozen=True, eq=False)
class BlockSizes:
    """The rates of Jordan blocks as they are now, and the sizes that follow from them.

    Attributes:
        shear: time and unit of the rates.
        order: channels that share a frequency.
        damping: ``(H, blocks)`` parameter whose softplus is the damping, or None.
        eta: ``(H, blocks)``, or None.
        relative: positions enter through the lag alone.
        steepness: as of :class:`Growth`.
    """

    shear: Shear
    order: int
    damping: Tensor | None
    eta: Tensor | None
    relative: bool
    steepness: float = 1.0

    def growth(self) -> Growth:
        """All of it as the kernel's answer."""
        damped = self.damping is not None and not self.shear.charts.bent_amplitude
        still = not damped and (
            self.eta is None or self.shear.of_position or self.shear.charts.bent_amplitude
        )
        degree = self.order - 1 if self.eta is not None and self.shear.grows else 0
        return Growth(
            bound=self.bound,
            reach=anywhere if still else self.reach,
            degree=degree,
            steepness=self.steepness,
            refusal=None if self.relative or not damped else self.refusal,
        )

    def reach(self, number: torch.dtype) -> float:
        """Tokens around an origin in which products keep their precision."""
        tokens = math.inf
        if self.damping is not None:
            tokens = FADING[number] / max(self.largest_damping(), 1e-30)
        if self.eta is not None and not self.shear.saturates:
            power = self.order - 1
            most = (SHEAR[number] * math.factorial(power)) ** (1 / power)
            rate = largest_of(self.eta.abs()) * self.shear.per_token
            tokens = min(tokens, most / max(rate, 1e-30))
        return tokens

    def bound(self, distance: float) -> float:
        """What the action makes of products of channels up to ROOM."""
        if self.eta is None and (self.damping is None or self.relative):
            return 0.0
        p = torch.tensor(distance, dtype=torch.float64, device="cpu")
        x = float(self.shear.time(p))
        if self.relative:  # about a near origin keys fade as they grow
            fades = self.damping is not None and not self.shear.saturates
            gamma = softplus(self.damping) if fades and self.damping is not None else None
            return ROOM * jet_bound(self._powers(), gamma, x)
        # At absolute positions the shears of query and key multiply, and keys grow by the damping.
        bound = jet_bound(self._powers(), None, 2 * x)
        if self.damping is None:
            return ROOM * bound
        t = float(self.shear.charts.amplitude(p)) * self.shear.per_token
        return ROOM * bound * grown(t * self.largest_damping() / self.shear.per_token)

    def refusal(self, number: torch.dtype) -> int:
        """Where :meth:`check_exponent` refuses, which leaves the content of the channels room."""
        steep = LARGEST_EXPONENT[torch.float64 if number == torch.float64 else torch.float32]
        return int(steep / max(self.largest_damping(), 1e-30)) + 1

    def largest_damping(self) -> float:
        """Damping of the steepest block, per token; in Python's floats, as decoding asks often."""
        if self.damping is None:
            return 0.0
        raw = largest_of(self.damping)
        return (max(raw, 0.0) + math.log1p(math.exp(-abs(raw)))) * self.shear.per_token

    def _powers(self) -> Tensor:
        """``(.., order)`` coefficients of ``x^s/s!``."""
        if self.eta is None:
            return torch.ones(1, 1, device="cpu" if self.damping is None else self.damping.device)
        eta = numbers(self.eta)[..., None]  # in fp32 a power of a large one would be inf
        return eta ** torch.arange(self.order, device=eta.device)

    def check_exponent(self, exponent: Tensor, number: torch.dtype) -> None:
        """Raise where channels grown by ``e^exponent`` would leave a number type."""
        if torch.compiler.is_compiling() or exponent.is_meta or not exponent.numel():
            return
        most = float(exponent.detach().max())
        if most > LARGEST_EXPONENT[number]:
            raise ValueError(self._too_large(most, number))

    def _too_large(self, most: float, number: torch.dtype) -> str:
        rate = self.largest_damping()
        if self.shear.charts.bent_amplitude:
            return (
                f"damping {rate:.3g} per token over L = {self.shear.length:g} tokens grows channels "
                f"by e^{most:.0f}, beyond {number}: use less damping"
            )
        said = (
            f"keys about {most / rate:.0f} tokens ahead of the origin, or queries as far behind "
            f"it, grow by e^{most:.0f} at gamma {rate:.3g} per token, beyond {number}. "
        )
        if not self.relative:
            longer = ", a larger length" if self.shear.per_length else ""
            return (
                f"{said}This kernel is not relative, so attend() cannot count from elsewhere: use "
                f"less damping{longer}, positions nearer to 0, or fp64 inputs"
            )
        return (
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
