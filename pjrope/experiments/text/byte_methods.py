"""The position methods of the byte models, by name."""

from __future__ import annotations

from collections.abc import Iterable

from ...kernels import Affine, ALiBi, LightCone, NoPE, PJBias, PJRotary, PositionKernel, RoPE
from ...kernels.alibi import alibi_slopes
from ...positions import NTK

__all__ = ["METHODS", "learned_slopes", "make_kernel"]

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
}
_SECTORS = {
    "fj": ("fj",),
    "lc": ("lc",),
    "lc_affine": ("affine", "lc"),
    "full": ("fj", "affine", "lc"),
}
MAX_ORDER = 3


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
    if method in _SECTORS:
        return PJBias(heads, length, max_order=MAX_ORDER, sectors=_SECTORS[method])
    if method == "pj_rotary":
        return PJRotary(head_dim, length)
    if method == "alibi_lc":
        return ALiBi(heads) + LightCone(heads, length, max_order=MAX_ORDER)
    parts: list[PositionKernel] = []
    if method.startswith("rope"):
        parts.append(RoPE(head_dim, extension=NTK(length=length) if "ntk" in method else None))
    if method.endswith("alibi"):
        parts.append(ALiBi(heads))
    elif method.endswith("spread"):
        parts.append(Affine(heads, length, slope=alibi_slopes(heads) * length))
    elif "affine" in method:
        parts.append(Affine(heads, length))
    return sum(parts[1:], parts[0]) if parts else NoPE()


def learned_slopes(kernels: Iterable[PositionKernel]) -> list[list[float]] | None:
    """Affine slopes by layer and head, nats per L tokens; None where nothing of the kind learns."""
    found = [m.slope.tolist() for k in kernels for m in k.modules() if isinstance(m, Affine)]
    return found or None
