"""Backend ``sdpa``: torch's scaled_dot_product_attention, fused where nothing forbids it."""

from __future__ import annotations

import torch
from torch import Tensor

from ...conventions import wide
from ..problem import Problem
from .blocks import blocked
from .fused import causal_rows, fused_attention

ROTATED_NUMBERS = 2**20  # of keys, in memory at once, where no gradient holds them anyway
PIECE = 1024  # tokens whose phases, in fp64, are in memory at once


def refuses(problem: Problem) -> str | None:
    """Why this backend cannot take the call, or None if it can."""
    return "the kernel defines whole scores" if problem.kernel.scored else None


def fuses(problem: Problem) -> bool:
    """True if one call without a mask tensor computes the whole problem."""
    # is_causal aligns at the top left: with Q != K it would hide the cached keys.
    aligned = problem.causal is False or problem.queries == problem.keys
    return aligned and not (problem.kernel.biases or problem.masked or problem.local)


def _mask(bias: Tensor | None, keep: Tensor | None, number: torch.dtype) -> Tensor | None:
    if bias is None:
        return keep
    bias = bias.to(number)
    return bias if keep is None else bias.masked_fill(~keep, -torch.inf)


def _step(problem: Problem, start: int, stop: int, keys: int) -> Tensor:
    q, k = problem.rotated(start, stop, keys)
    if _only_causal(problem):
        q, k, v = (x.to(problem.number) for x in (q, k, problem.v[:, :, :keys]))
        mask = causal_rows(stop - start, keys, q)[None, None].expand(*q.shape[:2], -1, -1)
        k, v = problem.spread(k), problem.spread(v)
        return fused_attention(q.flip(2), k, v, attn_mask=mask, scale=problem.scale).flip(2)
    bias, keep = problem.bias(start, stop, keys), problem.kept(start, stop, keys)
    # A bias of -100 has an error of 0.25 in bf16: with one, everything is done in fp32.
    number = problem.number if bias is None else wide(problem.q)
    q, k, v = (x.to(number) for x in (q, k, problem.v[:, :, :keys]))
    empty = None
    if keep is not None and (problem.masked or problem.queries > problem.keys):
        # Kernels of torch differ on rows that may see nothing: show them key 0, then zero them.
        empty = ~keep.any(-1, keepdim=True)
        first = torch.arange(keys, device=keep.device) == 0
        keep = keep | (empty & first)
    k, v = problem.spread(k), problem.spread(v)
    out = fused_attention(q, k, v, attn_mask=_mask(bias, keep, number), scale=problem.scale)
    return out if empty is None else out.masked_fill(empty, 0.0)


def _only_causal(problem: Problem) -> bool:
    """True if causality alone hides keys, every query sees one, and there is no bias."""
    hidden = problem.causal is True and problem.queries <= problem.keys
    plain = hidden and not (problem.masked or problem.kernel.biases)
    return plain and not torch.compiler.is_compiling()  # which fixes no views of changing length


def run(problem: Problem) -> Tensor:
    """One fused call where possible, else query blocks with their own mask: ``(B, H, Q, Dv)``."""
    if not fuses(problem):
        return blocked(problem, _step)
    # A compiled graph would fix the length to count the pieces.
    if problem.kernel.rotates and not problem.training and not torch.compiler.is_compiling():
        return _by_head(problem)
    problem.prepare()
    return _fused(problem, *problem.rotated(0, problem.queries, problem.keys), problem.v)


def _fused(problem: Problem, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    number = problem.number
    out = fused_attention(
        q.to(number),
        problem.spread(k).to(number),
        problem.spread(v).to(number),
        is_causal=problem.causal is True,
        scale=problem.scale,
    )
    return out.to(v.dtype)


def _by_head(problem: Problem) -> Tensor:
    """One key head at a time, in long sequences: rotated copies of all heads need not coexist."""
    heads, groups = problem.k.shape[1], problem.groups
    step = max(1, min(heads, ROTATED_NUMBERS // max(1, problem.k[:, 0].numel())))
    q, k, v = problem.q, problem.k, problem.v
    out = q.new_empty(*q.shape[:3], v.shape[3])
    width = problem.kernel.rotate(q[:, :, :1], None, problem.q_pos[..., :1])[0].shape[3]
    turned_k = k.new_empty(k.shape[0], step, k.shape[2], width, dtype=problem.number)
    # A head's rotated queries wait where its output will be.
    shared = (out.shape[3], out.dtype) == (width, problem.number)
    for first in range(0, heads, step):
        own = slice(first, first + step)
        served = slice(first * groups, (first + step) * groups)
        room_k = turned_k[:, : k[:, own].shape[1]]
        room_q = out[:, served] if shared else room_k.new_empty(*q[:, served].shape[:3], width)
        _turn(problem, own, served, room_q, room_k)
        out[:, served] = _fused(problem, room_q, room_k, v[:, own])
    return out


def _turn(problem: Problem, own: slice, served: slice, room_q: Tensor, room_k: Tensor) -> None:
    """Write rotated queries and keys into ``room_q`` and ``room_k``, piece by piece."""
    kernel, q, k = problem.kernel.of_key_heads(own), problem.q[:, served], problem.k[:, own]
    # Where frequencies depend on the length, a piece of the positions would not tell it.
    in_pieces = problem.kernel.claims.length_free and problem.queries == problem.keys
    size = PIECE if in_pieces else max(problem.queries, problem.keys)
    for start in range(0, problem.queries, size):
        piece = slice(start, start + size)
        room_q[:, :, piece], room_k[:, :, piece] = kernel.rotate(
            q[:, :, piece], k[:, :, piece], problem.q_pos[..., piece], problem.k_pos[..., piece]
        )
