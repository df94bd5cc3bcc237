"""Sizes of tiles by kernel, channels, number type and GPU; needs no Triton.

Of the sizes tried, these compile without spilling a register: ``tests/attention/test_triton_cubins``
compiles them for GPUs of three generations. No GPU has timed them yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

KINDS = (
    "forward",
    "queries",
    "queries_table",
    "keys",
    "keys_only",
    "values_only",
    "table",
    "decode",
)
WIDTHS = (64, 128, 256)
TOGETHER = 128  # channels up to which one launch holds the sums of both keys and values


@dataclass(frozen=True)
class Tile:
    """One launch.

    Attributes:
        rows: queries of a tile.
        columns: keys of a tile.
        warps: of a program.
        stages: tiles on their way from memory at once.
    """

    rows: int
    columns: int
    warps: int
    stages: int

    def options(self) -> dict[str, int | bool]:
        """Arguments of a launch."""
        return {
            "ROWS": self.rows,
            "COLUMNS": self.columns,
            "num_warps": self.warps,
            "num_stages": self.stages,
            "enable_fp_fusion": True,
        }


_SMALLEST = Tile(16, 16, 4, 1)
# (kernel, channels) of half-precision numbers: the tile, any GPU.
_HALVES = {
    ("forward", 64): Tile(128, 32, 8, 2),
    ("queries", 64): Tile(128, 64, 8, 2),
    ("queries_table", 64): Tile(64, 64, 8, 1),
    ("keys", 64): Tile(16, 64, 4, 2),
    ("table", 64): Tile(32, 32, 2, 1),
    ("decode", 64): Tile(16, 16, 4, 1),
    ("forward", 128): Tile(64, 16, 4, 2),
    ("keys", 128): Tile(16, 32, 4, 1),
    ("table", 256): Tile(16, 16, 8, 1),
}
# The same where they differ on compute capability 9: its products read both sides from shared memory.
_HOPPER = {
    ("forward", 64): Tile(128, 64, 8, 2),
    ("queries_table", 64): Tile(32, 32, 4, 1),
    ("keys", 64): Tile(32, 128, 8, 2),
    ("table", 64): Tile(64, 64, 8, 1),
    ("decode", 64): Tile(16, 64, 4, 2),
}
# fp32, which takes three tf32 products for one.
_FULL = {
    ("forward", 64): Tile(32, 32, 4, 1),
    ("queries_table", 64): Tile(16, 16, 2, 1),
    ("keys", 64): Tile(16, 16, 8, 1),
}
# Where no segments, padding or windows hide pairs, registers allow more.
_PLAIN = {
    ("queries", 128): Tile(128, 32, 8, 2),
    ("queries_table", 128): Tile(32, 32, 4, 1),
}


def fits(width: int, number: torch.dtype) -> bool:
    """True if there are tiles for so many channels of this dtype.

    Wider heads in fp32 compile too, but registers spill.
    """
    return width <= (WIDTHS[0] if number.itemsize > 2 else WIDTHS[-1])


def tile_of(
    kind: str, width: int, number: torch.dtype, sm: tuple[int, int], masked: bool = False
) -> Tile:
    """The tile of a kernel.

    Args:
        kind: one of KINDS.
        width: channels of a head, the wider of keys and values.
        number: dtype of q, k and v.
        sm: compute capability, such as (9, 0).
        masked: segments, padding or a window hide pairs.
    """
    key = (kind, next(w for w in WIDTHS if width <= w))
    if number.itemsize > 2:
        return _FULL.get(key, _SMALLEST)
    if sm[0] == 9 and key in _HOPPER:
        return _HOPPER[key]
    if not masked and sm[0] != 9 and key in _PLAIN:
        return _PLAIN[key]
    return _HALVES.get(key, _SMALLEST)
