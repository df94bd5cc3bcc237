"""Position kernels: what attention may know about where a token stands."""

from .affine import Affine
from .alibi import ALiBi, alibi_slopes
from .base import Claims, PositionKernel, kernel_from_spec
from .composition import DirectSum, Sum, direct_sum
from .fourier_jet import FourierJet
from .jordan import DampedRoPE, JordanRoPE, direct_sum_grid
from .layouts import to_half, to_interleaved
from .lightcone import LightCone
from .mixture import JordanMixture
from .near import NearTable, T5Bias, t5_buckets
from .nope import NoPE
from .pj import PJBias, PJInit
from .pj_rotary import PJRotary
from .rope import RoPE

__all__ = [
    "Affine",
    "ALiBi",
    "alibi_slopes",
    "Claims",
    "DampedRoPE",
    "DirectSum",
    "direct_sum",
    "direct_sum_grid",
    "FourierJet",
    "JordanMixture",
    "JordanRoPE",
    "kernel_from_spec",
    "LightCone",
    "NearTable",
    "NoPE",
    "PJBias",
    "PJInit",
    "PJRotary",
    "PositionKernel",
    "RoPE",
    "Sum",
    "T5Bias",
    "t5_buckets",
    "to_half",
    "to_interleaved",
]
