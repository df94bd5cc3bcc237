"""What the explorer of the whole space may be set to, with the controls that set it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["COORDS", "GROUPS", "STRETCHES", "Control", "Space"]

STRETCHES = ("none", "PI", "NTK", "YaRN", "Llama 3")
COORDS = ("raw", "scaled", "light cone")
SWITCH = ("yes", "no")


@dataclass(frozen=True)
class Space:
    """One point of the space of lag functions.

    The logit at lag d is the sum of five sectors::

        rotation    rot t^2 (sum_k cos w_k d + still) / (pairs + still)
        jet         jet sum_r A_r(d) cos theta(d)
        line        -slope rho(d)
        light cone  cone sum_r beta^r cos(w L asinh(d/L)),  beta = d / sqrt(d^2 + L^2)
        near lags   near where d < size, 0 beyond

    with w = 2 pi cycles / L. Jet and line share their coordinates: raw ``A_r = d^r/r! e^{-cd/L}`` and
    ``rho = d``, scaled ``A_r = (d/L)^r/r! e^{-cd/L}`` and ``rho = d/L``, light cone ``A_r = beta^r``
    and ``rho = asinh(d/L)``; theta is ``w d``, in the light cone ``w L asinh(d/L)``.

    Args:
        length: L, the training length in tokens.
        times: how many L the figures show.
        rot: gate of the rotation, nats.
        base: ratio of the ladder's ends.
        dim: channels over which the ladder runs, a multiple of 4.
        share: fraction of its pairs that turn, the fastest first; the others stand still.
        still: pairs beside the ladder that stand still.
        stretch: one of ``STRETCHES``.
        scale: s >= 1 of the stretch.
        fast: turns in L tokens from which a pair is kept (YaRN, Llama 3).
        slow: turns up to which it is divided by s.
        whole: "yes" rounds YaRN's ramp outwards to whole pairs.
        sharpen: "yes" multiplies q and k by YaRN's factor ``1 + 0.1 ln s``.
        coords: one of ``COORDS``.
        jet: gate of the Fourier jet, nats.
        orders: the orders r present, digits of 0 … 3 such as "01"; the light cone has the same.
        cycles: turns in L tokens, of both jets.
        damping: c, per L tokens.
        slope: nats per unit of rho.
        cone: gate of the light cone, nats.
        near: nats added to the nearest lags.
        size: how many lags are near.
    """

    length: int = 64
    times: int = 6
    rot: float = 0.0
    base: float = 10_000.0
    dim: int = 64
    share: float = 1.0
    still: int = 0
    stretch: str = "none"
    scale: float = 4.0
    fast: float = 32.0
    slow: float = 1.0
    whole: str = "yes"
    sharpen: str = "yes"
    coords: str = "scaled"
    jet: float = 0.0
    orders: str = "1"
    cycles: float = 3.0
    damping: float = 0.0
    slope: float = 0.0
    cone: float = 0.0
    near: float = 0.0
    size: int = 4

    def __post_init__(self) -> None:
        for name, known in (("stretch", STRETCHES), ("coords", COORDS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}: known are {', '.join(known)}")
        for name in ("whole", "sharpen"):
            if getattr(self, name) not in SWITCH:
                raise ValueError(f"{name} is {getattr(self, name)!r}: say yes or no")
        if set(self.orders) - set("0123"):
            raise ValueError(f"orders is {self.orders!r}: write digits from 0 to 3, such as '01'")
        if self.dim < 4 or self.dim % 4:
            raise ValueError(f"dim is {self.dim}: a multiple of 4 is needed, 4 or more")

    def changes(self, other: Space) -> dict[str, Any]:
        """Fields in which this point differs from another, with this one's values."""
        mine, theirs = asdict(self), asdict(other)
        return {f.name: mine[f.name] for f in fields(self) if mine[f.name] != theirs[f.name]}


@dataclass(frozen=True)
class Control:
    """How a reader sets one field.

    Args:
        name: field of :class:`Space`.
        label: what the reader sees, with the unit.
        low, high, step: of a slider.
        scale: 0 for the number itself; else the slider moves its logarithm to this base.
        options: of a choice; no slider then.
    """

    name: str
    label: str
    low: float = 0.0
    high: float = 1.0
    step: float = 1.0
    scale: int = 0
    options: tuple[str, ...] = ()


GROUPS: dict[str, tuple[Control, ...]] = {
    "Length": (
        Control("length", "training length L (tokens)", 4, 20, 1, scale=2),
        Control("times", "shown up to (times L)", 1, 32, 1),
    ),
    "Rotation": (
        Control("rot", "gate (nats)", 0, 16, 0.25),
        Control("base", "base", 1, 11, 0.05, scale=10),
        Control("dim", "channels of the ladder", 4, 512, 4),
        Control("share", "share of its pairs that turn", 0, 1, 0.125),
        Control("still", "pairs beside it that stand still", 0, 256, 8),
        Control("stretch", "stretch", options=STRETCHES),
        Control("scale", "factor s of the stretch", 1, 64, 1),
        Control("fast", "kept from (turns in L)", 1, 64, 1),
        Control("slow", "divided by s up to (turns in L)", 1, 64, 1),
        Control("whole", "YaRN's ramp in whole pairs", options=SWITCH),
        Control("sharpen", "YaRN's factor on q and k", options=SWITCH),
    ),
    "Jets and line": (
        Control("coords", "coordinates of jet and line", options=COORDS),
        Control("jet", "gate of the Fourier jet (nats)", 0, 4, 0.05),
        Control("orders", "orders"),
        Control("cycles", "turns in L tokens", 0, 16, 0.25),
        Control("damping", "damping c (per L)", 0, 8, 0.25),
        Control("slope", "slope of the line (nats per unit)", 0, 4, 0.005),
    ),
    "Light cone and near lags": (
        Control("cone", "gate of the light cone (nats)", 0, 4, 0.05),
        Control("near", "near lags (nats)", -4, 4, 0.25),
        Control("size", "how many lags are near", 1, 32, 1),
    ),
}
