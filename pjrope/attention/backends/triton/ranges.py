"""Which tiles a block visits, and which of them need a mask: three parts, the middle without one."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def key_range(
    m0,
    queries,
    keys,
    window,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    MASKS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The keys that rows ``m0 … m0 + ROWS`` visit: ``start``, ``whole``, ``ragged``, ``stop``.

    Tiles from ``whole`` to ``ragged`` need no mask. All but ``stop`` are multiples of COLUMNS.
    """
    first = m0 + (keys - queries)
    last = tl.minimum(m0 + ROWS, queries) - 1 + (keys - queries)
    start, whole = first * 0, first * 0
    stop, ragged = start + keys, start + keys
    if CAUSAL:
        stop = tl.minimum(stop, last + 2 - CAUSAL)
        ragged = tl.minimum(ragged, first + 2 - CAUSAL)
    if WINDOW:
        start = tl.maximum(first - window + 1, 0)
        whole = tl.maximum(last - window + 1, 0)
        stop = tl.minimum(stop, last + window)
        ragged = tl.minimum(ragged, first + window)
    start = start // COLUMNS * COLUMNS
    whole = (whole + COLUMNS - 1) // COLUMNS * COLUMNS
    ragged = tl.maximum(ragged, 0) // COLUMNS * COLUMNS
    if MASKS:
        ragged = start
    whole = tl.minimum(whole, tl.maximum(ragged, start))
    return start, whole, tl.maximum(ragged, whole), tl.maximum(stop, 0)


@triton.jit
def bounds(
    start, whole, ragged, stop, PART, HEAD: tl.constexpr, TAIL: tl.constexpr, MASKS: tl.constexpr
):
    """Where part 0, 1 or 2 of a range begins and ends; parts that cannot occur are not compiled."""
    if MASKS:
        return (start, stop) if PART == 2 else (0, 0)
    if PART == 0:
        return (start, whole) if HEAD else (0, 0)
    if PART == 1:
        return whole, ragged
    return (ragged, stop) if TAIL else (0, 0)


@triton.jit
def query_range(
    n0,
    queries,
    keys,
    window,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    MASKS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The queries that see keys ``n0 … n0 + COLUMNS``, like :func:`key_range`.

    Rows beyond the last query weigh nothing anyway: without a window no tile there needs a mask.
    """
    first = n0 - (keys - queries)
    last = tl.minimum(n0 + COLUMNS, keys) - 1 - (keys - queries)
    start, whole = first * 0, first * 0
    stop, ragged = start + queries, start + queries
    if CAUSAL:
        start = tl.maximum(start, first + CAUSAL - 1)
        whole = tl.maximum(whole, last + CAUSAL - 1)
    if WINDOW:
        start = tl.maximum(start, first - window + 1)
        whole = tl.maximum(whole, last - window + 1)
        stop = tl.minimum(stop, last + window)
        ragged = tl.minimum(ragged, first + window)
    start = start // ROWS * ROWS
    whole = (whole + ROWS - 1) // ROWS * ROWS
    if WINDOW:
        ragged = tl.maximum(ragged, 0) // ROWS * ROWS
    if MASKS:
        ragged = start
    whole = tl.minimum(whole, tl.maximum(ragged, start))
    return start, whole, tl.maximum(ragged, whole), tl.maximum(stop, 0)
