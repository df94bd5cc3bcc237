"""Backward kernels: weights are computed again tile by tile, nothing of size Q x K is stored.

The gradient of a logit is ``weight (dout.v - mean)``. Queries and the table get theirs in one pass
over keys, keys and values in another over queries, so that no two programs add to one number,
except where the table's lags meet: there a tile adds one number for each lag, or, where bits must
repeat, :mod:`.table` sums them without atomics.
"""

# Long because a kernel of Triton is one function: it keeps its sums in registers, and what it
# calls is compiled into it anyway.

from __future__ import annotations

import triton
import triton.language as tl

from .ranges import bounds, key_range
from .tiles import (
    biased,
    diagonal_sums,
    finite,
    good_rows_of,
    hidden,
    put_rows,
    rows_of,
    turned_rows_of,
)


@triton.jit
def mean_kernel(out, grad, mean, rows, DV: tl.constexpr, ROWS: tl.constexpr, PAD_V: tl.constexpr):
    """``mean = sum(out * grad)`` over channels, for every row of all heads."""
    first = tl.cast(tl.program_id(0), tl.int64) * ROWS
    a = rows_of(out, first, DV, rows, DV, ROWS, PAD_V, True).to(tl.float32)
    b = rows_of(grad, first, DV, rows, DV, ROWS, PAD_V, True).to(tl.float32)
    m = first + tl.arange(0, ROWS)
    tl.store(mean + m, tl.sum(a * b, axis=1), mask=m < rows)


@triton.jit
def weights_of(product, lse, hide, MASKED: tl.constexpr):
    """Weights from biased logits; zeros where hidden."""
    weights = tl.exp2(product - lse)
    if MASKED:
        weights = tl.where(hide, 0.0, weights)
    return weights


@triton.jit
def d_logits(weights, d_weights, mean):
    """Gradients of logits from ``dout.v``; 0 times a NaN of a hidden value would be one."""
    return tl.where(weights == 0.0, 0.0, weights * (d_weights - mean))


@triton.jit
def queries_kernel(
    q,
    k,
    v,
    table,
    q_seg,
    k_seg,
    keep,
    grad,
    lse,
    mean,
    dq,
    d_table,
    sqb,
    sqh,
    sqn,
    skb,
    skh,
    skn,
    svb,
    svh,
    svn,
    heads,
    groups,
    queries,
    keys,
    low,
    lags,
    window,
    scale,
    D: tl.constexpr,
    DV: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PAD: tl.constexpr,
    PAD_V: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    SEGMENTS: tl.constexpr,
    KEEP: tl.constexpr,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
    LEARNS: tl.constexpr,
):
    """``dq`` of one block of rows, without the factor ``scale``; with LEARNS adds to ``d_table``.

    LEARNS needs square tiles: a tile's lower diagonals are the next tile's upper ones, and each lag
    is added once for both.
    """
    blocks = tl.cdiv(queries, ROWS)
    line = (tl.program_id(0) // blocks).to(tl.int64)
    m0 = (blocks - 1 - tl.program_id(0) % blocks) * ROWS
    batch, head = line // heads, line % heads
    kv = head // groups
    m = (m0 + tl.arange(0, ROWS))[:, None]
    rows = rows_of(q + batch * sqb + head * sqh, m0, sqn, queries, D, ROWS, PAD, True)
    grads = rows_of(grad + line * queries * DV, m0, DV, queries, DV, ROWS, PAD_V, True)
    ends = tl.load(lse + line * queries + m, mask=m < queries, other=float("inf"))
    means = tl.load(mean + line * queries + m, mask=m < queries, other=0.0)
    k_head, v_head = k + batch * skb + kv * skh, v + batch * svb + kv * svh
    acc = tl.zeros([ROWS, PAD], tl.float32)
    carried = tl.zeros([COLUMNS], tl.float32)
    line_of_table = table + head * lags if BIAS else table
    sums = d_table + head * lags if LEARNS else d_table
    u = tl.arange(0, COLUMNS)
    # The lags of the first tile's upper diagonals; each tile lowers them by COLUMNS.
    start, whole, ragged, stop = key_range(
        m0, queries, keys, window, CAUSAL, WINDOW, SEGMENTS or KEEP, ROWS, COLUMNS
    )
    place = m0 + (keys - queries) - start + low + u
    for part in tl.static_range(3):
        a, b = bounds(start, whole, ragged, stop, part, WINDOW, True, SEGMENTS or KEEP)
        for n0 in tl.range(a, b, COLUMNS, num_stages=1 if part != 1 else None):
            n = n0 + tl.arange(0, COLUMNS)[None, :]
            turned = turned_rows_of(k_head, n0, skn, keys, D, COLUMNS, PAD, part != 1)
            product = tl.dot(rows, turned, input_precision=PRECISION) * scale
            good = tl.max(finite(product), axis=0)  # 0 for keys that are finite with no query
            product = biased(product, m, n, line_of_table, queries, keys, low, BIAS)
            hide = n < 0
            if part != 1:
                hide = hidden(
                    m, n, batch, q_seg, k_seg, keep, queries, keys, window, CAUSAL, WINDOW,
                    SEGMENTS, KEEP,
                )  # fmt: skip
            weights = weights_of(product, ends, hide, part != 1)
            turned = turned_rows_of(v_head, n0, svn, keys, DV, COLUMNS, PAD_V, part != 1)
            d = d_logits(weights, tl.dot(grads, turned, input_precision=PRECISION), means)
            if part != 1:
                columns = good_rows_of(k_head, n0, skn, keys, good, D, COLUMNS, PAD)
            else:
                columns = rows_of(k_head, n0, skn, keys, D, COLUMNS, PAD, False)
            acc = tl.dot(d.to(columns.dtype), columns, acc, input_precision=PRECISION)
            if LEARNS:
                upper, lower = diagonal_sums(d, COLUMNS)
                inside = (place >= 0) & (place < lags)
                tl.atomic_add(sums + place, upper + carried, mask=inside, sem="relaxed")
                carried = lower
                place -= COLUMNS
    if LEARNS:
        inside = (place >= 0) & (place < lags)
        tl.atomic_add(sums + place, carried, mask=inside, sem="relaxed")
    put_rows(dq + line * queries * D, acc, m0, queries, D, ROWS, PAD)
