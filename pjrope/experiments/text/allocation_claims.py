"""What ``byte_lm/allocation`` decides of P-L1, P-L2, P-L5 and P-L6, by rules written before the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..analysis.claims import Evidence, Finding, Scale, Verdict, gap, holm, measured, not_tested
from ..engine.result import Result, select
from .claims import flatness, lengths_of, loss_change

SMALL = 0.01  # nats per byte
GROWN = 1.5  # a mass that ends above this many times its start has grown
PAPER = {
    "start": "affine",
    "gate_rate": 1.0,
}  # where the paper's unions begin, and its rate of gates
RECENCY, JETS = "affine", ("fj", "lc")


def _units(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Corpus and seed of each run, the units that are averaged over."""
    return sorted({(row["corpus"], row["seed"]) for row in rows})


def _mean(rows: Sequence[Mapping[str, Any]], field: str, **where: Any) -> float | None:
    values = [row[field] for row in select(rows, where)]
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def recency_leads(
    rows: Sequence[Mapping[str, Any]], start: str, rate: float
) -> tuple[Finding, ...]:
    """By how much the recency gate, and the cost of leaving recency out, lead the next sector.

    Args:
        rows: of the union.
        start, rate: of the gates.
    """
    here = select(rows, {"method": "full", "start": start, "gate_rate": rate})
    gates: list[float | None] = []
    costs: list[float | None] = []
    for corpus, seed in _units(here):
        own = select(here, {"corpus": corpus, "seed": seed})
        gate = {s: _mean(own, "gate", sector=s, sector_order=[None]) for s in (RECENCY, *JETS)}
        near = lengths_of(select(own, {"kind": "left_out"}))[0]
        cost = {s: _mean(own, "change", left_out=s, length=near) for s in (RECENCY, *JETS)}
        for found, into in ((gate, gates), (cost, costs)):
            others = [found[s] for s in JETS]
            most = None if None in others else max(v for v in others if v is not None)
            into.append(_minus(found[RECENCY], most))
    name = f"from {start} gates at rate {rate:g}"
    return (
        measured(f"recency gate over the next, {name}", gates),
        measured(f"cost of leaving recency out over the next, {name}", costs),
    )


def _above(finding: Finding, least: float) -> bool:
    low = finding.summary.low
    return low is not None and low > least


def recency_dominates(result: Result) -> Verdict:
    """P-L1: from uniform and from affine gates, recency has the largest gate and costs most."""
    settings = result.card["settings"]
    found: dict[str, list[tuple[Finding, ...]]] = {}
    for start in settings["starts"]:
        pairs = [recency_leads(result.rows, start, rate) for rate in settings["gate_rates"]]
        found[start] = pairs
    evidence = _evidence(result, [f for pairs in found.values() for pair in pairs for f in pair])
    leads = {
        start: all(_above(gate, 0) and _above(cost, SMALL) for gate, cost in pairs)
        for start, pairs in found.items()
    }
    if all(leads.values()):
        return Verdict("P-L1", "reproduced", "recency leads from every start", evidence)
    if leads.get("affine"):
        because = "recency leads from gates that favour it, and not from equal ones"
        return Verdict("P-L1", "contradicted", because, evidence)
    return Verdict("P-L1", "not at this scale", "recency does not lead from any start", evidence)


def high_orders_are_small(result: Result) -> Verdict:
    """P-L2: leaving orders 2 and 3 out costs less than 0.01 nats, and their mass does not grow."""
    rows = select(result.rows, {"method": "full"})
    near = lengths_of(select(rows, {"kind": "left_out"}))[0]
    findings, cheap, still = [], True, True
    for order in (2, 3):
        units = [select(rows, {"corpus": c, "seed": s}) for c, s in _units(rows)]
        cost = measured(
            f"cost of leaving order {order} of the jets out",
            [_mean(own, "change", left_out=f"jets order {order}", length=near) for own in units],
        )
        ratio = measured(f"mass of order {order} over its start", [_ratio(u, order) for u in units])
        findings += [cost, ratio]
        cheap &= cost.summary.high is not None and cost.summary.high < SMALL
        still &= ratio.summary.high is not None and ratio.summary.high < GROWN
    evidence = _evidence(result, findings)
    if cheap and still:
        return Verdict("P-L2", "reproduced", "orders 2 and 3 cost nothing and stay small", evidence)
    if cheap:
        return Verdict(
            "P-L2", "reproduced in part", "their mass grows, but costs nothing", evidence
        )
    return Verdict("P-L2", "contradicted", "leaving orders 2 or 3 out costs 0.01 nats", evidence)


def _ratio(rows: Sequence[Mapping[str, Any]], order: int) -> float | None:
    where = {"kind": "sectors", "sector": list(JETS), "sector_order": order}
    now, start = (_mean(rows, field, **where) for field in ("mass", "mass_start"))
    return None if now is None or not start else now / start


def unions_stay_flat(result: Result) -> Verdict:
    """P-L5 from the paper's start: affine gates that learn at the rate of everything else."""
    rows = select(result.rows, {"kind": "loss", **PAPER})
    if not rows:
        return not_tested("P-L5", "no run has the paper's start and rate of the gates", result)
    orders = result.card["settings"]["orders"]
    rows = select(rows, {"order": max(orders)})
    found = []
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        here = select(rows, {"corpus": corpus})
        found += [loss_change(here, method, lengths_of(here)) for method in ("full", "lc_affine")]
    return flatness(result, holm(found), "from the paper's affine gates at rate 1")


def orders_matter_little(result: Result) -> Verdict:
    """P-L6: orders 0, 1 and 3 are equal within 0.01 nats at L and at the longest context."""
    rows = select(result.rows, {"kind": "loss", "method": "full", **PAPER})
    orders = sorted({row["order"] for row in rows})
    if len(orders) < 2:
        return not_tested("P-L6", "the preset has one order; paper has three", result)
    ends = (lengths_of(rows)[0], lengths_of(rows)[-1])
    near, far = (
        holm(
            gap(
                select(rows, {"corpus": corpus}),
                "loss",
                method=order,
                baseline=orders[-1],
                where={"length": length},
                by="order",
                kind="loss",
                name=f"R = {order} - R = {orders[-1]} at {length:,}, {corpus}",
            )
            for corpus in dict.fromkeys(row["corpus"] for row in rows)
            for order in orders[:-1]
        )
        for length in ends
    )
    evidence = _evidence(result, [*near, *far])
    if all(f.word == "equal" for f in near):
        wholly = all(f.word == "equal" for f in far)
        because = "orders agree at both ends" if wholly else "orders agree at L only"
        return Verdict("P-L6", "reproduced" if wholly else "reproduced in part", because, evidence)
    return Verdict("P-L6", "contradicted", "orders differ at L already", evidence)


def _evidence(result: Result, found: Sequence[Finding]) -> Evidence:
    seeds = min((f.summary.n for f in found), default=0)
    return Evidence(tuple(found), Scale.of(result), seeds)


def _enough(claim: str, rule: Callable[[Result], Verdict]) -> Callable[[Result], Verdict]:
    def judged(result: Result) -> Verdict:
        starts = {(r["start"], r["gate_rate"]) for r in select(result.rows, {"method": "full"})}
        s = result.card["settings"]
        if len({row["seed"] for row in result.rows}) < 2:
            return not_tested(claim, "it takes two seeds", result)
        if len(starts) < len(s["starts"]) * len(s["gate_rates"]):
            return not_tested(claim, "a start or a rate of the gates is missing", result)
        return rule(result)

    return judged


RULES: Mapping[str, Callable[[Result], Verdict]] = {
    "P-L1": _enough("P-L1", recency_dominates),
    "P-L2": _enough("P-L2", high_orders_are_small),
    "P-L5": _enough("P-L5", unions_stay_flat),
    "P-L6": _enough("P-L6", orders_matter_little),
}
