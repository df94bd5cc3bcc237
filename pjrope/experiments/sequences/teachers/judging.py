"""What the rules on the teachers' grids share: one factor at a time, seed by seed, and a grade."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...analysis.claims import (
    COIN,
    SMALLEST_EFFECT,
    Evidence,
    Excluded,
    Finding,
    Verdict,
    exclude,
    gap,
    holm,
    not_tested,
    undecided,
)
from ...analysis.statistics import summary
from ...analysis.words import listed
from ...engine.result import Result, select

Rows = Sequence[Mapping[str, Any]]
Rule = Callable[[Result], Verdict]

JETS = ("first_jet", "second_jet", "third_jet")
SHARP = 16.0  # lambda of the attention teacher beside the signed ones
INIT_TEACHERS = (("affine", SHARP), *((jet, None) for jet in JETS), ("lc_core", None))
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
RUN = ("teacher", "method", "gates", "omega", "gate_lr", "seed")


class InsufficientData(Exception):
    """The rows of a rule are not all there, or come from one seed."""


def judged(claim: str) -> Callable[[Callable[..., Verdict]], Rule]:
    """Let a rule answer "not tested" where its rows are missing."""

    def wrap(rule: Callable[..., Verdict]) -> Rule:
        @functools.wraps(rule)
        def judge(result: Result) -> Verdict:
            try:
                return rule(result)
            except InsufficientData as missing:
                return not_tested(claim, f"it takes two trained seeds of {missing}", result)

        return judge

    return wrap


def pick(result: Result, **where: Any) -> Rows:
    """The rows with these values and, of the factors not named, the defaults.

    Raises:
        InsufficientData: fewer than two.
    """
    found = select(result.rows, {**HELD, **where})
    if len(found) < 2:
        raise InsufficientData(" ".join(str(v) for v in where.values() if v is not None))
    return found


def ahead(name: str, ours: Rows, theirs: Rows, value: str = "accuracy") -> Finding:
    """The difference ours - theirs over the seeds that both have.

    Raises:
        InsufficientData: fewer than two such seeds.
    """
    sides = [{**r, "side": s} for s, rows in (("ours", ours), ("theirs", theirs)) for r in rows]
    if len({row["seed"] for row in ours} & {row["seed"] for row in theirs}) < 2:
        raise InsufficientData(name)
    return gap(sides, value, method="ours", baseline="theirs", by="side", name=name)


def growth(
    name: str, result: Result, method: str, rival: str, ends: Sequence[float], slope: float
) -> Finding:
    """How much more a method is ahead of a rival at the last sharpness than at the first.

    Args:
        name: of the finding.
        result: rows of the support sweep at the training length.
        method, rival: the rival is found at the default slope, since it has none.
        ends: two values of lambda.
        slope: initial one of the method.
    """
    advantages = []
    for sharpness in ends:
        theirs = {r["seed"]: r["accuracy"] for r in pick(result, method=rival, sharpness=sharpness)}
        ours = pick(result, method=method, sharpness=sharpness, slope=slope)
        advantages.append(
            [
                {"seed": row["seed"], "ahead": row["accuracy"] - theirs[row["seed"]]}
                for row in ours
                if row["seed"] in theirs
            ]
        )
    return ahead(name, advantages[1], advantages[0], "ahead")


def lead(name: str, rows: Rows, value: str) -> Finding:
    """The mean lead of the right sector or order, to be compared with 0."""
    return Finding(name, summary(row[value] for row in rows), SMALLEST_EFFECT["accuracy"])


def named(found: Iterable[Finding]) -> int:
    """How many leads name the right one."""
    return sum(f.word == "better" for f in found)


def learners(result: Result, *methods: str) -> tuple[Result, Excluded]:
    """Take out the runs of these methods whose training loss ended above that of a coin."""
    theirs, out = exclude(
        result.where(method=methods),
        lambda row: row.get("train_loss", 0.0) > COIN,
        "training loss above a coin's 0.693",
        RUN,
    )
    others = [row for row in result.rows if row["method"] not in methods]
    return Result([*theirs.rows, *others], result.card), out


def graded(
    claim: str,
    core: Sequence[Finding],
    rest: Sequence[Finding] = (),
    floor: Sequence[Finding] = (),
    *,
    evidence: Evidence,
) -> Verdict:
    """Judge a claim with a core, differences that must be better, and what else it takes.

    The core and the rest better and the floor not worse: reproduced. The core alone: in part. One
    of the core equal or worse: not at this scale. Else undecided.
    """
    found = holm([*core, *rest, *floor])
    a, b = len(core), len(core) + len(rest)
    seeds = min(f.summary.n for f in found)
    told = Evidence((*found, *evidence.findings), evidence.scale, seeds, evidence.excluded)
    weak = [f for f in found[:a] if f.word != "better"]
    if any(f.word not in ("unresolved", "not finite") for f in weak):
        what = listed(f"{f.name} ({f.word})" for f in weak)
        return Verdict(claim, "not at this scale", f"not better: {what}", told)
    if weak:
        return undecided(claim, weak, told)
    lacking = [f for f in found[a:b] if f.word != "better"]
    lacking += [f for f in found[b:] if f.word in ("worse", "slightly worse", "not finite")]
    if lacking:
        what = listed(f"{f.name} ({f.word})" for f in lacking)
        because = (
            "better than what the paper compares with, but not all else that the rule asks for"
        )
        return Verdict(claim, "reproduced in part", f"{because}: {what}", told)
    return Verdict(claim, "reproduced", "all differences that the rule names are resolved", told)
