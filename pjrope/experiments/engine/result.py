"""Rows of an experiment with the card that says how they came about, and what makes both valid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...extras import need
from .plain_json import ExperimentError, plain

if TYPE_CHECKING:
    import pandas

__all__ = ["ENVIRONMENT", "FORMAT", "Result", "check_row", "checked", "select"]

FORMAT = 1  # of a results file; a card without "format" is of the first
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

    def frame(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame, one column for each field that any row has.

        Raises:
            ImportError: without pandas; the message says how to get it.
        """
        frame: pandas.DataFrame = need("pandas", "book").DataFrame.from_records(self.rows)
        return frame


def select(rows: Iterable[Mapping[str, Any]], where: Mapping[str, Any]) -> list[Any]:
    """Return the rows whose fields have the values of `where` (a list: any of these)."""
    wanted = {k: v if isinstance(v, list | tuple) else (v,) for k, v in where.items()}
    return [row for row in rows if all(row.get(k) in v for k, v in wanted.items())]


def checked(value: Any, source: str) -> Result:
    """Return a parsed results file as a `Result`, refusing one that lacks a field."""
    if not isinstance(value, dict) or set(value) != {"card", "rows"}:
        raise ExperimentError(f"{source}: a results file holds exactly 'card' and 'rows'")
    card, rows = value["card"], value["rows"]
    for name, kind in _CARD.items():
        if not isinstance(card, dict) or name not in card or not isinstance(card[name], kind):
            raise ExperimentError(f"{source}: the card's {name!r} is missing or of a wrong type")
    if card.get("format", FORMAT) != FORMAT:
        raise ExperimentError(
            f"{source} has format {card['format']!r}, this version reads {FORMAT}; update pjrope"
        )
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
