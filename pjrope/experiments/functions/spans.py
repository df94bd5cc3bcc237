"""Columns over the lags: the bases that kernels offer, and the lags they are built from.

A basis is a set of columns over the lags d, the constant always among them. Bases and teachers take
their frequencies from one ladder, so that no basis is short of a frequency. ``x = d/L``, rapidity
``asinh x``, ``phi = L asinh x`` and velocity beta. Shear saturates on the *lag* here, unlike in the
stabilized kernel, which saturates absolute positions. Jets carry no gates: a span does not see them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...positions import coordinates
from ...positions.frequencies import geometric

__all__ = ["BASES", "GRAPE", "Basis", "Lags", "design"]

MAX_ORDER = 3


@dataclass(frozen=True)
class Lags:
    """Lags with what columns and teachers are built from.

    Args:
        d: ``(n,)`` lags as real numbers; their dtype is that of every column.
        length: L, how many lags are fitted, tokens.
        cycles: turns of the one frequency in L tokens; None for a ladder.
        head_dim, frequencies: the ladder is the first F of ``10000^(-2k/D)``, radians per token.
        index, index2: the rungs of the teachers' frequencies w and w'.
        damping: gamma L of the bases that carry the reference's small damping, and of one teacher.
        scaled: c, the gamma L of the damped bases and teachers of the PJ-RoPE protocol.
        split: L times the distance between the parts of a split frequency, radians.
        matched: gamma L of the teacher at hand.
    """

    d: Tensor
    length: int
    cycles: float | None = None
    head_dim: int = 0
    frequencies: int = 1
    index: int = 0
    index2: int = 0
    damping: float = 0.1024
    scaled: float = 0.1
    split: float = 0.1
    matched: float = 0.0

    @property
    def x(self) -> Tensor:
        """``d / L``."""
        return coordinates.linear(self.d, self.length)

    @property
    def saturating(self) -> Tensor:
        """``x / (1 + x)``, the bounded shear in units of L."""
        return coordinates.bounded_shear(self.d, self.length) / self.length

    @property
    def rapidity(self) -> Tensor:
        return coordinates.rapidity(self.d, self.length)

    @property
    def beta(self) -> Tensor:
        return coordinates.velocity(self.d, self.length)

    @property
    def phi(self) -> Tensor:
        """``L asinh x``, tokens."""
        return coordinates.phase(self.d, self.length)

    @property
    def omega(self) -> Tensor:
        """The teachers' frequency, radians per token."""
        return self.ladder()[self.index]

    @property
    def omega2(self) -> Tensor:
        return self.ladder()[self.index2]

    def ladder(self, fineness: int = 1) -> Tensor:
        """``(fineness F,)`` frequencies over the same range, so many times as dense."""
        if self.cycles is not None:
            turns = torch.tensor([self.cycles], dtype=torch.float64)
            return (2 * math.pi * turns / self.length).to(self.d)
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

    def waves(self, omega: Tensor | None = None, path: Tensor | None = None) -> Tensor:
        """``cos wp`` and ``sin wp`` over the ladder or other frequencies, p = d: ``(n, 2 F)``."""
        p = self.d if path is None else path
        angle = p[:, None] * (self.ladder() if omega is None else omega)
        return torch.cat([angle.cos(), angle.sin()], 1)

    def jets(self, max_order: int, rate: float = 0.0, t: Tensor | None = None) -> Tensor:
        """``t^r / r! e^{-rate x} (cos wd, sin wd)``, r <= max_order: ``(n, 2 F (max_order + 1))``.

        Args:
            max_order: R.
            rate: gamma L.
            t: ``(n,)`` the shear; None: x.
        """
        t = self.x if t is None else t
        parts = [self.waves() * self.decay(rate)[:, None]]
        for r in range(1, max_order + 1):
            parts.append(parts[-1] * (t / r)[:, None])
        return torch.cat(parts, 1)

    def lightcone(self, max_order: int) -> Tensor:
        """``beta^r (cos w phi, sin w phi)``, r <= max_order: ``(n, 2 F (max_order + 1))``."""
        parts = [self.waves(path=self.phi)]
        for _ in range(max_order):
            parts.append(parts[-1] * self.beta[:, None])
        return torch.cat(parts, 1)


@dataclass(frozen=True)
class Basis:
    """Columns beside the constant, and what they are in words."""

    meaning: str
    columns: Callable[[Lags], Sequence[Tensor]]


def _rope(meaning: str, ladder: Callable[[Lags], Tensor]) -> Basis:
    return Basis(f"cos, sin {meaning}", lambda lags: [lags.waves(ladder(lags))])


def _jordan(order: int, rate: str = "", saturating: bool = False) -> Basis:
    """A Jordan block of an order; rate names the field of `Lags` that holds gamma L, "" for none."""
    damping = {
        "": "no damping",
        "damping": "the reference's damping",
        "scaled": "damping c/L",
        "matched": "the target's own damping",
    }[rate]

    def columns(lags: Lags) -> list[Tensor]:
        t = lags.saturating if saturating else lags.x
        return [lags.jets(order - 1, getattr(lags, rate) if rate else 0.0, t)]

    shear = "saturating" if saturating else "true"
    return Basis(f"jets of order {order}, {shear} lag, {damping}", columns)


def _jets(order: int, damped: bool = False, affine: bool = False) -> Basis:
    words = f"{'damped jets' if damped else 'jets'} of order <= {order}"
    return Basis(
        words + (", and x" if affine else ""),
        lambda lags: [
            lags.jets(order, lags.scaled if damped else 0.0),
            *([lags.x] if affine else []),
        ],
    )


def _tail(lags: Lags) -> list[Tensor]:
    """A Jordan block of frequency 0, with the saturating lag: ``e^{-gamma d} (1, tau)``."""
    decay = lags.decay(lags.damping)
    return [decay, lags.saturating * decay]


_ROPE = _rope("at each frequency", lambda lags: lags.ladder())
_ALIBI = Basis("x", lambda lags: [lags.x])
_ROPE_ALIBI = Basis("cos, sin at each frequency, and x", lambda lags: [lags.waves(), lags.x])
_ORDERS = range(1, MAX_ORDER + 1)

# GRAPE's special cases by their own names: the columns of rope, alibi and rope_alibi.
GRAPE = {"grape_m": _ROPE, "grape_a": _ALIBI, "grape_ma": _ROPE_ALIBI}

BASES: dict[str, Basis] = {
    "none": Basis("the constant alone", lambda lags: []),
    **{"rope": _ROPE, "alibi": _ALIBI, "rope_alibi": _ROPE_ALIBI},
    # Of the Jordan-RoPE probes: m is the order of the block.
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
    "jordan_bounded_undamped": _jordan(2, saturating=True),
    "jordan_exact": _jordan(2, "damping"),
    **{
        f"jordan_{kind}{'' if m == 2 else f'_m{m}'}": _jordan(m, rate, kind == "bounded")
        for kind, rate in (("bounded", "damping"), ("undamped", ""), ("matched", "matched"))
        for m in (2, 3, 4)
    },
    **{f"jordan_scaled_m{m}": _jordan(m, "scaled") for m in (3, 4)},
    # Of the PJ-RoPE protocol: r is the highest power of x. jets_affine_2 is ours.
    "asinh": Basis("asinh x", lambda lags: [lags.rapidity]),
    **{f"jets_{r}": _jets(r) for r in _ORDERS},
    **{f"damped_{r}": _jets(r, damped=True) for r in _ORDERS},
    **{f"damped_affine_{r}": _jets(r, damped=True, affine=True) for r in _ORDERS},
    "lightcone": Basis("light-cone jets", lambda lags: [lags.lightcone(MAX_ORDER)]),
    "lightcone_asinh": Basis(
        "light-cone jets and asinh x", lambda lags: [lags.lightcone(MAX_ORDER), lags.rapidity]
    ),
    "jets_affine_2": _jets(2, affine=True),
    **GRAPE,
}


def design(name: str, lags: Lags, standardized: int = 0) -> Tensor:
    """The columns of a basis, the constant first: ``(n, 1 + columns)``.

    Args:
        name: in `BASES`.
        lags: what the columns are built from.
        standardized: columns get mean 0 and deviation 1 over the first so many lags; 0: none does.
    """
    parts = [part[:, None] if part.ndim == 1 else part for part in BASES[name].columns(lags)]
    columns = torch.cat([torch.ones_like(lags.d)[:, None], *parts], 1)
    if standardized:
        made, near = columns[:, 1:], columns[:standardized, 1:]
        columns[:, 1:] = (made - near.mean(0)) / near.std(0).clamp(min=1e-8)
    return columns
