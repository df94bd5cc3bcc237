"""Cells and tables of a grid from few words."""

from __future__ import annotations

from pjrope.experiments import Preset
from pjrope.experiments.engine.grids import SCIENTIFIC, cells_over, tables_of


def test_cells_are_every_combination_and_seeds_run_fastest():
    preset = Preset("smoke", (0,), {"lags": [1, 2]}, "1 core-second")
    cells = cells_over(lag="lags", method=("a", "b"))(preset, (0, 1))
    found = [(c.key["lag"], c.key["method"], c.seed) for c in cells]
    assert found[:3] == [(1, "a", 0), (1, "a", 1), (1, "b", 0)] and len(set(found)) == 8


def test_tables_share_fields_that_an_entry_may_change():
    shared = {"columns": "lag", "digits": 2}
    first, second = tables_of(("A", "x", {}), ("B", "y", {**SCIENTIFIC, "rows": "lag"}), **shared)
    assert (first.title, first.value, first.columns, first.digits) == ("A", "x", "lag", 2)
    assert (second.rows, second.digits, second.form) == ("lag", 1, "scientific")
