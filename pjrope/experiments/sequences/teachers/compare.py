"""Rows of the teachers' languages compared: one factor at a time, seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...analysis.statistics import Summary, paired_difference, summary, verdict
from ...engine.store import Result, select
from ..training import SMALLEST_EFFECT

Rows = Sequence[Mapping[str, Any]]

JETS = ("first_jet", "second_jet", "third_jet")
PLAIN = {  # every factor at its default
    "gates": "uniform",
    "omega": "frozen",
    "qk": "frozen",
    "threshold": "zero",
    "slope": 2.0,
    "position_lr": 1.0,
}
# Of gates and order weights, over the backbone's. The protocol has one rate for everything. The
# factor came after the first record, whose rows are all at FAST and do not name it.
FAST, ONE_RATE = 10.0, 1.0
HELD = {**PLAIN, "gate_lr": [FAST, None]}
REPRODUCED, CAVEAT = "reproduced", "reproduced with a caveat"
NOT, UNTESTED = "not reproduced at this scale", "not tested at this scale"


class TooFew(Exception):
    """The rows of a rule are not all there, or come from one seed."""


def pick(rows: Rows, **where: Any) -> Rows:
    """The rows with these values and, of the factors not named, the defaults.

    Raises:
        TooFew: fewer than two.
    """
    found = select(rows, {**HELD, **where})
    if len(found) < 2:
        raise TooFew
    return found


def gap(ours: Rows, theirs: Rows, value: str = "accuracy") -> Summary:
    """Mean and interval of ours - theirs over the seeds that both have.

    Raises:
        TooFew: fewer than two such seeds.
    """
    sides = [{**r, "side": s} for s, rows in (("ours", ours), ("theirs", theirs)) for r in rows]
    if len({row["seed"] for row in ours} & {row["seed"] for row in theirs}) < 2:
        raise TooFew
    return paired_difference(sides, value, method="ours", baseline="theirs", by="side").summary


def beats(difference: Summary) -> bool:
    return verdict(difference, SMALLEST_EFFECT, "higher") == "better"


def falls(difference: Summary) -> bool:
    return verdict(difference, SMALLEST_EFFECT, "higher") == "worse"


def said(difference: Summary) -> str:
    return difference.text(sign=True)


def mean(rows: Rows, value: str = "accuracy") -> str:
    return summary(row[value] for row in rows).text()


def sentences_of(
    claims: Mapping[str, Callable[[Rows], list[str]]],
    *others: Callable[[Rows], list[str]],
) -> Callable[[Result | Rows], list[str]]:
    """Sentences of several rules, each in its turn.

    Args:
        claims: claim → rule; a rule that lacks rows says so instead.
        others: rules that lack a claim; without their rows they say nothing.
    """

    def sentences(result: Result | Rows) -> list[str]:
        rows = result.rows if isinstance(result, Result) else result
        spoken: list[str] = []
        for name, rule in [*claims.items(), *(("", rule) for rule in others)]:
            try:
                spoken += rule(rows)
            except TooFew:
                if name:
                    spoken.append(f"Claim {name}: {UNTESTED}; it takes its grid and two seeds.")
        return spoken

    return sentences
