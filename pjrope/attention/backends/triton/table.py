"""The table's gradient without atomics: the same bits every time, for two more products in seven."""

# Long because a kernel of Triton is one function: it keeps its sums in registers, and what it
# calls is compiled into it anyway.

from __future__ import annotations

import triton
import triton.language as tl

from .backward import d_logits, weights_of
from .tiles import biased, diagonal_sums, hidden, rows_of


@triton.jit
def table_kernel(
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
    halves,
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
    batches,
    D: tl.constexpr,
    DV: tl.constexpr,
    SIZE: tl.constexpr,
    PAD: tl.constexpr,
    PAD_V: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    SEGMENTS: tl.constexpr,
    KEEP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Diagonal sums over one diagonal of square tiles and all batch rows: ``(H, diagonals, 2, SIZE)``.

    One program a head and a diagonal, ``row tile - key tile``, counted from ``1 - key tiles``. Its
    upper and lower halves belong to lags of two neighbours; the caller adds those.
    """
    row_tiles, key_tiles = tl.cdiv(queries, SIZE), tl.cdiv(keys, SIZE)
    diagonals = row_tiles + key_tiles - 1
    head = (tl.program_id(0) // diagonals).to(tl.int64)
    apart = tl.program_id(0) % diagonals - key_tiles + 1
    kv = head // groups
    upper = tl.zeros([SIZE], tl.float32)
    lower = tl.zeros([SIZE], tl.float32)
    first = tl.maximum(apart, 0)
    last = tl.minimum(row_tiles, key_tiles + apart)
    # Lags lie less than SIZE from the middle one: diagonals that nobody sees are skipped.
    middle = apart * SIZE + (keys - queries)
    if CAUSAL:
        last = tl.where(middle + SIZE > 0, last, first)
    if WINDOW:
        last = tl.where((middle - SIZE < window) & (middle + SIZE > -window), last, first)
    for batch in range(batches):
        wide = tl.cast(batch, tl.int64)
        own = (wide * heads + head) * queries
        for tile in range(first, last):
            m0, n0 = tile * SIZE, (tile - apart) * SIZE
            m = m0 + tl.arange(0, SIZE)[:, None]
            n = n0 + tl.arange(0, SIZE)[None, :]
            rows = rows_of(q + wide * sqb + head * sqh, m0, sqn, queries, D, SIZE, PAD, True)
            columns = rows_of(k + wide * skb + kv * skh, n0, skn, keys, D, SIZE, PAD, True)
            values = rows_of(v + wide * svb + kv * svh, n0, svn, keys, DV, SIZE, PAD_V, True)
            grads = rows_of(grad + own * DV, m0, DV, queries, DV, SIZE, PAD_V, True)
            ends = tl.load(lse + own + m, mask=m < queries, other=float("inf"))
            means = tl.load(mean + own + m, mask=m < queries, other=0.0)
            product = tl.dot(rows, tl.trans(columns), input_precision=PRECISION) * scale
            product = biased(product, m, n, table + head * lags, queries, keys, low, True)
            hide = hidden(
                m, n, wide, q_seg, k_seg, keep, queries, keys, window, CAUSAL, WINDOW, SEGMENTS,
                KEEP,
            )  # fmt: skip
            d_weights = tl.dot(grads, tl.trans(values), input_precision=PRECISION)
            d = d_logits(weights_of(product, ends, hide, True), d_weights, means)
            above, below = diagonal_sums(d, SIZE)
            upper += above
            lower += below
    u = tl.arange(0, SIZE)
    place = halves + tl.cast(tl.program_id(0), tl.int64) * 2 * SIZE + u
    tl.store(place, upper)
    tl.store(place + SIZE, lower)
