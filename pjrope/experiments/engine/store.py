"""Rows and run cards on disk: strict JSON, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import record
from .plain_json import ExperimentError, plain
from .spec import check_name

__all__ = ["DEFAULT_OUT", "Result", "load", "read", "result_path", "write"]

DEFAULT_OUT = Path("pjrope-results")

ENVIRONMENT = ("version", "commit", "device", "cpu", "torch", "numpy", "python", "threads")
_CARD: dict[str, Any] = {
    **{name: str for name in ("experiment", "preset", "spec_id", "date")},
    **{"settings": dict, "seeds": list, "data": list, "cells": int, "revision": int},
    **{"wall_seconds": (int, float), "cpu_seconds": (int, float)},
    **{name: (str, int, type(None)) for name in (*ENVIRONMENT, "dirty")},
}


@dataclass(frozen=True)
class Result:
    """Rows of an experiment and the card that says how they came about.

    Args:
        rows: flat dicts with at least "method" and "seed".
        card: experiment, preset, spec_id, revision, settings, seeds, cells, data, date (UTC),
            wall_seconds and cpu_seconds (sums over cells; of a killed and resumed cell only the
            last stretch), version, commit, dirty, device, cpu, torch, numpy, python, threads.
    """

    rows: list[dict[str, Any]]
    card: dict[str, Any]

    def where(self, **fields: Any) -> Result:
        """Return the rows whose fields have these values (a list or tuple: any of these)."""
        return Result(select(self.rows, fields), self.card)


def select(rows: Iterable[Mapping[str, Any]], where: Mapping[str, Any]) -> list[Any]:
    """Return the rows whose fields have the values of `where` (a list: any of these)."""
    wanted = {k: v if isinstance(v, list | tuple) else (v,) for k, v in where.items()}
    return [row for row in rows if all(row.get(k) in v for k, v in wanted.items())]


def result_path(out: Path, name: str, preset: str) -> Path:
    """Return where the assembled results of a run lie below `out`."""
    return out.joinpath(*check_name(name).split("/"), f"{check_name(preset)}.json")


def write(path: Path, value: Any) -> None:
    """Write `value` as JSON so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes files that only the owner reads
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def parse(path: Path) -> Any:
    """Read strict JSON: NaN and Infinity, which Python's reader would let through, are refused."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except ValueError as error:
        raise ExperimentError(f"{path} is not valid JSON ({error}); delete it and rerun") from None


def read(path: Path) -> Result:
    """Read and check a results file.

    Raises:
        FileNotFoundError: when it is not there.
        ExperimentError: when it is not strict JSON, or its card or a row lacks a field.
    """
    return _checked(parse(path), str(path))


def load(name: str, preset: str = "book") -> Result:
    """Return a committed result, the numbers that the book shows.

    Args:
        name: experiment, for example "byte_lm/baselines".
        preset: "smoke", "book" or "paper".

    Raises:
        FileNotFoundError: when there is no such record; the message lists those there are.
        ExperimentError: when the file fails its check.
    """
    if (name, preset) not in record.recorded():
        record.load(name, preset)  # raises with the list of what exists
    result = read(record.path(name, preset))
    if (result.card["experiment"], result.card["preset"]) != (name, preset):
        raise ExperimentError(
            f"the record of {name} ({preset}) holds {result.card['experiment']} "
            f"({result.card['preset']}); record it again with pjrope run {name} --record"
        )
    return result


def _checked(value: Any, source: str) -> Result:
    if not isinstance(value, dict) or set(value) != {"card", "rows"}:
        raise ExperimentError(f"{source}: a results file holds exactly 'card' and 'rows'")
    card, rows = value["card"], value["rows"]
    for name, kind in _CARD.items():
        if not isinstance(card, dict) or name not in card or not isinstance(card[name], kind):
            raise ExperimentError(f"{source}: the card's {name!r} is missing or of a wrong type")
    if not isinstance(rows, list):
        raise ExperimentError(f"{source}: 'rows' must be a list")
    return Result([check_row(row, f"{source}: row {i}") for i, row in enumerate(rows)], card)


def check_row(row: Any, where: str) -> dict[str, Any]:
    """Return a row as plain JSON; numbers that are not finite become None, and are named.

    A training that diverges ends with NaN. JSON has no such number, so the field holds None and
    "not_finite" lists it: the row stays readable and the failure stays visible.
    """
    if not isinstance(row, Mapping):
        raise ExperimentError(f"{where} is a {type(row).__name__}; a row is a flat mapping")
    lost = sorted(name for name, value in row.items() if _not_finite(value))
    row = plain({**row, **dict.fromkeys(lost)}, where)
    if lost:
        row["not_finite"] = lost
    if nested := [name for name, value in row.items() if isinstance(value, dict)]:
        raise ExperimentError(f"{where}: field {nested[0]!r} is a mapping; rows are flat")
    if missing := {"method", "seed"} - row.keys():
        raise ExperimentError(f"{where} lacks {sorted(missing)}; every row has method and seed")
    return row


def _not_finite(value: Any) -> bool:
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    return isinstance(value, float) and not math.isfinite(value)
