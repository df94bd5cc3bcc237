"""P-M3: whether high orders grow on music, more than on text, and whether a model needs them."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.claims import Verdict, measured, not_tested
from ..engine.result import Result, select
from ..engine.store import load
from ..text.allocation_claims import JETS
from ..text.claims import lengths_of
from .judging import SMALL, Rows, evidence_of

HIGH = (2, 3)  # the orders that the papers call high
TEXT = "byte_lm/allocation"


def mass_ratio(rows: Rows) -> float | None:
    """Mass of the high orders of both jet sectors over its start, mean of layers; None without any."""
    high = select(rows, {"kind": "sectors", "sector": list(JETS), "sector_order": list(HIGH)})
    now, start = (sum(row[field] or 0.0 for row in high) for field in ("mass", "mass_start"))
    return now / start if start else None


def _ratios(rows: Rows, units: Sequence[str]) -> list[float | None]:
    keys = dict.fromkeys(tuple(row[u] for u in units) for row in rows)
    return [mass_ratio(select(rows, dict(zip(units, key, strict=True)))) for key in keys]


def text_ratios() -> list[float | None]:
    """The same on text, run by run, of the union from the paper's start; [] without a record."""
    try:
        rows = load(TEXT).rows
    except FileNotFoundError:
        return []
    where = {"kind": "sectors", "method": "full", "start": "affine", "gate_rate": 1.0}
    return _ratios(select(rows, where), ("corpus", "seed"))


def high_orders_matter(result: Result) -> Verdict:
    """P-M3: high orders grow more than on text, and leaving them out costs 0.01 nats."""
    rows = select(result.rows, {"method": "full"})
    ours = measured("mass of orders 2 and 3 over its start, music", _ratios(rows, ("seed",)))
    text = text_ratios()
    if len(text) < 2:
        return not_tested("P-M3", f"fewer than two runs of {TEXT} are recorded", result)
    theirs = measured("the same on text", text)
    near = lengths_of(select(rows, {"kind": "left_out"}))[0]
    costs = [
        measured(f"cost of leaving order {order} out", _costs(rows, order, near)) for order in HIGH
    ]
    evidence = evidence_of(result, [ours, theirs, *costs])
    low, high = ours.summary.low, theirs.summary.high
    larger = low is not None and high is not None and low > high
    costly = any(c.summary.low is not None and c.summary.low >= SMALL for c in costs)
    if larger and costly:
        return Verdict("P-M3", "reproduced", "they grow more than on text, and cost", evidence)
    if larger:
        because = "they grow more than on text, but leaving them out costs nothing"
        return Verdict("P-M3", "reproduced in part", because, evidence)
    because = "they do not grow more than on text, as far as the intervals tell"
    return Verdict("P-M3", "not at this scale", because, evidence)


def _costs(rows: Rows, order: int, length: int) -> list[float]:
    where = {"kind": "left_out", "left_out": f"jets order {order}", "length": length}
    return [row["change"] for row in select(rows, where)]
