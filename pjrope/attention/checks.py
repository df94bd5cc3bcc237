"""Checks of an attention call: what does not fit is named, with what is needed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..conventions import as_positions
from ..kernels.base import PositionKernel
from ..kernels.growth import FURTHEST

# Powers below it leave parameters a factor of 1e10 in fp32, beside the room for content.
HARMLESS = 1e24


def harmless(kernel: PositionKernel) -> float:
    """Tokens up to which nothing is read to know that a kernel's numbers stay in fp32."""
    if kernel.degree == 0:
        return math.inf
    return HARMLESS ** (1 / kernel.degree) / kernel.steepness


def may_overflow(kernel: PositionKernel) -> bool:
    """True if some distance is not :func:`harmless`."""
    return harmless(kernel) < FURTHEST


def overflows(kernel: PositionKernel, distance: int, number: torch.dtype) -> bool:
    """True if the kernel's numbers may leave a number type at this distance.

    Args:
        kernel: of the call.
        distance: largest lag, or position for a kernel that is not relative, tokens.
        number: type in which biases and grown channels are computed.
    """
    near = distance <= harmless(kernel)
    return not near and not kernel.largest(float(distance)) <= torch.finfo(number).max


def check_overflow(kernel: PositionKernel, distance: int, number: torch.dtype) -> None:
    """Raise where a kernel :func:`overflows`."""
    if not overflows(kernel, distance, number):
        return
    raise ValueError(
        f"{type(kernel).__name__} leaves {number} at {kernel.overflow_at(number)} tokens, this call "
        f"reaches {distance}: use a lower order, smaller amplitudes or shear, a larger length, "
        "damping, or fp64 inputs"
    )


def largest_lag(q_pos: Tensor, k_pos: Tensor) -> int:
    """Largest distance between a query and a key of the same row, tokens.

    Args:
        q_pos: ``(Q,)`` or ``(B, Q)``.
        k_pos: ``(K,)`` or ``(B, K)``.
    """
    behind, ahead = q_pos.amax(-1) - k_pos.amin(-1), k_pos.amax(-1) - q_pos.amin(-1)
    return int(torch.maximum(behind, ahead).max())


def largest_position(q_pos: Tensor, k_pos: Tensor) -> int:
    """Largest distance of a query or key from position 0, tokens."""
    return int(torch.maximum(q_pos.abs().max(), k_pos.abs().max()))


def check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise unless q, k and v have shapes and dtypes that attention can join."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, (batch, heads, tokens, channels) is needed"
            )
    if k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"k {tuple(k.shape)} and v {tuple(v.shape)} differ in batch, heads or tokens"
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"q {tuple(q.shape)} and k {tuple(k.shape)} differ in batch or channels")
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"{q.shape[1]} query heads are no multiple of {k.shape[1]} key heads")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q, k, v have dtypes {q.dtype}, {k.dtype}, {v.dtype}: cast them to one")
    if not q.dtype.is_floating_point:
        raise ValueError(f"q, k, v have dtype {q.dtype}: attention needs floating-point numbers")
    if q.shape[2] == 0 or k.shape[2] == 0:
        raise ValueError(
            f"{q.shape[2]} queries and {k.shape[2]} keys: at least one of each is needed"
        )


def check_kernel(
    kernel: PositionKernel, heads: int, kv_heads: int, head_dim: int, who: str = "call"
) -> None:
    """Raise unless the kernel was made for these heads and channels."""
    wants = (
        ("query heads", kernel.bias_heads if kernel.biases else None, heads),
        ("key heads", kernel.rotary_heads, kv_heads),
        ("channels per head", kernel.head_dim, head_dim),
    )
    for what, wanted, given in wants:
        if wanted is not None and wanted != given:
            raise ValueError(
                f"{type(kernel).__name__} was made for {wanted} {what}, the {who} has {given}"
            )


def check_positions(
    q: Tensor, k: Tensor, q_pos: Tensor | None, k_pos: Tensor | None
) -> tuple[Tensor, Tensor, bool]:
    """Checked int64 positions of one rank, and whether they are the default ones."""
    queries, keys = q.shape[2], k.shape[2]
    if q_pos is None and k_pos is None:
        rows = torch.arange(keys, device=q.device)
        last = torch.arange(keys - queries, keys, device=q.device)
        return last, rows, True
    if k_pos is None and queries == keys:
        k_pos = q_pos
    if q_pos is None and queries <= keys:
        q_pos = k_pos[..., keys - queries :]
    if q_pos is None or k_pos is None:
        raise ValueError(
            f"positions of {queries} queries and {keys} keys: pass both q_pos and k_pos"
        )
    found = []
    for name, pos, count in (("q_pos", q_pos, queries), ("k_pos", k_pos, keys)):
        pos = as_positions(pos, name).to(q.device)
        if pos.shape not in ((count,), (q.shape[0], count), (1, count)):
            raise ValueError(
                f"{name} has shape {tuple(pos.shape)}, ({count},) or ({q.shape[0]}, {count}) is needed"
            )
        found.append(pos)
    if found[0].ndim != found[1].ndim:
        found = [p if p.ndim == 2 else p[None] for p in found]
    return found[0], found[1], False


def check_keep(keep: Tensor | None, shape: tuple[int, int, int, int]) -> Tensor | None:
    """``keep`` if it is a mask that broadcasts to ``(B, H, Q, K)``, or None."""
    if keep is None:
        return None
    if keep.dtype != torch.bool:
        raise ValueError(
            f"keep has dtype {keep.dtype}, a boolean mask is needed: True = may attend"
        )
    if keep.ndim < 2:
        raise ValueError(f"keep has shape {tuple(keep.shape)}, (..., Q, K) is needed")
    try:
        fits = torch.broadcast_shapes(keep.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"keep has shape {tuple(keep.shape)}, which does not broadcast to (B, H, Q, K) = {shape}: "
            "a (B, K) padding mask needs keep[:, None, None, :]"
        )
    return keep[None] if keep.ndim == 3 else keep  # (H, Q, K) must not be read as (B, Q, K)


def check_segments(
    segments: tuple[Tensor, Tensor] | None, q: Tensor, k: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Document ids of queries and keys in one rank, or None."""
    if segments is None:
        return None
    if not isinstance(segments, tuple | list) or len(segments) != 2:
        raise ValueError("segments is a pair (q_segments, k_segments) of document ids")
    for name, ids, count in (("q", segments[0], q.shape[2]), ("k", segments[1], k.shape[2])):
        if ids.shape not in ((count,), (q.shape[0], count), (1, count)):
            raise ValueError(
                f"{name} segments have shape {tuple(ids.shape)}, (B, {count}) is needed"
            )
    q_seg, k_seg = segments
    if q_seg.ndim != k_seg.ndim:
        q_seg, k_seg = (s if s.ndim == 2 else s[None] for s in (q_seg, k_seg))
    return q_seg, k_seg
