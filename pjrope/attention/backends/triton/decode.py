"""Decoding: few queries, many keys. Programs share the keys out and a second kernel joins them."""

# Long because a kernel of Triton is one function: it keeps its sums in registers, and what it
# calls is compiled into it anyway.

from __future__ import annotations

import triton
import triton.language as tl

from .tiles import finite, good_rows_of, rows_of


@triton.jit
def split_kernel(
    q,
    k,
    v,
    table,
    keep,
    parts,
    tops,
    totals,
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
    lags,
    window,
    scale,
    share,
    splits,
    D: tl.constexpr,
    DV: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PAD: tl.constexpr,
    PAD_V: tl.constexpr,
    WINDOW: tl.constexpr,
    KEEP: tl.constexpr,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Causal attention of all queries that share a key head to ``share`` keys.

    Rows of the tile are (query head, query); ``parts`` (B, Hk, splits, ROWS, DV) are sums of values
    weighed relative to ``tops``, ``totals`` the sums of weights.
    """
    split = tl.program_id(0) % splits
    line = (tl.program_id(0) // splits).to(tl.int64)
    kv_heads = heads // groups
    batch, kv = line // kv_heads, line % kv_heads
    r = tl.arange(0, ROWS)[:, None]
    head, m = kv * groups + r // queries, r % queries
    used = r < groups * queries
    channel = tl.arange(0, PAD)[None, :]
    places = q + batch * sqb + head * sqh + m * sqn + channel
    rows = tl.load(places, mask=used & (channel < D), other=0.0)
    acc = tl.zeros([ROWS, PAD_V], tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    k_head, v_head = k + batch * skb + kv * skh, v + batch * svb + kv * svh
    for n0 in range(split * share, tl.minimum((split + 1) * share, keys), COLUMNS):
        n = n0 + tl.arange(0, COLUMNS)[None, :]
        columns = rows_of(k_head, n0, skn, keys, D, COLUMNS, PAD, True)
        values = rows_of(v_head, n0, svn, keys, DV, COLUMNS, PAD_V, True)
        lag = m + (keys - queries) - n
        hide = (n >= keys) | (lag < 0) | (r >= groups * queries)
        if WINDOW:
            hide = hide | (lag >= window)
        if KEEP:
            hide = hide | (tl.load(keep + batch * keys + n, mask=n < keys, other=0) == 0)
        logits = tl.dot(rows, tl.trans(columns), input_precision=PRECISION) * scale
        if BIAS:
            logits += tl.load(table + head * lags + lag, mask=hide == 0, other=0.0)
        logits = tl.where(hide, float("-inf"), logits)
        good = tl.min(finite(values), axis=1)
        spoiled = tl.max(tl.where(hide, 0, 1 - good[None, :]), axis=1) > 0
        new = tl.maximum(top, tl.max(logits, axis=1))
        base = tl.where(new == float("-inf"), 0.0, new)
        weights = tl.exp2(logits - base[:, None])
        shrink = tl.exp2(top - base)
        total = total * shrink + tl.sum(weights, axis=1)
        values = good_rows_of(v_head, n0, svn, keys, good, DV, COLUMNS, PAD_V)
        acc = acc * shrink[:, None]
        acc = tl.dot(weights.to(values.dtype), values, acc, input_precision=PRECISION)
        acc = tl.where(spoiled[:, None], float("nan"), acc)
        top = new
    own = (line * splits + split) * ROWS + tl.arange(0, ROWS)
    tl.store(tops + own, top)
    tl.store(totals + own, total)
    channel = tl.arange(0, PAD_V)[None, :]
    tl.store(parts + own[:, None] * DV + channel, acc, mask=channel < DV)


@triton.jit
def join_kernel(
    parts,
    tops,
    totals,
    out,
    heads,
    groups,
    queries,
    splits,
    DV: tl.constexpr,
    ROWS: tl.constexpr,
    PAD_V: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """The output of one query from the splits' parts; a query that sees nothing gives zeros."""
    place = tl.cast(tl.program_id(0), tl.int64)
    line, m = place // queries, place % queries
    kv_heads = heads // groups
    batch, head = line // heads, line % heads
    row = (head % groups) * queries + m
    s = tl.arange(0, SPLITS)
    own = ((batch * kv_heads + head // groups) * splits + s) * ROWS + row
    top = tl.load(tops + own, mask=s < splits, other=float("-inf"))
    best = tl.max(top, axis=0)
    factor = tl.exp2(top - tl.where(best == float("-inf"), 0.0, best))
    total = tl.sum(factor * tl.load(totals + own, mask=s < splits, other=0.0), axis=0)
    channel = tl.arange(0, PAD_V)[None, :]
    inside = (s < splits)[:, None] & (channel < DV)
    part = tl.load(parts + own[:, None] * DV + channel, mask=inside, other=0.0)
    acc = tl.sum(factor[:, None] * part, axis=0) / tl.where(total == 0.0, 1.0, total)
    channel = tl.arange(0, PAD_V)
    tl.store(out + place * DV + channel, acc.to(out.dtype.element_ty), mask=channel < DV)
