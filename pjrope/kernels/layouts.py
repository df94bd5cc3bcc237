"""How channels of a head are paired: (2k, 2k+1), or (k, k + D/2) as Hugging Face models do."""

from __future__ import annotations

import torch
from torch import Tensor


def to_half(channels: Tensor) -> Tensor:
    """Interleaved channels in the half layout: even ones first, then odd ones.

    [r0, i0, r1, i1] -> [r0, r1, i0, i1]. Convert the rows of q and k projections, never v.

    Args:
        channels: ``(..., D)``, D even.
    """
    return torch.cat([channels[..., 0::2], channels[..., 1::2]], dim=-1)


def to_interleaved(channels: Tensor) -> Tensor:
    """Half-layout channels interleaved, the inverse of :func:`to_half`."""
    real, imaginary = channels.chunk(2, dim=-1)
    return torch.stack([real, imaginary], dim=-1).flatten(-2)


def reads_as_complex(x: Tensor) -> bool:
    """True if pairs of channels lie in memory as complex numbers do: one pass instead of six."""
    if torch.compiler.is_compiling():  # inductor has no complex numbers
        return False
    *others, last = x.stride()
    return last == 1 and x.storage_offset() % 2 == 0 and all(step % 2 == 0 for step in others)


def turned_pairs(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Pairs of channels times ``cos + i sin``.

    Args:
        x: ``(..., D)``.
        cos, sin: broadcastable to ``(..., D/2)``, in the dtype of x.
        layout: "interleaved" or "half".
    """
    if layout == "half":
        u, v = x.chunk(2, dim=-1)
        return torch.cat([u * cos - v * sin, u * sin + v * cos], dim=-1)
    if reads_as_complex(x):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)
    u, v = x[..., 0::2], x[..., 1::2]
    return torch.stack([u * cos - v * sin, u * sin + v * cos], dim=-1).flatten(-2)


def turned_slots(slots: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The same of pairs that have an axis of their own, ``(..., 2)``; copied where they must be."""
    if torch.compiler.is_compiling():  # inductor has no complex numbers
        u, v = slots.unbind(-1)
        return torch.stack([u * cos - v * sin, u * sin + v * cos], dim=-1)
    if slots.stride(-1) != 1 or any(step % 2 for step in slots.stride()[:-1]):
        slots = slots.contiguous()
    if slots.storage_offset() % 2:
        slots = slots.clone()
    return torch.view_as_real(torch.view_as_complex(slots) * torch.complex(cos, sin))
