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
