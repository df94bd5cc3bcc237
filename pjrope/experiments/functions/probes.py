"""Bases and targets of the probes: which lag functions are in the span of which others.

A basis is a set of columns over the lags d, the constant always among them; a target is one lag
function. Frequencies of bases and targets are rungs of the same ladder, so that no basis is short
of a frequency. Shear saturates on the *lag* here, unlike in the stabilised kernel, which saturates
absolute positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...positions.coordinates import bounded_shear, linear
from ...positions.frequencies import geometric

__all__ = ["BASES", "TARGETS", "Basis", "Lags", "Target", "design"]

DRIFT = 5e-5


@dataclass(frozen=True)
class Lags:
    """Lags with what columns and targets are built from.

    Args:
        d: ``(n,)`` lags as real numbers; their dtype is that of every column.
        length: L, how many lags are fitted, tokens.
        head_dim, frequencies: the ladder is the first F of ``10000^(-2k/D)``, radians per token.
        index, index2: the rungs of the targets' frequencies w and w'.
        damping: gamma L of the bases that carry the reference's small damping, and of one target.
        scaled: c, the gamma L of the scaled bases and targets.
        split: L times the distance between the parts of a split frequency, radians.
        matched: gamma L of the target at hand.
    """

    d: Tensor
    length: int
    head_dim: int
    frequencies: int
    index: int
    index2: int
    damping: float
    scaled: float
    split: float
    matched: float = 0.0

    @property
    def x(self) -> Tensor:
        """``d / L``."""
        return linear(self.d, self.length)

    @property
    def saturating(self) -> Tensor:
        """``x / (1 + x)``, the bounded shear in units of L."""
        return bounded_shear(self.d, self.length) / self.length

    @property
    def omega(self) -> Tensor:
        return self.ladder()[self.index]

    @property
    def omega2(self) -> Tensor:
        return self.ladder()[self.index2]

    def ladder(self, fineness: int = 1) -> Tensor:
        """``(fineness F,)`` frequencies over the same range, so many times as dense."""
        return geometric(self.head_dim * fineness)[: self.frequencies * fineness].to(self.d)

    def full_ladder(self) -> Tensor:
        """``(D/2,)``: all of RoPE's frequencies."""
        return geometric(self.head_dim).to(self.d)

    def split_ladder(self, parts: int) -> Tensor:
        """``(parts F,)``: each frequency as several close ones, a jet before its limit is taken."""
        shifts = (torch.arange(parts).to(self.d) - (parts - 1) / 2) * self.split / self.length
        return (self.ladder()[:, None] + shifts).flatten()

    def decay(self, rate: float) -> Tensor:
        """``e^{-rate x}``."""
        return torch.exp(-rate * self.x)

    def waves(self, omega: Tensor | None = None) -> Tensor:
        """``cos wd`` and ``sin wd`` over the ladder or over other frequencies: ``(n, 2 F)``."""
        angle = self.d[:, None] * (self.ladder() if omega is None else omega)
        return torch.cat([angle.cos(), angle.sin()], 1)

    def jets(self, order: int, t: Tensor, rate: float = 0.0) -> Tensor:
        """``t^k / k! e^{-rate x} (cos wd, sin wd)``, k < order: ``(n, 2 F order)``."""
        parts = [self.waves() * self.decay(rate)[:, None]]
        for k in range(1, order):
            parts.append(parts[-1] * (t / k)[:, None])
        return torch.cat(parts, 1)


@dataclass(frozen=True)
class Basis:
    """Columns beside the constant, and what they are in words."""

    meaning: str
    columns: Callable[[Lags], Sequence[Tensor]]


def _rope(meaning: str, ladder: Callable[[Lags], Tensor]) -> Basis:
    return Basis(f"cos, sin {meaning}", lambda lags: [lags.waves(ladder(lags))])


def _jordan(order: int, rate: str = "", saturating: bool = False) -> Basis:
    """Jets of an order; rate names the field of `Lags` that holds gamma L, "" for no damping."""
    damping = {
        "": "no damping",
        "damping": "the reference's damping",
        "scaled": "damping c/L",
        "matched": "the target's own damping",
    }[rate]

    def columns(lags: Lags) -> list[Tensor]:
        t = lags.saturating if saturating else lags.x
        return [lags.jets(order, t, getattr(lags, rate) if rate else 0.0)]

    shear = "saturating" if saturating else "true"
    return Basis(f"jets of order {order}, {shear} lag, {damping}", columns)


def _tail(lags: Lags) -> list[Tensor]:
    """A Jordan block of frequency 0, with the saturating lag: ``e^{-gamma d} (1, tau)``."""
    decay = lags.decay(lags.damping)
    return [decay, lags.saturating * decay]


BASES: dict[str, Basis] = {
    "none": Basis("the constant alone", lambda lags: []),
    "alibi": Basis("d/L", lambda lags: [lags.x]),
    "rope": _rope("on the ladder", lambda lags: lags.ladder()),
    "rope_alibi": Basis("cos, sin on the ladder, and d/L", lambda lags: [lags.waves(), lags.x]),
    "rope_full": _rope("on all D/2 frequencies", lambda lags: lags.full_ladder()),
    "rope_fine2": _rope("on a ladder twice as dense", lambda lags: lags.ladder(2)),
    "rope_fine3": _rope("on a ladder three times as dense", lambda lags: lags.ladder(3)),
    "rope_fine4": _rope("on a ladder four times as dense", lambda lags: lags.ladder(4)),
    "rope_split2": _rope("with each frequency split in two", lambda lags: lags.split_ladder(2)),
    "rope_split3": _rope("with each frequency split in three", lambda lags: lags.split_ladder(3)),
    "rope_split4": _rope("with each frequency split in four", lambda lags: lags.split_ladder(4)),
    "damped": _jordan(1, "damping"),
    "real_jordan": Basis("a damped block of frequency 0", _tail),
    "direct_sum": Basis(
        "cos, sin beside d/L and a block of frequency 0",
        lambda lags: [lags.waves(), lags.x, *_tail(lags)],
    ),
    "direct_sum_powers": Basis(
        "cos, sin beside three powers of the saturating lag",
        lambda lags: [lags.waves(), *(lags.saturating**k for k in (1, 2, 3))],
    ),
    "jordan_bounded": _jordan(2, "damping", saturating=True),
    "jordan_bounded_undamped": _jordan(2, saturating=True),
    "jordan_bounded_m3": _jordan(3, "damping", saturating=True),
    "jordan_bounded_m4": _jordan(4, "damping", saturating=True),
    "jordan_exact": _jordan(2, "damping"),
    "jordan_scaled_m3": _jordan(3, "scaled"),
    "jordan_scaled_m4": _jordan(4, "scaled"),
    "jordan_undamped": _jordan(2),
    "jordan_undamped_m3": _jordan(3),
    "jordan_undamped_m4": _jordan(4),
    "jordan_matched": _jordan(2, "matched"),
    "jordan_matched_m3": _jordan(3, "matched"),
    "jordan_matched_m4": _jordan(4, "matched"),
}


def design(name: str, lags: Lags) -> Tensor:
    """The columns of a basis, the constant first: ``(n, columns)``."""
    parts = [torch.ones_like(lags.d), *BASES[name].columns(lags)]
    return torch.cat([part[:, None] if part.ndim == 1 else part for part in parts], 1)


@dataclass(frozen=True)
class Target:
    """A lag function: its formula with x = d/L, its values, and gamma L of its damping."""

    formula: str
    values: Callable[[Lags], Tensor]
    damping: Callable[[Lags], float] = lambda lags: 0.0


def _cos(lags: Lags) -> Tensor:
    return torch.cos(lags.omega * lags.d)


def _sin(lags: Lags) -> Tensor:
    return torch.sin(lags.omega * lags.d)


def _jet(power: int) -> Target:
    sign = {1: "x", 2: "x²", 3: "x³"}[power]
    return Target(f"{sign} cos ωd", lambda lags: lags.x**power * _cos(lags))


def _scaled_jet(power: int) -> Target:
    plain = _jet(power)
    return Target(
        f"e^(-cx) {plain.formula}",
        lambda lags: lags.decay(lags.scaled) * plain.values(lags),
        lambda lags: lags.scaled,
    )


def _damped_wave(lags: Lags) -> Tensor:
    return lags.decay(lags.damping) * (_cos(lags) + 0.75 * lags.x * _sin(lags))


def _seasonal_trend(lags: Lags) -> Tensor:
    return (0.35 + 0.9 * lags.x) * _cos(lags) + 0.25 * _sin(lags)


def _rhythm_envelope(lags: Lags) -> Tensor:
    second = torch.sin(lags.omega2 * lags.d)
    return (0.25 + 0.85 * lags.x) * (0.65 * _cos(lags) + 0.35 * second)


def _motif_spacing(lags: Lags) -> Tensor:
    angle = lags.omega2 * lags.d
    return lags.x / (1 + 0.25 * lags.x) * (0.7 * angle.cos() - 0.3 * angle.sin())


TARGETS: dict[str, Target] = {
    "phase": Target("cos ωd", _cos),
    "linear": Target("-x", lambda lags: -lags.x),
    "mixed": _jet(1),
    "phase_drift": Target(
        "cos(1.00005 ωd)", lambda lags: torch.cos(lags.omega * (1 + DRIFT) * lags.d)
    ),
    "seasonal_trend": Target("(0.35 + 0.9x) cos ωd + 0.25 sin ωd", _seasonal_trend),
    "damped_wave": Target(
        "e^(-γd) (cos ωd + 0.75x sin ωd)", _damped_wave, lambda lags: lags.damping
    ),
    "rhythm_envelope": Target("(0.25 + 0.85x) (0.65 cos ωd + 0.35 sin ω'd)", _rhythm_envelope),
    "motif_spacing": Target("x/(1 + x/4) (0.7 cos ω'd - 0.3 sin ω'd)", _motif_spacing),
    "jet_1": _jet(1),
    "jet_2": _jet(2),
    "jet_3": _jet(3),
    "scaled_jet_2": _scaled_jet(2),
    "scaled_jet_3": _scaled_jet(3),
}
