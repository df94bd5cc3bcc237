"""Finished cells on disk: which can be reused, and how they join into one result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .plain_json import ExperimentError, digest, plain
from .result import ENVIRONMENT, FORMAT, Result, check_row
from .spec import Cell, CellResult, Experiment, Preset
from .store import parse, result_path, write

__all__ = ["CellStore", "merge_data"]


@dataclass(frozen=True)
class CellStore:
    """Where the cells of one experiment, preset, and choice of corpora are kept below `out`.

    Args:
        out: results folder.
        experiment, preset: what runs.
        data: corpora about to be read; part of what makes a finished cell reusable.
    """

    out: Path
    experiment: Experiment
    preset: Preset
    data: Sequence[Mapping[str, Any]] = ()

    @property
    def folder(self) -> Path:
        return result_path(self.out, self.experiment.name, self.preset.name).with_suffix("")

    @property
    def fingerprint(self) -> str:
        return digest([self.experiment.spec_id(self.preset), list(self.data)])

    def workdir(self, cell: Cell) -> Path:
        # The fingerprint keeps a checkpoint of older settings from being resumed under new ones.
        return self.folder / "work" / f"{cell.id}-{self.fingerprint}"

    def path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.id}.json"

    def save(self, cell: Cell, result: Any, facts: Mapping[str, Any]) -> None:
        """Check and write what a cell returned; `facts` are its times, date and environment."""
        if not isinstance(result, CellResult):
            result = CellResult(result)
        rows = [check_row(row, f"row {i}") for i, row in enumerate(result.rows)]
        if not rows:
            raise ExperimentError("the cell returned no rows")
        data = merge_data([*self.data, *result.data])
        finished = {"key": cell.key, "fingerprint": self.fingerprint, "data": data, **facts}
        write(self.path(cell), plain({**finished, "rows": rows}))

    def finished(self, cell: Cell) -> dict[str, Any] | None:
        """Return what `save` wrote for this cell, or None if it must (still or again) run."""
        return self._current(self.path(cell))

    def _current(self, path: Path) -> dict[str, Any] | None:
        try:
            value = parse(path)
        except (FileNotFoundError, NotADirectoryError, ExperimentError):
            return None
        current = isinstance(value, dict) and value.get("fingerprint") == self.fingerprint
        return value if current else None

    def seeds(self) -> set[int]:
        """Return the seeds of all finished cells, also of runs that asked for others."""
        values = map(self._current, sorted((self.folder / "cells").glob("*.json")))
        return {value["key"]["seed"] for value in values if value}

    def assemble(self, cells: Sequence[Cell]) -> Result:
        """Join the finished ones among `cells`, in their order, under one card."""
        done = [value for cell in cells if (value := self.finished(cell))]
        rows = [row for value in done for row in value["rows"]]
        environments = [value["environment"] for value in done]
        card = {
            "format": FORMAT,
            "experiment": self.experiment.name,
            "preset": self.preset.name,
            "spec_id": self.experiment.spec_id(self.preset),
            "revision": self.experiment.revision,
            "settings": plain(self.preset.settings),
            "seeds": sorted({value["key"]["seed"] for value in done}),
            "cells": len(done),
            "data": merge_data(entry for value in done for entry in value["data"]),
            "date": max((value["date"] for value in done), default=""),
            "wall_seconds": round(sum(value["wall_seconds"] for value in done), 3),
            "cpu_seconds": round(sum(value["cpu_seconds"] for value in done), 3),
            "dirty": agree([e["dirty"] for e in environments], any),
            **{name: agree([e[name] for e in environments]) for name in ENVIRONMENT},
        }
        return Result(rows, card)


def agree(values: Sequence[Any], several: Callable[..., Any] | None = None) -> Any:
    """Return the value that all cells share; several are joined by " + ", so that none hides."""
    known = sorted({value for value in values if value is not None}, key=str)
    if len(known) < 2:
        return known[0] if known else None
    return several(known) if several else " + ".join(map(str, known))


def merge_data(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the distinct corpora, sorted by name, each with name, sha256 and stand_in."""
    distinct = {}
    for entry in entries:
        if set(entry) != {"name", "sha256", "stand_in"}:
            raise ExperimentError(f"data {dict(entry)}: give exactly name, sha256 and stand_in")
        distinct[digest(entry)] = plain(entry)
    return sorted(distinct.values(), key=lambda entry: (entry["name"], str(entry["sha256"])))
