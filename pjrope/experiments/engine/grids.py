"""Cells and tables of a grid in few words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from .spec import Cell, Preset, Table

__all__ = ["SCIENTIFIC", "cells_over", "tables_of"]

SCIENTIFIC: Mapping[str, Any] = {"digits": 1, "form": "scientific"}


def cells_over(**axes: Sequence[Any] | str) -> Callable[[Preset, Sequence[int]], list[Cell]]:
    """Cells for every combination of the axes, the first slowest, and for every seed.

    Args:
        axes: field of the key → its values, or the name of the setting that holds them.
    """

    def cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
        values = (preset.settings[v] if isinstance(v, str) else v for v in axes.values())
        keys = (dict(zip(axes, place, strict=True)) for place in product(*values))
        return [Cell({**key, "seed": seed}) for key in keys for seed in seeds]

    return cells


def tables_of(*tables: tuple[str, str, Mapping[str, Any]], **shared: Any) -> tuple[Table, ...]:
    """One table for each (title, value, fields).

    Args:
        tables: fields are those of `Table`.
        shared: fields of all tables that do not say otherwise.
    """
    return tuple(Table(title, value, **{**shared, **fields}) for title, value, fields in tables)
