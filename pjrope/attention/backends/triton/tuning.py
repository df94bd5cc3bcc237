"""Sizes of tiles by kernel, channels, number type and GPU; needs no Triton.

Chosen as the largest that compile without spilling a register (``tests/attention/test_triton_cubins``
compiles them); no GPU has timed them yet.
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
TOGETHER = 64  # channels up to which one launch holds the sums of both keys and values


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
# (kernel, channels, bytes of a number): the tile.
_TILES = {
    ("forward", 64, 2): Tile(128, 32, 8, 2),
    ("queries", 64, 2): Tile(64, 64, 4, 2),
    ("queries_table", 64, 2): Tile(64, 64, 8, 1),
    ("keys", 64, 2): Tile(16, 64, 4, 2),
}


def tile_of(kind: str, width: int, number: torch.dtype, sm: tuple[int, int]) -> Tile:
    """The tile of a kernel.

    Args:
        kind: one of KINDS.
        width: channels of a head, the wider of keys and values.
        number: dtype of q, k and v.
        sm: compute capability, such as (9, 0).
    """
    size = next(w for w in WIDTHS if width <= w)
    return _TILES.get((kind, size, number.itemsize), _SMALLEST)
