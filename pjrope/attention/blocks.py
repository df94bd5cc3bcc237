"""The block plan: which queries go together and which keys they can see."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from ..conventions import exporting, untraced
from ..kernels.base import PositionKernel

if TYPE_CHECKING:
    from .call import Call

BLOCK_NUMBERS = 2**24  # logits of one query block, over batch and heads: 64 MB in fp32
LARGEST_BLOCK = 512
# A GPU wants few and large operations: 512 MB in fp32.
GPU_BLOCK_NUMBERS, GPU_LARGEST_BLOCK = 2**27, 2048


class Block(NamedTuple):
    """Query rows ``start … stop-1`` and the keys ``low … high-1`` they can see at most."""

    start: int
    stop: int
    low: int
    high: int


def rows_of(call: Call, largest: int | None = None) -> int:
    """Queries per block.

    Args:
        call: the checked call.
        largest: rows of a block that stores no logits; default what keeps its logits within
            BLOCK_NUMBERS. Fewer where each block needs an origin and the kernel's reach is short.
    """
    if largest is None:
        gpu, window = call.q.device.type == "cuda", call.masks.window
        most = GPU_LARGEST_BLOCK if gpu else LARGEST_BLOCK
        keys = call.keys if window is None else min(call.keys, window + most)
        rows = GPU_BLOCK_NUMBERS if gpu else BLOCK_NUMBERS
        rows //= max(1, call.q.shape[0] * call.q.shape[1] * keys)
        largest = max(16, min(most, rows))
        if window is not None and not gpu:  # a row computes the keys of all rows of its block
            largest = min(largest, max(64, window // 4))
    if not (call.local or call.scored):
        return largest
    return _rows_within_reach(call.kernel, call.q.dtype, largest)


def plan(call: Call, largest: int | None = None) -> list[Block]:
    """All blocks of a call, in order.

    Args:
        call: the checked call.
        largest: as for :func:`rows_of`.
    """
    size = 0 if exporting() else rows_of(call, largest)
    if (call.local or call.scored) and not call.default_positions:
        ends = _within_reach(call, size)
    elif (
        exporting() or call.queries <= size
    ):  # apart, so that torch.compile need not fix the length
        ends = [(0, call.queries)]
    else:
        starts = range(0, call.queries, size)
        ends = [(start, min(call.queries, start + size)) for start in starts]
    return [Block(start, stop, *call.masks.seen(start, stop)) for start, stop in ends]


def _within_reach(call: Call, size: int) -> list[tuple[int, int]]:
    """Blocks of queries whose positions lie within the kernel's reach of their first one."""
    reach = call.kernel.reach(call.q.dtype)
    rows = call.q_pos.view(-1, call.queries).T.tolist()
    ends, start = [], 0
    for n, row in enumerate(rows):
        jumped = any(abs(a - b) > reach for a, b in zip(row, rows[start], strict=True))
        if jumped or n - start == size:
            ends.append((start, n))
            start = n
    return [*ends, (start, call.queries)]


# What reads parameters stays outside compiled graphs: a reach fixed at compile time would overflow
# once training has moved it, and one that is guarded on would compile anew at every step.
@untraced
def _rows_within_reach(kernel: PositionKernel, number: torch.dtype, rows: int) -> int:
    return max(1, int(min(rows, kernel.reach(number))))
