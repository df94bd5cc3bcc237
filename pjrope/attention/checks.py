"""Checks of an attention call: what does not fit is named, with what is needed."""

from __future__ import annotations

import math
from numbers import Integral

import torch
from torch import Tensor

from ..conventions import as_positions, as_tensor, exporting, wide
from ..kernels.base import PositionKernel


def check_tensors(q: Tensor, k: Tensor, v: Tensor, *, widened: bool = False) -> None:
    """Raise unless q, k and v have shapes and dtypes that attention can join.

    Args:
        q, k, v: of the call.
        widened: the keys come rotated, perhaps with more channels than the queries, and in fp32.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, (batch, heads, tokens, channels) is needed"
            )
        _check_one_device(name, x, q.device)
    if k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"k {tuple(k.shape)} and v {tuple(v.shape)} differ in batch, heads or tokens"
        )
    if q.shape[0] != k.shape[0] or (q.shape[3] != k.shape[3] and not widened):
        raise ValueError(f"q {tuple(q.shape)} and k {tuple(k.shape)} differ in batch or channels")
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"{q.shape[1]} query heads are no multiple of {k.shape[1]} key heads")
    if not (q.dtype == v.dtype and (k.dtype == q.dtype or (widened and k.dtype == wide(q)))):
        raise ValueError(f"q, k, v have dtypes {q.dtype}, {k.dtype}, {v.dtype}: cast them to one")
    if not q.dtype.is_floating_point:
        raise ValueError(f"q, k, v have dtype {q.dtype}: attention needs floating-point numbers")
    if q.shape[2] == 0 or k.shape[2] == 0:
        raise ValueError(
            f"{q.shape[2]} queries and {k.shape[2]} keys: at least one of each is needed"
        )


def _check_one_device(name: str, x: Tensor, device: torch.device) -> None:
    """Raise where attention would have to reach over several devices."""
    if hasattr(x, "placements"):  # a DTensor; to import its class takes longer than a call
        raise ValueError(
            f"{name} is spread over devices {tuple(x.placements)}: attend works on one; spread batch or "
            f"heads and pass {name}.to_local(), or bound the reach with window=…; for a rotation alone "
            "there is torch's context_parallel on rotated q and k"
        )
    if x.device != device:
        raise ValueError(
            f"q is on {device} and {name} on {x.device}: attend works on one device; move {name} there, or "
            "split heads between devices"
        )


def check_kernel(
    kernel: PositionKernel, heads: int, kv_heads: int, head_dim: int | None, who: str = "call"
) -> None:
    """Raise unless the kernel was made for these heads and channels (None: already rotated)."""
    wants = (
        ("query heads", kernel.bias_heads if kernel.biases else None, heads),
        ("key heads", None if head_dim is None else kernel.rotary_heads, kv_heads),
        ("channels per head", None if head_dim is None else kernel.head_dim, head_dim),
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
    q_pos = None if q_pos is None else as_positions(q_pos, "q_pos").to(q.device)
    k_pos = None if k_pos is None else as_positions(k_pos, "k_pos").to(q.device)
    if k_pos is None and queries == keys:
        k_pos = q_pos
    if q_pos is None and k_pos is not None and queries <= keys:
        q_pos = k_pos[..., keys - queries :]
    if q_pos is None or k_pos is None:
        raise ValueError(
            f"positions of {queries} queries and {keys} keys: pass both q_pos and k_pos"
        )
    found = []
    for name, pos, count in (("q_pos", q_pos, queries), ("k_pos", k_pos, keys)):
        if pos.shape not in ((count,), (q.shape[0], count), (1, count)):
            raise ValueError(
                f"{name} has shape {tuple(pos.shape)}, ({count},) or ({q.shape[0]}, {count}) is needed"
            )
        found.append(pos)
    if found[0].ndim != found[1].ndim:
        found = [p if p.ndim == 2 else p[None] for p in found]
    return found[0], found[1], False


def check_export(kernel: PositionKernel) -> None:
    """Raise where ``torch.export`` meets a kernel that chooses origins by what its parameters are."""
    if exporting() and (kernel.scored or (kernel.rotates and not kernel.any_origin)):
        raise ValueError(
            f"{type(kernel).__name__} chooses origins by the values of its parameters, which "
            "torch.export does not know: use torch.compile, or export RoPE or a bias"
        )


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
            "a (B, K) padding mask is key_keep"
        )
    return keep[None] if keep.ndim == 3 else keep  # (H, Q, K) must not be read as (B, Q, K)


def with_key_keep(
    keep: Tensor | None, key_keep: Tensor | None, batch: int, keys: int
) -> Tensor | None:
    """A mask of pairs and a mask of keys as one.

    Args:
        keep: checked, or None.
        key_keep: ``(B, K)`` boolean, True = may be attended to, or None.
        batch: B.
        keys: K.
    """
    if key_keep is None:
        return keep
    if key_keep.dtype != torch.bool or key_keep.shape != (batch, keys):
        raise ValueError(
            f"key_keep is {key_keep.dtype} {tuple(key_keep.shape)}, a boolean (B, K) = "
            f"({batch}, {keys}) is needed, True = may be attended to"
        )
    by_key = key_keep[:, None, None, :]
    return by_key if keep is None else keep & by_key.to(keep.device)


def real_tokens(keep: Tensor | None, key_keep: Tensor | None) -> Tensor | None:
    """Which tokens are no padding, ``(1 or B, 1 or K)``; None where no mask is one of whole keys."""
    if key_keep is not None:
        return key_keep
    if keep is None or keep.shape[-2] > 1:
        return None
    return keep[..., 0, :].any(1) if keep.ndim == 4 else keep


def check_scale(q: Tensor, scale: float | Tensor | None) -> tuple[Tensor, float]:
    """Queries and the number their logits are multiplied by; a tensor scales the queries themselves.

    Args:
        q: ``(B, H, Q, D)``.
        scale: a number, a tensor ``()`` or ``(H,)``, which may train, or None for 1/sqrt(D).
    """
    if scale is None:
        return q, 1 / math.sqrt(q.shape[3])
    if not isinstance(scale, Tensor):
        return q, float(scale)
    if scale.shape not in ((), (1,), (q.shape[1],)):
        raise ValueError(
            f"scale has shape {tuple(scale.shape)}, one number or one a head, ({q.shape[1]},), is "
            "needed"
        )
    return (q * scale.reshape(-1, 1, 1)).to(q.dtype), 1.0


def check_window(window: int | None, queries: int, keys: int) -> int | None:
    """``window`` if it is a number of tokens that hides something, or None."""
    if window is None:
        return None
    if isinstance(window, bool) or not isinstance(window, Integral) or window < 1:
        raise ValueError(f"window is {window!r}, a number of tokens >= 1 is needed: 1 sees itself")
    return int(window) if exporting() or window < max(queries, keys) else None


def check_segments(
    segments: tuple[Tensor, Tensor] | None, q: Tensor, k: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Document ids of queries and keys in one rank, or None."""
    if segments is None:
        return None
    if not isinstance(segments, tuple | list) or len(segments) != 2:
        raise ValueError("segments is a pair (q_segments, k_segments) of document ids")
    q_seg, k_seg = (as_tensor(ids, "segments", q) for ids in segments)
    for name, ids, count in (("q", q_seg, q.shape[2]), ("k", k_seg, k.shape[2])):
        if ids.shape not in ((count,), (q.shape[0], count), (1, count)):
            raise ValueError(
                f"{name} segments have shape {tuple(ids.shape)}, (B, {count}) is needed"
            )
    if q_seg.ndim != k_seg.ndim:
        q_seg, k_seg = (s if s.ndim == 2 else s[None] for s in (q_seg, k_seg))
    return q_seg, k_seg
