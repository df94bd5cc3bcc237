"""Lag functions of known make: what the bases are fitted to, what the unions learn.

With ``x = d/L``, ``phi = L asinh x`` and velocity beta. Of two protocols; a function that both have
under different names stands here once, under both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .spans import Lags

__all__ = ["TEACHERS", "Teacher"]

DRIFT = 5e-5


@dataclass(frozen=True)
class Teacher:
    """A lag function, and the sector and the order it is made of.

    Args:
        formula: in words of x, beta and phi.
        sector: "fj", "affine" or "lc": the one that holds most of it; "" where nobody asks.
        order: highest jet order of that sector (of the jet, for a sum); None has no jet.
        values: lags → ``(n,)``.
        damping: lags → its gamma L.
    """

    formula: str
    sector: str
    order: int | None
    values: Callable[[Lags], Tensor]
    damping: Callable[[Lags], float] = lambda lags: 0.0


def _cos(lags: Lags) -> Tensor:
    return torch.cos(lags.omega * lags.d)


def _sin(lags: Lags) -> Tensor:
    return torch.sin(lags.omega * lags.d)


def _jet(power: int) -> Teacher:
    sign = {1: "x", 2: "x²", 3: "x³"}[power]
    return Teacher(f"{sign} cos ωd", "fj", power, lambda lags: lags.x**power * _cos(lags))


def _damped_jet(power: int) -> Teacher:
    sign = {2: "x²", 3: "x³"}[power]
    return Teacher(
        f"{sign} e^(-0.1x) cos ωd",
        "fj",
        power,
        lambda lags: lags.x**power * lags.decay(lags.scaled) * _cos(lags),
        lambda lags: lags.scaled,
    )


def _lc_core(lags: Lags) -> Tensor:
    return torch.cos(lags.omega * lags.phi) * (1 + 0.4 * lags.beta + 0.2 * lags.beta**2)


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


_JETS = {power: _jet(power) for power in (1, 2, 3)}
_DAMPED = {power: _damped_jet(power) for power in (2, 3)}

TEACHERS: dict[str, Teacher] = {
    "phase": Teacher("cos ωd", "fj", 0, _cos),
    "linear": Teacher("x", "affine", None, lambda lags: lags.x),
    "recency": Teacher("-x", "affine", None, lambda lags: -lags.x),
    **{"jet_1": _JETS[1], "jet_2": _JETS[2], "jet_3": _JETS[3]},
    **{"first_jet": _JETS[1], "second_jet": _DAMPED[2], "third_jet": _DAMPED[3]},
    "recency_weak_jet": Teacher(
        "-0.4x + 0.15x² cos ωd",
        "affine",
        2,
        lambda lags: -0.4 * lags.x + 0.15 * lags.x**2 * _cos(lags),
    ),
    "lc_core": Teacher("cos ωφ (1 + 0.4β + 0.2β²)", "lc", 0, _lc_core),
    "lc_affine": Teacher(
        "cos ωφ (1 + 0.4β + 0.2β²) - 0.25 asinh x",
        "lc",
        0,
        lambda lags: _lc_core(lags) - 0.25 * lags.rapidity,
    ),
    # The Jordan-RoPE probes: the product, what is not quite in its span, and damped jets.
    "mixed": _JETS[1],
    "phase_drift": Teacher(
        "cos(1.00005 ωd)", "", None, lambda lags: torch.cos(lags.omega * (1 + DRIFT) * lags.d)
    ),
    "seasonal_trend": Teacher("(0.35 + 0.9x) cos ωd + 0.25 sin ωd", "", None, _seasonal_trend),
    "damped_wave": Teacher(
        "e^(-γd) (cos ωd + 0.75x sin ωd)", "", None, _damped_wave, lambda lags: lags.damping
    ),
    "rhythm_envelope": Teacher(
        "(0.25 + 0.85x) (0.65 cos ωd + 0.35 sin ω'd)", "", None, _rhythm_envelope
    ),
    "motif_spacing": Teacher("x/(1 + x/4) (0.7 cos ω'd - 0.3 sin ω'd)", "", None, _motif_spacing),
    **{"scaled_jet_2": _DAMPED[2], "scaled_jet_3": _DAMPED[3]},
}
