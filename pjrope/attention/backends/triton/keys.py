"""Backward kernel of keys and values."""

# Long because a kernel of Triton is one function: it keeps its sums in registers, and what it
# calls is compiled into it anyway.

from __future__ import annotations

import triton
import triton.language as tl

from .backward import d_logits, weights_of
from .ranges import bounds, query_range
from .tiles import biased, hidden, put_rows, rows_of, turned_rows_of


@triton.jit
def keys_kernel(
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
    dk,
    dv,
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
    FOR_K: tl.constexpr,
    FOR_V: tl.constexpr,
):
    """``dk``, without the factor ``scale``, and ``dv`` of one block of keys, over all its heads.

    Tiles stand upright, keys by queries, so that both sums take them as they are. Registers do not
    hold both for wide heads: then one launch is FOR_K and another FOR_V.
    """
    blocks = tl.cdiv(keys, COLUMNS)
    line = (tl.program_id(0) // blocks).to(tl.int64)
    n0 = (tl.program_id(0) % blocks) * COLUMNS
    kv_heads = heads // groups
    batch, kv = line // kv_heads, line % kv_heads
    n = (n0 + tl.arange(0, COLUMNS))[:, None]
    columns = rows_of(k + batch * skb + kv * skh, n0, skn, keys, D, COLUMNS, PAD, True)
    values = rows_of(v + batch * svb + kv * svh, n0, svn, keys, DV, COLUMNS, PAD_V, True)
    acc_k = tl.zeros([COLUMNS, PAD], tl.float32)
    acc_v = tl.zeros([COLUMNS, PAD_V], tl.float32)
    start, whole, ragged, stop = query_range(
        n0, queries, keys, window, CAUSAL, WINDOW, SEGMENTS or KEEP, ROWS, COLUMNS
    )
    for member in range(groups):
        head = kv * groups + member
        own = (batch * heads + head) * queries
        q_head = q + batch * sqb + head * sqh
        line_of_table = table + head * lags if BIAS else table
        for part in tl.static_range(3):
            a, b = bounds(
                start, whole, ragged, stop, part, WINDOW or CAUSAL, WINDOW, SEGMENTS or KEEP
            )
            for m0 in tl.range(a, b, ROWS, num_stages=1 if part != 1 else None):
                m = m0 + tl.arange(0, ROWS)[None, :]
                turned = turned_rows_of(q_head, m0, sqn, queries, D, ROWS, PAD, True)
                ends = tl.load(lse + own + m, mask=m < queries, other=float("inf"))
                product = tl.dot(columns, turned, input_precision=PRECISION) * scale
                product = biased(product, m, n, line_of_table, queries, keys, low, BIAS)
                hide = m < 0
                if part != 1:
                    hide = hidden(
                        m, n, batch, q_seg, k_seg, keep, queries, keys, window, CAUSAL, WINDOW,
                        SEGMENTS, KEEP,
                    )  # fmt: skip
                weights = weights_of(product, ends, hide, part != 1)
                if FOR_V:
                    grads = rows_of(grad + own * DV, m0, DV, queries, DV, ROWS, PAD_V, True)
                    pair = weights.to(grads.dtype)
                    acc_v = tl.dot(pair, grads, acc_v, input_precision=PRECISION)
                if FOR_K:
                    turned = turned_rows_of(grad + own * DV, m0, DV, queries, DV, ROWS, PAD_V, True)
                    d_weights = tl.dot(values, turned, input_precision=PRECISION)
                    means = tl.load(mean + own + m, mask=m < queries, other=0.0)
                    d = d_logits(weights, d_weights, means)
                    rows = rows_of(q_head, m0, sqn, queries, D, ROWS, PAD, True)
                    acc_k = tl.dot(d.to(rows.dtype), rows, acc_k, input_precision=PRECISION)
    if FOR_K:
        put_rows(dk + line * keys * D, acc_k, n0, keys, D, COLUMNS, PAD)
    if FOR_V:
        put_rows(dv + line * keys * DV, acc_v, n0, keys, DV, COLUMNS, PAD_V)
