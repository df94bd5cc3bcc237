"""The time that damping and shear of a Jordan block follow: where its forms differ."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..positions.coordinates import bounded_shear
from .lag_charts import LagCharts


@dataclass(frozen=True)
class Shear:
    """Shear time of a block, and the unit of its rates.

    Attributes:
        charts: coordinates that phases, damping and shear follow.
        per_length: rates are per L tokens, else per token.
        of_position: the shear saturates, ``tau(p) = p/(1 + |p|/L)`` of the position.
        of_lag: the shear saturates in the lag, which no action on channels can do.
        damping: initial damping where none is given, in the unit of the rates.
    """

    charts: LagCharts
    per_length: bool = True
    of_position: bool = False
    of_lag: bool = False
    damping: float = 1.0

    @property
    def length(self) -> float:
        """L, tokens."""
        return self.charts.length

    @property
    def per_token(self) -> float:
        """What turns a rate into one per token."""
        return 1 / self.length if self.per_length else 1.0

    @property
    def saturates(self) -> bool:
        """True if the shear stays bounded by itself, whatever the coordinates."""
        return self.of_position or self.of_lag

    @property
    def grows(self) -> bool:
        """True if the shear has no bound."""
        return not (self.saturates or self.charts.bent_amplitude)

    def relative(self, sheared: bool, damped: bool) -> bool:
        """True if a block with these rates depends on positions through their lag."""
        bent = self.charts.bent_amplitude and (sheared or damped)
        return not (self.charts.bent_phase or bent or (self.of_position and sheared))

    def time(self, pos: Tensor) -> Tensor:
        """What eta multiplies: positions or lags in the unit of the rates, in the phase dtype."""
        if self.saturates:
            return bounded_shear(pos, self.length)
        return self.charts.amplitude(pos) * self.per_token


def shear_of(form: str, charts: LagCharts) -> Shear:
    """The shear of a form of :class:`JordanRoPE`.

    Args:
        form: "scaled", "exact", "stabilized" or "lag".
        charts: coordinates of the blocks.

    Raises:
        ValueError: an unknown form, or one that saturates by itself along a light cone.
    """
    options: dict[str, dict[str, bool]] = {
        "scaled": {},
        "exact": {"per_length": False},
        "stabilized": {"per_length": False, "of_position": True},
        "lag": {"per_length": False, "of_lag": True},
    }
    if form not in options:
        raise ValueError(f"form is {form!r}, known are {tuple(options)}")
    shear = Shear(charts, **options[form], damping=1.0 if form == "scaled" else 1e-4)
    if shear.saturates and (charts.bent_phase or charts.bent_amplitude):
        raise ValueError(
            f"form is {form!r}, whose shear is bent already: coordinate='lightcone' takes "
            "form='scaled' or 'exact'"
        )
    return shear


def toeplitz_product(slots: Tensor, powers: list[Tensor], *, key: bool) -> Tensor:
    """``1 + sum_n powers[n-1] N^n`` on keys, its transpose on queries.

    Args:
        slots: ``(..., order, 2)``.
        powers: order - 1 coefficients, broadcastable to ``(..., 2)``.
        key: N maps slot r+1 into slot r for keys, r into r+1 for queries.
    """
    z, out = slots.unbind(-2), []
    for r, total in enumerate(z):
        for power, source in zip(powers, z[r + 1 :] if key else z[:r][::-1], strict=False):
            total = torch.addcmul(total, power, source)
        out.append(total)
    return torch.stack(out, dim=-2)
