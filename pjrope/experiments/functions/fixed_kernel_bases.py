"""Teachers and bases of the PJ-RoPE protocol: lag functions, and columns that may span them.

With x = d/L, rapidity asinh(x), phase phi = L asinh(x) and velocity beta. Jets carry neither
gates nor factorials here: a span does not see them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...kernels.jets import powers
from ...positions import coordinates

__all__ = ["BASES", "GRAPE", "TEACHERS", "Basis", "Lags", "Teacher", "design"]

DAMPING = 0.1  # of the damped jets, teachers and bases alike
MAX_ORDER = 3


@dataclass(frozen=True)
class Lags:
    """Lags and the one frequency of teachers and bases.

    Args:
        d: ``(n,)`` lags as real numbers; their dtype is that of all that is made from them.
        length: L, tokens.
        cycles: turns of the frequency in L tokens.
    """

    d: Tensor
    length: int
    cycles: float

    @property
    def omega(self) -> float:
        """Radians per token."""
        return 2 * math.pi * self.cycles / self.length

    @property
    def x(self) -> Tensor:
        return coordinates.linear(self.d, self.length)

    @property
    def rapidity(self) -> Tensor:
        return coordinates.rapidity(self.d, self.length)

    @property
    def beta(self) -> Tensor:
        return coordinates.velocity(self.d, self.length)

    @property
    def wave(self) -> Tensor:
        """``cos wd``."""
        return torch.cos(self.omega * self.d)

    @property
    def slowing_wave(self) -> Tensor:
        """``cos w phi``."""
        return torch.cos(self.omega * coordinates.phase(self.d, self.length))

    def jets(self, order: int, damping: float = 0.0) -> list[Tensor]:
        """``x^r e^{-c x} (cos wd, sin wd)`` for r <= order."""
        amplitudes = powers(self.x, order, factorial=False) * torch.exp(-damping * self.x)
        return _both(amplitudes, self.omega * self.d)

    def lightcone(self, order: int) -> list[Tensor]:
        """``beta^r (cos w phi, sin w phi)`` for r <= order."""
        amplitudes = powers(self.beta, order, factorial=False)
        return _both(amplitudes, self.omega * coordinates.phase(self.d, self.length))


def _both(amplitudes: Tensor, theta: Tensor) -> list[Tensor]:
    return [row * wave for row in amplitudes for wave in (theta.cos(), theta.sin())]


@dataclass(frozen=True)
class Teacher:
    """A lag function with the sector and the order it is made of.

    Args:
        formula: in words of x, beta and phi.
        sector: "fj", "affine" or "lc": the one that holds most of it.
        order: highest jet order of that sector (of the jet, for a sum); None has no jet.
        values: lags → ``(n,)``.
    """

    formula: str
    sector: str
    order: int | None
    values: Callable[[Lags], Tensor]


def _jet(power: int, damping: float) -> Teacher:
    sign = {1: "x", 2: "x²", 3: "x³"}[power]
    decay = f"e^(-{damping}x) " if damping else ""
    return Teacher(
        f"{sign} {decay}cos ωd",
        "fj",
        power,
        lambda lags: lags.x**power * torch.exp(-damping * lags.x) * lags.wave,
    )


def _lc_core(lags: Lags) -> Tensor:
    return lags.slowing_wave * (1 + 0.4 * lags.beta + 0.2 * lags.beta**2)


TEACHERS: dict[str, Teacher] = {
    "phase": Teacher("cos ωd", "fj", 0, lambda lags: lags.wave),
    "linear": Teacher("x", "affine", None, lambda lags: lags.x),
    "first_jet": _jet(1, 0.0),
    "second_jet": _jet(2, DAMPING),
    "third_jet": _jet(3, DAMPING),
    "recency_weak_jet": Teacher(
        "-0.4x + 0.15x² cos ωd",
        "affine",
        2,
        lambda lags: -0.4 * lags.x + 0.15 * lags.x**2 * lags.wave,
    ),
    "lc_core": Teacher("cos ωφ (1 + 0.4β + 0.2β²)", "lc", 0, _lc_core),
    "lc_affine": Teacher(
        "cos ωφ (1 + 0.4β + 0.2β²) - 0.25 asinh x",
        "lc",
        0,
        lambda lags: _lc_core(lags) - 0.25 * lags.rapidity,
    ),
    # The GRAPE grid has its own: a recency, and jets without damping.
    "recency": Teacher("-x", "affine", None, lambda lags: -lags.x),
    "jet_1": _jet(1, 0.0),
    "jet_2": _jet(2, 0.0),
}


@dataclass(frozen=True)
class Basis:
    """Columns beside the constant, and what they are in words."""

    meaning: str
    columns: Callable[[Lags], Sequence[Tensor]]


def _jets(order: int, damping: float = 0.0, affine: bool = False) -> Basis:
    words = ["damped jets" if damping else "jets", f"of order <= {order}"]
    return Basis(
        " ".join(words) + (", and x" if affine else ""),
        lambda lags: [*lags.jets(order, damping), *([lags.x] if affine else [])],
    )


_ORDERS = range(1, MAX_ORDER + 1)
_ROPE = Basis("cos ωd, sin ωd", lambda lags: lags.jets(0))
_ALIBI = Basis("x", lambda lags: [lags.x])
_ROPE_ALIBI = Basis("cos ωd, sin ωd and x", lambda lags: [*lags.jets(0), lags.x])

# GRAPE's special cases by their own names: the columns of rope, alibi and rope_alibi.
GRAPE = {"grape_m": _ROPE, "grape_a": _ALIBI, "grape_ma": _ROPE_ALIBI}

BASES: dict[str, Basis] = {
    "rope": _ROPE,
    "alibi": _ALIBI,
    "asinh": Basis("asinh x", lambda lags: [lags.rapidity]),
    "rope_alibi": _ROPE_ALIBI,
    **{f"jets_{r}": _jets(r) for r in _ORDERS},
    **{f"damped_{r}": _jets(r, DAMPING) for r in _ORDERS},
    **{f"damped_affine_{r}": _jets(r, DAMPING, affine=True) for r in _ORDERS},
    "lightcone": Basis("light-cone jets", lambda lags: lags.lightcone(MAX_ORDER)),
    "lightcone_asinh": Basis(
        "light-cone jets and asinh x", lambda lags: [*lags.lightcone(MAX_ORDER), lags.rapidity]
    ),
    # Not among the protocol's fifteen.
    "jets_affine_2": _jets(2, affine=True),
    **GRAPE,
}


def design(name: str, lags: Lags, fitted: int) -> Tensor:
    """Columns of a basis, each with mean 0 and deviation 1 over the fitted lags, after a constant.

    Args:
        name: in `BASES`.
        lags: the first `fitted` of them are those of the fit.

    Returns:
        ``(n, 1 + columns)``.
    """
    columns = torch.stack(list(BASES[name].columns(lags)), 1)
    mean, deviation = columns[:fitted].mean(0), columns[:fitted].std(0).clamp(min=1e-8)
    return torch.cat([torch.ones_like(columns[:, :1]), (columns - mean) / deviation], 1)
