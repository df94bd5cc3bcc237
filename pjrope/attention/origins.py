"""Where positions are counted from: a channel action may grow with its distance from there."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..conventions import untraced
from ..kernels.base import PositionKernel
from ..kernels.growth import FURTHEST


def grows_with_position(kernel: PositionKernel) -> bool:
    """True if channels grow with a position, and another origin would do as well."""
    return kernel.rotates and kernel.claims.relative and not kernel.any_origin


# What reads parameters stays outside compiled graphs, as in the block plan.
@untraced
def overflows_fp16(kernel: PositionKernel) -> bool:
    """True if fp16 would not hold what the kernel makes of channels far out."""
    bound = kernel.growth.bound
    return bound is not None and bound(float(FURTHEST)) > torch.finfo(torch.float16).max


@untraced
def about_middle(
    kernel: PositionKernel, number: torch.dtype, q_pos: Tensor, k_pos: Tensor, default: bool
) -> tuple[Tensor, Tensor, bool]:
    """Positions counted from the middle of their range, for a kernel that grows with position.

    Returns:
        q_pos, k_pos, and whether they spread too far for one origin; then they are left alone.
    """
    if default:
        queries, keys = q_pos.shape[-1], k_pos.shape[-1]
        low: Tensor | int = min(0, keys - queries)
        span = max(queries, keys)
    else:
        low = lowest = torch.minimum(q_pos.amin(-1, keepdim=True), k_pos.amin(-1, keepdim=True))
        highest = torch.maximum(q_pos.amax(-1, keepdim=True), k_pos.amax(-1, keepdim=True))
        span = int((highest - lowest).max()) if lowest.numel() else 0
    if span > 2 * kernel.reach(number):
        return q_pos, k_pos, True
    middle = low + span // 2
    return q_pos - middle, k_pos - middle, False


def without_padding(q_pos: Tensor, k_pos: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Positions with those of padding moved to the last real one of their row, if they lie behind it.

    A kernel that reads from its positions how long a text is must not count what nobody sees.

    Args:
        q_pos: ``(Q,)`` or ``(B, Q)``, aligned with the keys at the end.
        k_pos: ``(K,)`` or ``(B, K)``.
        real: ``(1 or B, 1 or K)`` boolean, False at padding.

    Returns:
        both, ``(1 or B, n)``.
    """
    q_pos, k_pos = (p if p.ndim == 2 else p[None] for p in (q_pos, k_pos))
    queries, keys = q_pos.shape[-1], k_pos.shape[-1]
    real = real.to(k_pos.device).expand(-1, keys)
    last = torch.where(real, k_pos, k_pos.amin(-1, keepdim=True)).amax(-1, keepdim=True)
    own = pad(real, (max(0, queries - keys), 0), value=True)[:, -queries:]
    return (
        torch.where(own, q_pos, torch.minimum(q_pos, last)),
        torch.where(real, k_pos, torch.minimum(k_pos, last)),
    )
