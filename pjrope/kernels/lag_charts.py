"""Which coordinate of a position turns a channel, and which one grows it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..conventions import phase_dtype
from ..positions import coordinates
from .lightcone import PARTS
from .rope_checks import COORDINATES


@dataclass(frozen=True)
class LagCharts:
    """Phases and amplitudes along the position itself, or along a light cone's coordinates.

    Attributes:
        length: L, tokens.
        bent_phase: phases follow ``L asinh(p/L)``.
        bent_amplitude: damping and shear follow ``L beta(p)``, which stays below L.
    """

    length: float
    bent_phase: bool = False
    bent_amplitude: bool = False

    def phase(self, pos: Tensor) -> Tensor:
        """What a frequency multiplies, tokens, in the phase dtype."""
        if self.bent_phase:
            return coordinates.phase(pos, self.length)
        return pos.to(phase_dtype(pos.device))

    def amplitude(self, pos: Tensor) -> Tensor:
        """What damping and shear multiply, tokens, in the phase dtype."""
        if self.bent_amplitude:
            return self.length * coordinates.velocity(pos, self.length)
        return pos.to(phase_dtype(pos.device))


def charts_of(length: float, coordinate: str, parts: str) -> LagCharts:
    """The coordinates that the words of an action's constructor mean.

    Args:
        length: L, tokens.
        coordinate: "linear" or "lightcone".
        parts: of the light cone, as for :class:`LightCone`: "both", "phase" or "amplitude".

    Raises:
        ValueError: an unknown word, or parts of no light cone.
    """
    if coordinate not in COORDINATES:
        raise ValueError(f"coordinate is {coordinate!r}, known are {COORDINATES}")
    if parts not in PARTS:
        raise ValueError(f"parts is {parts!r}, known are {PARTS}")
    if coordinate == "linear":
        if parts != "both":
            raise ValueError(
                f"parts is {parts!r} and coordinate 'linear': only coordinate='lightcone' has parts"
            )
        return LagCharts(length)
    return LagCharts(length, parts != "amplitude", parts != "phase")
