"""The position methods of the byte models, by name.

A name is a base and, after its last underscore, perhaps one thing beside it: ``alibi_table8`` is
ALiBi with a near-lag table of eight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...kernels import (
    Affine,
    ALiBi,
    FourierJet,
    LightCone,
    NearTable,
    NoPE,
    PJBias,
    PJRotary,
    PositionKernel,
    RoPE,
    T5Bias,
)
from ...kernels.alibi import alibi_slopes
from ...positions import NTK

__all__ = ["METHODS", "SECTORS", "learned_slopes", "make_kernel", "mixers"]

METHODS = {
    "none": "No position but the causal mask.",
    "rope": "RoPE.",
    "rope_ntk": "RoPE with dynamic NTK scaling beyond the training length.",
    "alibi": "ALiBi's fixed slopes, a power of two a head.",
    "affine": "Learned slopes, all heads start at 2 nats per training length.",
    "affine_fast": "The same, and slopes learn ten times as fast.",
    "affine_spread": "Learned slopes that start at ALiBi's.",
    "rope_alibi": "RoPE and ALiBi.",
    "rope_affine": "RoPE and learned slopes that start at 2.",
    "rope_ntk_affine": "The same weights, RoPE scaled by dynamic NTK.",
    "rope_affine_spread": "RoPE and learned slopes that start at ALiBi's.",
    "rope_ntk_affine_spread": "The same weights, RoPE scaled by dynamic NTK.",
    "fj": "Fourier jets of orders 0 to 3.",
    "lc": "Light-cone terms of orders 0 to 3.",
    "lc_affine": "Light cone and learned slopes, gated.",
    "full": "Fourier jets, learned slopes and light cone, gated.",
    "alibi_lc": "ALiBi's fixed slopes and a light cone beside them, no gate.",
    "pj_rotary": "PJ-rotary of order 2.",
    "alibi_table4": "ALiBi and a number for each of the 4 nearest lags.",
    "alibi_table8": "ALiBi and a number for each of the 8 nearest lags.",
    "alibi_table16": "ALiBi and a number for each of the 16 nearest lags.",
    "alibi_t5": "ALiBi and T5's 32 buckets, to 128 tokens.",
    "alibi_cosines": "ALiBi and one undamped cosine a head.",
    "alibi_straight": "ALiBi and light-cone amplitudes over a straight phase.",
    "alibi_conv": "ALiBi, and a convolution over 4 tokens before attention.",
    "alibi_shift": "ALiBi, and channels mixed with the token before, ahead of attention.",
    "rope_alibi_table8": "RoPE, ALiBi and a number for each of the 8 nearest lags.",
    "affine_spread_table8": "Learned slopes that start at ALiBi's, and a table of 8.",
}
SECTORS = {
    "fj": ("fj",),
    "lc": ("lc",),
    "lc_affine": ("affine", "lc"),
    "full": ("fj", "affine", "lc"),
}
MAX_ORDER = 3
_MIXERS: dict[str, dict[str, Any]] = {"conv": {"short_conv": 4}, "shift": {"token_shift": True}}


def _beside(heads: int, length: int) -> dict[str, Callable[[], PositionKernel | None]]:
    """What may stand beside a base, by the last part of the name."""
    return {
        "table4": lambda: NearTable(heads, 4),
        "table8": lambda: NearTable(heads, 8),
        "table16": lambda: NearTable(heads, 16),
        "t5": lambda: T5Bias(heads),
        "cosines": lambda: FourierJet(heads, length, max_order=0, damping=0.0),
        "lc": lambda: LightCone(heads, length, max_order=MAX_ORDER),
        "straight": lambda: LightCone(heads, length, max_order=MAX_ORDER, parts="amplitude"),
        "conv": lambda: None,
        "shift": lambda: None,
    }


def make_kernel(method: str, head_dim: int, heads: int, length: int) -> PositionKernel:
    """The position kernel of a method.

    Args:
        method: one of ``METHODS``.
        head_dim: D.
        heads: H.
        length: training length L, tokens.

    Raises:
        ValueError: an unknown method.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r}: there are {', '.join(METHODS)}")
    if method in SECTORS:
        return PJBias(heads, length, max_order=MAX_ORDER, sectors=SECTORS[method])
    if method == "pj_rotary":
        return PJRotary(head_dim, length)
    base, _, last = method.rpartition("_")
    beside = _beside(heads, length)
    parts = _base(base if last in beside else method, head_dim, heads, length)
    if last in beside and (extra := beside[last]()) is not None:
        parts.append(extra)
    return sum(parts[1:], parts[0]) if parts else NoPE()


def _base(method: str, head_dim: int, heads: int, length: int) -> list[PositionKernel]:
    parts: list[PositionKernel] = []
    if method.startswith("rope"):
        parts.append(RoPE(head_dim, extension=NTK(length=length) if "ntk" in method else None))
    if method.endswith("alibi"):
        parts.append(ALiBi(heads))
    elif method.endswith("spread"):
        parts.append(Affine(heads, length, slope=alibi_slopes(heads) * length))
    elif "affine" in method:
        parts.append(Affine(heads, length))
    return parts


def mixers(method: str) -> dict[str, Any]:
    """Options of :class:`~pjrope.DecoderConfig` that a method needs beside its kernel."""
    return dict(_MIXERS.get(method.rpartition("_")[2], {}))


def learned_slopes(kernels: Iterable[PositionKernel]) -> list[list[float]] | None:
    """Affine slopes by layer and head, nats per L tokens; None where nothing of the kind learns."""
    found = [m.slope.tolist() for k in kernels for m in k.modules() if isinstance(m, Affine)]
    return found or None
