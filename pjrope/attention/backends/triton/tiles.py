"""What the kernels share: one tile of logits, its mask, and the sums along its diagonals.

Rows m are queries, columns n keys, both by index; ``apart = keys - queries`` aligns them at the
bottom right, so that the lag of a pair is ``m + apart - n``. The bias of a head is one line of a
table, read at ``lag + low``. Logits are in the log2 domain: ``exp2`` is one instruction of a GPU.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def hidden(
    m,
    n,
    batch,
    q_seg,
    k_seg,
    keep,
    queries,
    keys,
    window,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    SEGMENTS: tl.constexpr,
    KEEP: tl.constexpr,
):
    """Pairs that may not attend; m and n broadcast against each other, in either order."""
    lag = m + (keys - queries) - n
    out = (m >= queries) | (n >= keys)
    if CAUSAL == 1:
        out = out | (lag < 0)
    if CAUSAL == 2:
        out = out | (lag <= 0)
    if WINDOW:
        out = out | (lag >= window) | (lag <= -window)
    if SEGMENTS:
        own = tl.load(q_seg + batch * queries + m, mask=m < queries, other=-1)
        other = tl.load(k_seg + batch * keys + n, mask=n < keys, other=-1)
        out = out | (own != other)
    if KEEP:
        out = out | (tl.load(keep + batch * keys + n, mask=n < keys, other=0) == 0)
    return out


@triton.jit
def biased(product, m, n, table, queries, keys, low, BIAS: tl.constexpr):
    """Products of queries and keys plus the bias of their lag; indices out of range are clamped."""
    if BIAS:
        rows = tl.minimum(m, queries - 1)
        columns = tl.minimum(n, keys - 1)
        index = tl.maximum(rows + (keys - queries) - columns + low, 0)
        product += tl.load(table + index)
    return product


@triton.jit
def rows_of(
    pointer,
    first,
    stride,
    count,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    PAD: tl.constexpr,
    RAGGED: tl.constexpr,
):
    """Rows ``first … first + ROWS`` of a matrix, zeros beyond its ``count`` rows and WIDTH columns.

    Without RAGGED all rows exist.

    The first row is found in 64 bits; within a tile 32 are enough.
    """
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, PAD)[None, :]
    places = pointer + tl.cast(first, tl.int64) * stride + row * stride + column
    if RAGGED:
        return tl.load(places, mask=(first + row < count) & (column < WIDTH), other=0.0)
    elif WIDTH != PAD:
        return tl.load(places, mask=column < WIDTH, other=0.0)
    else:
        return tl.load(places)


@triton.jit
def turned_rows_of(
    pointer,
    first,
    stride,
    count,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    PAD: tl.constexpr,
    RAGGED: tl.constexpr,
):
    """:func:`rows_of`, turned: ``(PAD, ROWS)``.

    Where a product needs a matrix upright and another turned, it is read twice, each time right
    before its product: read once, both forms would fill registers together.
    """
    row = tl.arange(0, ROWS)[None, :]
    column = tl.arange(0, PAD)[:, None]
    places = pointer + tl.cast(first, tl.int64) * stride + row * stride + column
    if RAGGED:
        return tl.load(places, mask=(first + row < count) & (column < WIDTH), other=0.0)
    elif WIDTH != PAD:
        return tl.load(places, mask=column < WIDTH, other=0.0)
    else:
        return tl.load(places)


@triton.jit
def put_rows(
    pointer, values, first, count, WIDTH: tl.constexpr, ROWS: tl.constexpr, PAD: tl.constexpr
):
    """Store what :func:`rows_of` reads, into rows without gaps."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, PAD)[None, :]
    places = pointer + tl.cast(first, tl.int64) * WIDTH + row * WIDTH + column
    inside = (first + row < count) & (column < WIDTH)
    tl.store(places, values.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def good_rows_of(
    pointer,
    first,
    stride,
    count,
    good,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    PAD: tl.constexpr,
):
    """:func:`rows_of` with zeros for rows that are not ``good``.

    A weight of 0 does not silence a NaN in a product: what is hidden must not be read.
    """
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, PAD)[None, :]
    places = pointer + tl.cast(first, tl.int64) * stride + row * stride + column
    inside = (first + row < count) & (column < WIDTH) & (good[:, None] != 0)
    return tl.load(places, mask=inside, other=0.0)


@triton.jit
def finite(x):
    """1 where a number is finite, 0 elsewhere."""
    wide = x.to(tl.float32)
    return (wide - wide == 0.0).to(tl.int32)


@triton.jit
def diagonal_sums(x, SIZE: tl.constexpr):
    """Sums along the diagonals of a square tile, in two halves.

    Turning row i to the right until entry (i, j) stands in column (i - j) mod SIZE puts diagonals
    into columns: one add for each lag instead of one for each pair.

    Returns:
        ``upper[u]``, the sum where i - j = u, and ``lower[u]``, where i - j = u - SIZE.
    """
    i = tl.arange(0, SIZE)[:, None]
    u = tl.arange(0, SIZE)[None, :]
    turned = tl.gather(x, (i - u) & (SIZE - 1), axis=1)
    upper = tl.sum(tl.where(i >= u, turned, 0.0), axis=0)
    lower = tl.sum(tl.where(i < u, turned, 0.0), axis=0)
    return upper, lower
