"""Forward kernel: attention of one block of queries, keys streamed past it, softmax on the way."""

# Long because a kernel of Triton is one function: it keeps its sums in registers, and what it
# calls is compiled into it anyway.

from __future__ import annotations

import triton
import triton.language as tl

from .ranges import bounds, key_range
from .tiles import biased, finite, good_rows_of, hidden, put_rows, rows_of


@triton.jit
def _tile(
    state,
    q,
    m,
    n0,
    batch,
    k_head,
    v_head,
    table,
    q_seg,
    k_seg,
    keep,
    skn,
    svn,
    queries,
    keys,
    low,
    window,
    scale,
    D: tl.constexpr,
    DV: tl.constexpr,
    COLUMNS: tl.constexpr,
    PAD: tl.constexpr,
    PAD_V: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    SEGMENTS: tl.constexpr,
    KEEP: tl.constexpr,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
    MASKED: tl.constexpr,
):
    """One tile of keys: the running sum of values, of weights, and the largest logit so far."""
    acc, total, top = state
    n = n0 + tl.arange(0, COLUMNS)[None, :]
    k = rows_of(k_head, n0, skn, keys, D, COLUMNS, PAD, MASKED)
    logits = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    logits = biased(logits, m, n, table, queries, keys, low, BIAS)
    spoiled = top > top
    if MASKED:
        hide = hidden(
            m, n, batch, q_seg, k_seg, keep, queries, keys, window, CAUSAL, WINDOW, SEGMENTS, KEEP
        )
        logits = tl.where(hide, float("-inf"), logits)
        # A hidden value that is not finite must not reach the rows that do not see it.
        good = tl.min(finite(rows_of(v_head, n0, svn, keys, DV, COLUMNS, PAD_V, True)), axis=1)
        spoiled = tl.max(tl.where(hide, 0, 1 - good[None, :]), axis=1) > 0
    new = tl.maximum(top, tl.max(logits, axis=1))
    base = tl.where(new == float("-inf"), 0.0, new)  # nothing seen so far: no -inf minus -inf
    weights = tl.exp2(logits - base[:, None])
    shrink = tl.exp2(top - base)
    total = total * shrink + tl.sum(weights, axis=1)
    acc = acc * shrink[:, None]
    if MASKED:
        v = good_rows_of(v_head, n0, svn, keys, good, DV, COLUMNS, PAD_V)
    else:
        v = rows_of(v_head, n0, svn, keys, DV, COLUMNS, PAD_V, False)
    acc = tl.dot(weights.to(v.dtype), v, acc, input_precision=PRECISION)
    if MASKED:
        acc = tl.where(spoiled[:, None], float("nan"), acc)
    return acc, total, new


@triton.jit
def forward_kernel(
    q,
    k,
    v,
    table,
    q_seg,
    k_seg,
    keep,
    out,
    lse,
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
):
    """``out`` (B, H, Q, DV) and ``lse`` (B, H, Q), base 2; +inf for a row that sees nothing.

    One program a block of rows and a head; the longest rows start first.
    """
    blocks = tl.cdiv(queries, ROWS)
    line = (tl.program_id(0) // blocks).to(tl.int64)
    m0 = (blocks - 1 - tl.program_id(0) % blocks) * ROWS
    batch, head = line // heads, line % heads
    kv = head // groups
    m = m0 + tl.arange(0, ROWS)
    rows = rows_of(q + batch * sqb + head * sqh, m0, sqn, queries, D, ROWS, PAD, True)
    k_head, v_head = k + batch * skb + kv * skh, v + batch * svb + kv * svh
    line_of_table = table + head * lags if BIAS else table
    state = (
        tl.zeros([ROWS, PAD_V], tl.float32),
        tl.zeros([ROWS], tl.float32),
        tl.full([ROWS], float("-inf"), tl.float32),
    )
    start, whole, ragged, stop = key_range(
        m0, queries, keys, window, CAUSAL, WINDOW, SEGMENTS or KEEP, ROWS, COLUMNS
    )
    for part in tl.static_range(3):
        a, b = bounds(start, whole, ragged, stop, part, WINDOW, True, SEGMENTS or KEEP)
        for n0 in tl.range(a, b, COLUMNS, num_stages=1 if part != 1 else None):
            state = _tile(
                state, rows, m[:, None], n0, batch, k_head, v_head, line_of_table, q_seg, k_seg,
                keep, skn, svn, queries, keys, low, window, scale, D, DV, COLUMNS, PAD, PAD_V,
                CAUSAL, WINDOW, SEGMENTS, KEEP, BIAS, PRECISION, part != 1,
            )  # fmt: skip
    acc, total, top = state
    empty = total == 0.0
    acc = acc / tl.where(empty, 1.0, total)[:, None]
    put_rows(out + line * queries * DV, acc, m0, queries, DV, ROWS, PAD_V)
    places = lse + line * queries + m
    ends = tl.where(empty, float("inf"), top + tl.log2(tl.where(empty, 1.0, total)))
    tl.store(places, ends, mask=m < queries)
