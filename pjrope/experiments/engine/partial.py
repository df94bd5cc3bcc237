"""Records that grow: writing down the cells there are, and going on from a committed record.

A long grid may take several sessions on several machines. What is finished goes into the package's
record, whose card then says how many cells of the grid it holds; a later run takes those up as finished
cells and computes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import record as records
from .cells import CellStore, merge_data
from .plain_json import ExperimentError
from .result import ENVIRONMENT, Result
from .spec import Cell, CellResult
from .store import load, write

__all__ = ["record_finished", "take_up"]


def record_finished(store: CellStore, grid: Sequence[Cell]) -> Result:
    """Write the finished cells of a grid into the package's record.

    Args:
        store: where finished cells are kept; another run may be adding to it.
        grid: all cells that the record will hold one day.

    Returns:
        What was written; its card has "of_cells", the size of the grid, while cells are missing.

    Raises:
        ExperimentError: when no cell is finished.
    """
    result = store.assemble(grid)
    name, preset = store.experiment.name, store.preset.name
    if not result.card["cells"]:
        raise ExperimentError(f"not recorded: no cell of {name} ({preset}) is finished yet")
    card = dict(result.card)
    if card["cells"] < len(grid):
        card["of_cells"] = len(grid)
    write(records.path(name, preset), {"card": card, "rows": result.rows})
    return Result(result.rows, card)


def take_up(store: CellStore, grid: Sequence[Cell]) -> int:
    """Put the cells of the committed record among the finished ones, as far as they are missing.

    Args:
        store: where finished cells are kept.
        grid: cells wanted.

    Returns:
        How many were taken up.

    Raises:
        ExperimentError: for a record of other settings or corpora, or rows that fit two cells.
        FileNotFoundError: when there is no record.

    Limits: the card of a record holds sums of times; each cell gets a share by its rows.
    """
    name, preset = store.experiment.name, store.preset.name
    result = load(name, preset)
    card = result.card
    if card["spec_id"] != store.experiment.spec_id(store.preset):
        raise ExperimentError(f"the record of {name} ({preset}) has other settings: run it anew")
    if store.data and merge_data(card["data"]) != merge_data(store.data):
        raise ExperimentError(f"the record of {name} ({preset}) read other corpora: run it anew")
    environment = {field: card.get(field) for field in (*ENVIRONMENT, "dirty")}
    taken, seen = 0, 0
    for cell in grid:
        rows = [row for row in result.rows if _belongs(row, cell)]
        seen += len(rows)
        if not rows or store.finished(cell) is not None:
            continue
        share = len(rows) / len(result.rows)
        times = {f: card[f] * share for f in ("wall_seconds", "cpu_seconds")}
        facts = {**times, "date": card["date"], "environment": environment}
        store.save(cell, CellResult(rows, data=card["data"]), facts)
        taken += 1
    if seen > len(result.rows):
        raise ExperimentError(f"rows of {name} ({preset}) do not tell its cells apart: run it anew")
    return taken


def _belongs(row: Mapping[str, Any], cell: Cell) -> bool:
    """Whether a row can come from a cell: every field that both have agrees."""
    return all(
        row[field] in value if isinstance(value, tuple) else row[field] == value
        for field, value in cell.key.items()
        if field in row
    )
