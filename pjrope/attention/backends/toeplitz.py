"""Backend ``toeplitz``: a bias costs one number per lag, forward and backward, and no copy.

Along one query row the lag falls by one per key. With the rows of a block in reverse order, row r
of the bias therefore is the window ``[r, r + K)`` of one mirrored table: a strided view that torch's
fused attention reads in place, the future half being -inf. The backward pass recomputes each block
and gets the table's gradient by summing along diagonals. Nothing of size Q x K is ever stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from ...conventions import wide
from ..problem import Problem
from .blocks import first
from .fused import fused_attention

# Longer blocks compute more of the hidden corner, shorter ones start more calls. From 768 rows on
# torch's CPU kernel reads keys for four times as many queries at once, which pays in long sequences.
FORWARD_ROWS, LONG_ROWS = 256, 1024
LONG = 16384  # keys
PIECE = 4096  # lags whose bias is computed at once
BACKWARD_ROWS = 128  # of one head at a time: two such blocks of logits then fit the cache


def refuses(problem: Problem) -> str | None:
    """Why this backend cannot take the call, or None if it can."""
    reasons = (
        ("the kernel adds no bias", not problem.kernel.biases),
        ("the kernel defines whole scores", problem.kernel.scored),
        ("the kernel needs an origin per block", problem.local),
        ("there are more queries than keys", problem.queries > problem.keys),
        ("torch.compile fixes no views of changing length", torch.compiler.is_compiling()),
        ("position minus index is not one constant", problem.offset is None),
    )
    return first(reasons)


def mirrored(problem: Problem) -> Tensor:
    """The bias by falling lag: entry u belongs to pairs whose indices lie ``K - 1 - u`` apart.

    Returns:
        ``(H, K + Q - 1)`` in fp32 or better; under causality the last Q - 1 are -inf.
    """
    offset, number = problem.offset, wide(problem.q)
    if problem.causal is True and problem.table is not None and offset == 0:
        values = problem.table[:, : problem.keys].flip(1)
    else:
        stop = 0 if problem.causal else 1 - problem.queries
        apart = torch.arange(problem.keys - 1, stop - 1, -1, device=problem.q.device)
        values = _in_pieces(problem, apart + offset)
    values = values.to(number)
    if problem.causal == "strict":  # the last entry is the token itself
        values = values.masked_fill(
            torch.arange(problem.keys, 0, -1, device=values.device) == 1, -torch.inf
        )
    return pad(values, (0, problem.queries - 1), value=-torch.inf) if problem.causal else values


def _in_pieces(problem: Problem, lags: Tensor) -> Tensor:
    """The bias at these lags; without gradients piece by piece, so that fp64 terms stay small."""
    if problem.training:
        return problem.kernel.lag_bias(lags)
    number = wide(problem.q)
    pieces = [problem.kernel.lag_bias(piece).to(number) for piece in lags.split(PIECE)]
    return torch.cat(pieces, dim=1)


def window(w: Tensor, queries: int, start: int, stop: int, keys: int) -> Tensor:
    """The bias of rows ``stop-1 … start``, in this order, as a view: ``(H, rows, keys)``."""
    first = queries - stop
    return w[:, first : first + stop - start + keys - 1].unfold(1, keys, 1)


def skewed(heads: int, rows: int, keys: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Room for a block of logits laid out so that its diagonals stand in columns.

    Returns:
        two views of the same zeros: ``(heads, rows, keys)``, where entry (r, j) is stored r places
        further right than usual, and ``(heads, rows, rows + keys - 1)``, whose column u holds the
        entries with r + j = u. Summed over rows, the latter is what flows back through
        :func:`window`.
    """
    room = like.new_zeros(heads, rows * (rows + keys))
    block = room.as_strided((heads, rows, keys), (room.stride(0), rows + keys, 1))
    columns = room[:, : rows * (rows + keys - 1)].view(heads, rows, rows + keys - 1)
    return block, columns


def _bias_rows(
    w: Tensor, problem: Problem, start: int, stop: int, keys: int, head: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """Bias and masks of rows ``stop-1 … start``, of one head or of all.

    Returns:
        ``(1 or B, heads, rows, keys)``, a view of ``w`` unless something is masked beside
        causality; and then which rows may see nothing, ``(.., rows, 1)``: those show key 0 instead,
        since kernels of torch differ on empty rows, and must be zeroed afterwards.
    """
    bias = window(w if head is None else w[head : head + 1], problem.queries, start, stop, keys)[
        None
    ]
    if not problem.masked:
        return bias, None
    kept = problem.kept_beside(start, stop, keys)
    if kept is not None:
        kept = kept.flip(-2) if kept.ndim == 2 or kept.shape[-2] > 1 else kept
        if head is not None and kept.ndim == 4 and kept.shape[1] > 1:
            kept = kept[:, head : head + 1]
        bias = bias.masked_fill(~kept, -torch.inf)
    empty = (bias == -torch.inf).all(-1, keepdim=True)
    key_0 = torch.arange(keys, device=w.device) == 0
    return bias.masked_fill(empty & key_0, 0.0), empty


def _forward_rows(problem: Problem) -> int | None:
    """Rows of a block; None, as many as its logits allow, where a mask is stored."""
    if problem.masked:
        return None
    return LONG_ROWS if problem.keys >= LONG else FORWARD_ROWS


class _Attention(torch.autograd.Function):
    """softmax(scale q.k + bias) v with the bias given as a mirrored table."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, w: Tensor, problem: Problem) -> Tensor:
        out = q.new_empty(*q.shape[:3], v.shape[3])
        view = w.detach()  # a mask that wants a gradient would not be read by a fused kernel
        for start, stop, keys in problem.blocks(_forward_rows(problem)):
            bias, empty = _bias_rows(view, problem, start, stop, keys)
            rows = fused_attention(
                q[:, :, start:stop].flip(2),
                k[:, :, :keys],
                v[:, :, :keys],
                attn_mask=bias.expand(len(q), -1, -1, -1),
                scale=problem.scale,
            )
            rows = rows if empty is None else rows.masked_fill(empty, 0.0)
            out[:, :, start:stop] = rows.flip(2)
        ctx.save_for_backward(q, k, v, w, out)
        ctx.problem = problem
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, w, out = ctx.saved_tensors
        problem = ctx.problem
        q = q * problem.scale
        dq, dk, dv, dw = (torch.zeros_like(x) for x in (q, k, v, w))
        # One more channel subtracts each row's mean gradient within the product with v.
        mean = (grad * out).sum(-1, keepdim=True)
        grad = torch.cat([grad, -mean], dim=-1)
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
        inputs, outputs = (q, k, v, grad), (dq, dk, dv)
        for start, stop, keys in problem.blocks(BACKWARD_ROWS):
            for head in range(q.shape[1]):
                _backward_rows(inputs, outputs, w, dw, problem, head, start, stop, keys)
        return dq.mul_(problem.scale), dk, dv, dw, None


def _backward_rows(
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    w: Tensor,
    dw: Tensor,
    problem: Problem,
    head: int,
    start: int,
    stop: int,
    keys: int,
) -> None:
    """Gradients of one head's rows, added to ``outputs`` and ``dw`` in place."""
    q, k, v, grad = (x[:, head] for x in inputs)
    dq, dk, dv = (x[:, head] for x in outputs)
    q, grad = (x[:, start:stop].flip(1) for x in (q, grad))
    k, v = k[:, :keys], v[:, :keys]
    bias, empty = _bias_rows(w, problem, start, stop, keys, head)
    weights = (q @ k.mT).add_(bias[:, 0]).softmax(-1)
    weights = weights if empty is None else weights.masked_fill(empty[:, 0], 0.0)
    dv[:, :keys] += weights.mT @ grad[..., :-1]
    d_logits, columns = skewed(len(q), stop - start, keys, q)
    torch.mul(grad @ v.mT, weights, out=d_logits)
    dq[:, start:stop] = (d_logits @ k).flip(1)
    dk[:, :keys] += d_logits.mT @ q
    dw[head, problem.queries - stop :][: columns.shape[-1]] += columns.sum((0, 1))


def run(problem: Problem) -> Tensor:
    """Attention with the bias read from one table: ``(B, H, Q, Dv)``."""
    q, k = problem.kernel.rotate(problem.q, problem.k, problem.q_pos, problem.k_pos)
    number = wide(problem.q)
    q, k, v = (x.to(number) for x in (q, problem.spread(k), problem.spread(problem.v)))
    out = _Attention.apply(q, k, v, mirrored(problem), problem)
    return out.to(problem.q.dtype)
