"""Positions: indices, lags and masks, frequency ladders, coordinates of the lag."""

from .coordinates import bounded_shear, linear, phase, rapidity, velocity
from .extensions import NTK, PI, Extension, Llama3, LongRoPE, YaRN
from .frequencies import geometric, truncated
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
    "truncated",
    "Extension",
    "Llama3",
    "LongRoPE",
    "NTK",
    "PI",
    "YaRN",
    "bounded_shear",
    "linear",
    "phase",
    "rapidity",
    "velocity",
]
