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
from torch.nn.functional import pad

from ...conventions import wide
from ..blocks import Block, plan
from ..call import Call
from ..scores import bias_at
from .fused import fused_attention
from .loop import first, transformed

# Longer blocks compute more of the hidden corner, shorter ones start more calls. From 768 rows on
# torch's CPU kernel reads keys for four times as many queries at once, which pays in long sequences.
FORWARD_ROWS, LONG_ROWS = 256, 1024
LONG = 16384  # keys
PIECE = 2048  # lags whose bias is computed at once
BACKWARD_ROWS = 128  # of one head at a time: two such blocks of logits then fit the cache


def refuses(call: Call) -> str | None:
    """Why this backend cannot take the call, or None if it can."""
    reasons = (
        ("the kernel adds no bias", not call.biases),
        ("its backward goes head by head, for which a GPU is no place", call.q.is_cuda),
        ("the kernel defines whole scores", call.scored),
        ("the kernel needs an origin per block", call.local),
        ("there are more queries than keys", call.queries > call.keys),
        ("torch.compile fixes no views of changing length", torch.compiler.is_compiling()),
        (
            "a transform of torch.func is at work",
            not torch.compiler.is_compiling() and transformed(),
        ),
        ("position minus index is not one constant", call.offset is None),
    )
    return first(reasons)


def mirrored(call: Call) -> Tensor:
    """The bias by falling lag: entry u belongs to pairs whose indices lie ``K - 1 - u`` apart.

    Returns:
        ``(H, K + Q - 1)`` in fp32 or better; under causality the last Q - 1 are -inf.
    """
    masks, number = call.masks, wide(call.q)
    stop = 0 if masks.causal else 1 - call.queries
    apart = torch.arange(call.keys - 1, stop - 1, -1, device=call.q.device)
    hidden = None
    if masks.causal == "strict":
        hidden = apart == 0
    if masks.window is not None:
        far = apart.abs() >= masks.window
        hidden = far if hidden is None else hidden | far
    after = call.queries - 1 if masks.causal else 0
    if call.training:
        values = _values(call, apart).to(number)
        values = values if hidden is None else values.masked_fill(hidden, -torch.inf)
        return pad(values, (0, after), value=-torch.inf) if after else values
    w = apart.new_full((call.q.shape[1], len(apart) + after), -torch.inf, dtype=number)
    for start in range(0, len(apart), PIECE):
        own = slice(start, min(start + PIECE, len(apart)))
        w[:, own] = _values(call, apart[own])
        if hidden is not None:
            w[:, own].masked_fill_(hidden[own], -torch.inf)
    return w


def _values(call: Call, apart: Tensor) -> Tensor:
    """The bias of pairs whose indices lie so far apart, from the call's table where it has one."""
    if call.table is not None and call.masks.causal is True and not call.offset:
        return call.table[:, apart]
    return bias_at(call, apart + (call.offset or 0))


def window(w: Tensor, queries: int, block: Block) -> Tensor:
    """The bias of a block, last row first, as a view: ``(H, rows, keys)``."""
    start, stop, low, high = block
    first = queries - stop + low
    return w[:, first : first + stop - start + high - low - 1].unfold(1, high - low, 1)


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
    w: Tensor, call: Call, block: Block, head: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """Bias and masks of a block, last row first, of one head or of all.

    Returns:
        ``(1 or B, heads, rows, keys)``, a view of ``w`` unless something is masked beside
        causality; and then which rows may see nothing, ``(.., rows, 1)``: those show key 0 instead,
        since kernels of torch differ on empty rows, and must be zeroed afterwards.
    """
    bias = window(w if head is None else w[head : head + 1], call.queries, block)[None]
    if not call.masks.masked:
        return bias, None
    kept = call.masks.without_causal(block)
    if kept is not None:
        kept = kept.flip(-2) if kept.ndim == 2 or kept.shape[-2] > 1 else kept
        if head is not None and kept.ndim == 4 and kept.shape[1] > 1:
            kept = kept[:, head : head + 1]
        bias = bias.masked_fill(~kept, -torch.inf)
    empty = (bias == -torch.inf).all(-1, keepdim=True)
    key_0 = torch.arange(block.high - block.low, device=w.device) == 0
    return bias.masked_fill(empty & key_0, 0.0), empty


def _forward_rows(call: Call) -> int | None:
    """Rows of a block; None, as many as its logits allow, where a mask is stored."""
    if call.masks.masked:
        return None
    return LONG_ROWS if min(call.keys, call.masks.window or call.keys) >= LONG else FORWARD_ROWS


class _Attention(torch.autograd.Function):
    """softmax(scale q.k + bias) v with the bias given as a mirrored table."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, w: Tensor, call: Call) -> Tensor:
        out = q.new_empty(*q.shape[:3], v.shape[3])
        view = w.detach()  # a mask that wants a gradient would not be read by a fused kernel
        for block in plan(call, _forward_rows(call)):
            start, stop, low, high = block
            bias, empty = _bias_rows(view, call, block)
            rows = fused_attention(
                q[:, :, start:stop].flip(2),
                k[:, :, low:high],
                v[:, :, low:high],
                attn_mask=bias.expand(len(q), -1, -1, -1),
                scale=call.scale,
            )
            rows = rows if empty is None else rows.masked_fill(empty, 0.0)
            out[:, :, start:stop] = rows.flip(2)
        ctx.save_for_backward(q, k, v, w, out)
        ctx.call = call
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, w, out = ctx.saved_tensors
        call = ctx.call
        if torch.is_grad_enabled():  # the gradient is to be differentiated in turn
            wanted = [x for x in (q, k, v, w) if x.requires_grad]
            again = _differentiable(q, k, v, w, call)
            found = iter(torch.autograd.grad(again, wanted, grad, create_graph=True))
            return *(next(found) if x.requires_grad else None for x in (q, k, v, w)), None
        q = q * call.scale
        dq, dk, dv, dw = (torch.zeros_like(x) for x in (q, k, v, w))
        # One more channel subtracts each row's mean gradient within the product with v.
        mean = (grad * out).sum(-1, keepdim=True)
        grad = torch.cat([grad, -mean], dim=-1)
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
        inputs, outputs = (q, k, v, grad), (dq, dk, dv)
        for block in plan(call, BACKWARD_ROWS):
            for head in range(q.shape[1]):
                _backward_rows(inputs, outputs, w, dw, call, block, head)
        return dq.mul_(call.scale), dk, dv, dw, None


def _differentiable(q: Tensor, k: Tensor, v: Tensor, w: Tensor, call: Call) -> Tensor:
    """The same written out, with Q x K weights that torch can differentiate as often as one likes."""
    rows = []
    for block in plan(call):
        start, stop, low, high = block
        bias, empty = _bias_rows(w, call, block)
        logits = q[:, :, start:stop].flip(2) @ k[:, :, low:high].mT * call.scale + bias
        weights = logits.softmax(-1)
        weights = weights if empty is None else weights.masked_fill(empty, 0.0)
        rows.append((weights @ v[:, :, low:high]).flip(2))
    return torch.cat(rows, dim=2)


def _backward_rows(
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    w: Tensor,
    dw: Tensor,
    call: Call,
    block: Block,
    head: int,
) -> None:
    """Gradients of one head's rows, added to ``outputs`` and ``dw`` in place."""
    start, stop, low, high = block
    q, k, v, grad = (x[:, head] for x in inputs)
    dq, dk, dv = (x[:, head] for x in outputs)
    q, grad = (x[:, start:stop].flip(1) for x in (q, grad))
    k, v = k[:, low:high], v[:, low:high]
    bias, empty = _bias_rows(w, call, block, head)
    weights = (q @ k.mT).add_(bias[:, 0]).softmax(-1)
    weights = weights if empty is None else weights.masked_fill(empty[:, 0], 0.0)
    dv[:, low:high] += weights.mT @ grad[..., :-1]
    d_logits, columns = skewed(len(q), stop - start, high - low, q)
    torch.mul(grad @ v.mT, weights, out=d_logits)
    dq[:, start:stop] = (d_logits @ k).flip(1)
    dk[:, low:high] += d_logits.mT @ q
    dw[head, call.queries - stop + low :][: columns.shape[-1]] += columns.sum((0, 1))


def run(call: Call) -> Tensor:
    """Attention with the bias read from one table: ``(B, H, Q, Dv)``."""
    q, k = call.rotated()
    number = wide(call.q)
    q, k, v = (x.to(number) for x in (q, call.spread(k), call.spread(call.v)))
    out = _Attention.apply(q, k, v, mirrored(call), call)
    return out.to(call.q.dtype)
