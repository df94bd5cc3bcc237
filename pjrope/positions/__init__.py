"""Positions: indices, lags and masks, frequency ladders, coordinates of the lag."""

from .coordinates import bounded_shear, linear, phase, rapidity, velocity
from .frequencies import NTK, PI, Extension, YaRN, geometric
from .indices import cached_positions, full_positions, left_padded_positions, packed_positions
from .lags import causal_keep, lags, segment_keep, visible_keys

__all__ = [
    "cached_positions",
    "full_positions",
    "left_padded_positions",
    "packed_positions",
    "causal_keep",
    "lags",
    "segment_keep",
    "visible_keys",
    "geometric",
    "Extension",
    "NTK",
    "PI",
    "YaRN",
    "bounded_shear",
    "linear",
    "phase",
    "rapidity",
    "velocity",
]
