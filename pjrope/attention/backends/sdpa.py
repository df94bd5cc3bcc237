"""Backend ``sdpa``: torch's scaled_dot_product_attention, fused where nothing forbids it."""

from __future__ import annotations

import torch
from torch import Tensor

from ...conventions import wide
from ..blocks import Block
from ..call import Call
from ..scores import Scores
from .fused import fused_attention, near_rows
from .loop import blocked

ROTATED_NUMBERS = 2**20  # of keys, in memory at once, where no gradient holds them anyway
PIECE = 1024  # tokens whose phases, in fp64, are in memory at once


def refuses(call: Call) -> str | None:
    """Why this backend cannot take the call, or None if it can."""
    return "the kernel defines whole scores" if call.scored else None


def fuses(call: Call) -> bool:
    """True if one call without a mask tensor computes the whole problem."""
    # is_causal aligns at the top left: with Q != K it would hide the cached keys.
    aligned = call.masks.causal is False or call.queries == call.keys
    if not aligned or call.masks.window is not None:
        return False
    return not (call.biases or call.masks.masked or call.local)


def _mask(bias: Tensor | None, keep: Tensor | None, number: torch.dtype) -> Tensor | None:
    if bias is None:
        return keep
    bias = bias.to(number)
    return bias if keep is None else bias.masked_fill(~keep, -torch.inf)


def _step(scores: Scores, block: Block) -> Tensor:
    call = scores.call
    q, k = scores.rotated(block)
    v = call.v[:, :, block.low : block.high]
    if _only_near(call):
        q, k, v = (x.to(call.number) for x in (q, k, v))
        rows, keys = q.shape[2], k.shape[2]
        mask = near_rows(rows, keys, q, _hidden_from_last(call, block))[None, None]
        k, v = call.spread(k), call.spread(v)
        mask = mask.expand(*q.shape[:2], -1, -1)
        return fused_attention(q.flip(2), k, v, attn_mask=mask, scale=call.scale).flip(2)
    bias, keep = scores.bias(block), scores.mask(block)
    # A bias of -100 has an error of 0.25 in bf16: with one, everything is done in fp32.
    number = call.number if bias is None else wide(call.q)
    q, k, v = (x.to(number) for x in (q, k, v))
    empty = None
    if keep is not None and (call.masks.masked or call.queries > call.keys):
        # Kernels of torch differ on rows that may see nothing: show them key 0, then zero them.
        empty = ~keep.any(-1, keepdim=True)
        first = torch.arange(k.shape[2], device=keep.device) == 0
        keep = keep | (empty & first)
    k, v = call.spread(k), call.spread(v)
    out = fused_attention(q, k, v, attn_mask=_mask(bias, keep, number), scale=call.scale)
    return out if empty is None else out.masked_fill(empty, 0.0)


def _only_near(call: Call) -> bool:
    """True if causality and a window alone hide keys, every query sees one, and there is no bias."""
    hidden = call.masks.causal is True and call.queries <= call.keys
    plain = hidden and not (call.masks.masked or call.biases)
    return plain and not torch.compiler.is_compiling()  # which fixes no views of changing length


def _hidden_from_last(call: Call, block: Block) -> int:
    """Leading keys of a block that its last query is too far away to see."""
    if call.masks.window is None:
        return 0
    return max(0, block.stop + call.masks.apart - call.masks.window - block.low)


def run(call: Call) -> Tensor:
    """One fused call where possible, else query blocks with their own mask: ``(B, H, Q, Dv)``."""
    if not fuses(call):
        return blocked(call, _step)
    # A compiled graph would fix the length to count the pieces, and a GPU would starve on heads.
    one_by_one = call.q.device.type == "cpu"
    if one_by_one and call.rotates and not call.training and not torch.compiler.is_compiling():
        return _by_head(call)
    return _fused(call, *call.rotated(), call.v)


def _fused(call: Call, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    number = call.number
    out = fused_attention(
        q.to(number),
        call.spread(k).to(number),
        call.spread(v).to(number),
        is_causal=call.masks.causal is True,
        scale=call.scale,
    )
    return out.to(v.dtype)


def _by_head(call: Call) -> Tensor:
    """One key head at a time, in long sequences: rotated copies of all heads need not coexist."""
    heads, groups = call.k.shape[1], call.groups
    step = max(1, min(heads, ROTATED_NUMBERS // max(1, call.k[:, 0].numel())))
    q, k, v = call.q, call.k, call.v
    out = q.new_empty(*q.shape[:3], v.shape[3])
    width = call.kernel.rotate(q[:, :, :1], None, call.q_pos[..., :1])[0].shape[3]
    turned_k = k.new_empty(k.shape[0], step, k.shape[2], width, dtype=call.number)
    # A head's rotated queries wait where its output will be.
    shared = (out.shape[3], out.dtype) == (width, call.number)
    for first in range(0, heads, step):
        own = slice(first, first + step)
        served = slice(first * groups, (first + step) * groups)
        room_k = turned_k[:, : k[:, own].shape[1]]
        room_q = out[:, served] if shared else room_k.new_empty(*q[:, served].shape[:3], width)
        _turn(call, own, served, room_q, room_k)
        out[:, served] = _fused(call, room_q, room_k, v[:, own])
    return out


def _turn(call: Call, own: slice, served: slice, room_q: Tensor, room_k: Tensor) -> None:
    """Write rotated queries and keys into ``room_q`` and ``room_k``, piece by piece."""
    kernel, q, k = call.kernel.of_key_heads(own), call.q[:, served], call.k[:, own]
    # Where frequencies depend on the length, a piece of the positions would not tell it.
    in_pieces = call.kernel.claims.length_free and call.queries == call.keys
    size = PIECE if in_pieces else max(call.queries, call.keys)
    for start in range(0, call.queries, size):
        piece = slice(start, start + size)
        room_q[:, :, piece], room_k[:, :, piece] = kernel.rotate(
            q[:, :, piece], k[:, :, piece], call.q_pos[..., piece], call.k_pos[..., piece]
        )
