"""What language selects: the cells of the grid, and its rules on rows made by hand."""

from __future__ import annotations

import pytest

from pjrope.experiments import Result, get, run
from pjrope.experiments.text.allocation import make_union
from pjrope.kernels import PJBias

NAME = "byte_lm/allocation"
RULES = get(NAME).verdicts
SETTINGS = {
    "starts": ["affine", "uniform"],
    "gate_rates": [1.0, 10.0],
    "orders": [3],
    "length": 128,
}


def rows_of(gate=0.6, cost=0.1, high=0.001, grown=1.0, rise=0.0, uniform=None, orders=(3,)):
    """Rows of the union: recency's gate and cost, what orders 2 and 3 cost and gained, the rise."""
    rows = []
    for start in SETTINGS["starts"]:
        own = (gate, cost) if start == "affine" or uniform is None else uniform
        for rate in SETTINGS["gate_rates"]:
            for seed in (0, 1, 2):
                for order in orders:
                    key = {"start": start, "gate_rate": rate, "order": order, "corpus": "a"}
                    rows += run_rows(key | {"seed": seed}, own, high, grown, rise)
    return rows


def run_rows(key, own, high, grown, rise):
    made, noise = [], 0.001 * key["seed"]
    for method in ("full", "lc_affine"):
        for length, loss in ((128, 1.7), (8192, 1.7 + rise)):
            made.append({"method": method, "kind": "loss", "length": length, "loss": loss + noise})
    for sector, share in (("affine", own[0]), ("fj", 0.2), ("lc", 0.1)):
        made.append(
            {"method": "full", "kind": "sectors", "sector": sector, "sector_order": None}
            | {"gate": share + noise, "layer": 0, "mass": None, "mass_start": None}
        )
    for order in (2, 3):
        made.append({"method": "full", "kind": "left_out", "left_out": f"jets order {order}"})
        made[-1] |= {"length": 128, "change": high + noise / 100}
        for sector in ("fj", "lc"):
            made.append({"method": "full", "kind": "sectors", "sector": sector, "layer": 0})
            made[-1] |= {"sector_order": order, "mass": 0.1 * grown + noise / 100}
            made[-1] |= {"mass_start": 0.1, "gate": None}
    for part, change in (("affine", own[1]), ("fj", 0.01), ("lc", 0.02)):
        made.append({"method": "full", "kind": "left_out", "left_out": part, "length": 128})
        made[-1] |= {"change": change + noise}
    return [key | row for row in made]


def judged(claim, rows, **settings):
    return RULES[claim](Result(rows, {"settings": SETTINGS | settings, "data": []})).outcome


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({}, "reproduced"),
        ({"uniform": (0.3, 0.1), "gate": 0.9}, "reproduced"),
        ({"uniform": (0.15, 0.1)}, "contradicted"),
        ({"uniform": (0.6, 0.02)}, "contradicted"),  # a gate that costs no more is no selection
        ({"gate": 0.1}, "not at this scale"),
    ],
)
def test_recency_must_lead_from_every_start(more, outcome):
    assert judged("P-L1", rows_of(**more)) == outcome


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({}, "reproduced"),
        ({"grown": 4.0}, "reproduced in part"),
        ({"high": 0.05}, "contradicted"),
    ],
)
def test_high_orders_are_small_if_they_cost_nothing(more, outcome):
    assert judged("P-L2", rows_of(**more)) == outcome


@pytest.mark.parametrize(("rise", "outcome"), [(0.0, "reproduced"), (0.1, "not at this scale")])
def test_unions_are_flat_from_the_papers_start(rise, outcome):
    assert judged("P-L5", rows_of(rise=rise)) == outcome


def test_orders_are_compared_where_there_are_several():
    assert judged("P-L6", rows_of()) == "not tested"
    assert judged("P-L6", rows_of(orders=(0, 1, 3)), orders=[0, 1, 3]) == "reproduced"
    moved = [
        row | {"loss": row["loss"] + 0.1} if row["kind"] == "loss" and row["order"] == 0 else row
        for row in rows_of(orders=(0, 3))
    ]
    assert judged("P-L6", moved, orders=[0, 3]) == "contradicted"


def test_one_seed_or_a_missing_start_is_not_tested():
    rows = rows_of()
    for claim in RULES:
        assert judged(claim, [r for r in rows if r["seed"] == 0]) == "not tested"
        assert judged(claim, [r for r in rows if r["start"] == "affine"]) == "not tested"


def test_a_cell_tells_sectors_beside_their_start_and_what_leaving_out_costs():
    only = {"method": "full", "start": "uniform"}
    result = run(NAME, only=only, store=False, progress=False)
    whole = [r for r in result.where(kind="sectors").rows if r["sector_order"] is None]
    parts = {row["sector"] for row in whole}
    assert parts == {"fj", "affine", "lc", "total"}
    gates = [r for r in whole if r["sector"] != "total"]
    assert all(r["gate_start"] == pytest.approx(1 / 3, abs=1e-4) for r in gates)
    assert any(abs(r["gate"] - 1 / 3) > 0.01 for r in gates)
    parts = {row["left_out"] for row in result.where(kind="left_out").rows}
    assert {"fj", "affine", "lc", "jets order 3"} <= parts
    assert len(result.where(kind="training").rows) == 1


def test_the_start_is_a_factor():
    smoke = get(NAME).presets["smoke"]
    for cell in get(NAME).grid(smoke, (0,)):
        model = make_union(cell, smoke.settings, 16)
        kernel = model.blocks[0].attention.kernel
        assert isinstance(kernel, PJBias)
        favoured = float(kernel.gate("affine").detach().min()) > 0.9
        assert favoured == (cell.key["start"] == "affine")
    book = get(NAME).grid(get(NAME).preset("book"), (0, 1, 2))
    assert len(book) == 48
