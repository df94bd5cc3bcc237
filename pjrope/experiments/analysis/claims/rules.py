"""What rules share: differences, Holm's correction, exclusion of failed runs, seeds that would do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from ...engine.plain_json import ExperimentError
from ...engine.result import Result
from ..statistics import Summary, paired_difference, summary
from ..student import t_quantile
from .paper_claim import Scale
from .verdict import Evidence, Excluded, Finding, Outcome, Verdict, seeds_of

__all__ = [
    "COIN",
    "SMALLEST_EFFECT",
    "exclude",
    "gap",
    "holm",
    "measured",
    "not_tested",
    "seeds_needed",
    "superiority",
    "undecided",
]

# The smallest difference worth telling, fixed before the first record, by kind of value.
SMALLEST_EFFECT: Mapping[str, float] = {"accuracy": 0.03, "loss": 0.01, "r2": 0.03}
COIN = math.log(2)  # the loss of a model that guesses between two answers
_MOST_SEEDS = 1000


def gap(
    result: Result | Sequence[Mapping[str, Any]],
    value: str,
    *,
    method: str,
    baseline: str,
    where: Mapping[str, Any] | None = None,
    by: str = "method",
    kind: str = "accuracy",
    name: str = "",
) -> Finding:
    """Return the paired difference value(method) − value(baseline) over shared seeds.

    Args:
        result: a `Result` or its rows.
        value: row field compared.
        method, baseline: the two values of the field `by`, which may be "length" or "times".
        where: fields that pick one row per seed.
        by: field that tells the two sides apart.
        kind: key of `SMALLEST_EFFECT`; "loss" counts downwards, the others upwards.
        name: shown; default "method - baseline".

    Raises:
        ExperimentError: when a seed has several rows, no seed is shared, or for another kind.
    """
    if kind not in SMALLEST_EFFECT:
        raise ExperimentError(f"kind {kind!r}: choose from {', '.join(SMALLEST_EFFECT)}")
    found = paired_difference(result, value, method=method, baseline=baseline, where=where, by=by)
    return Finding(
        name or f"{method} - {baseline}",
        found.summary,
        SMALLEST_EFFECT[kind],
        "lower" if kind == "loss" else "higher",
    )


def measured(
    name: str,
    values: float | Iterable[float | None],
    digits: int = 3,
    form: Literal["fixed", "scientific"] = "fixed",
) -> Finding:
    """Return a plain value: one exact number, or the mean over seeds with its interval."""
    if isinstance(values, int | float):
        return Finding(name, Summary(float(values), None, None, 1), digits=digits, form=form)
    return Finding(name, summary(values), digits=digits, form=form)


def holm(findings: Iterable[Finding], error: float = 0.05) -> tuple[Finding, ...]:
    """Correct several comparisons of one claim by Holm's step-down rule.

    The comparison with the k-th smallest p (from 0) of m is judged at the level 1 − error/(m − k)
    until one of them does not exclude 0; those after it keep that level. The interval shown is that
    of the level, so the word of a finding and its interval never disagree.

    Args:
        findings: differences; plain values pass through unchanged.
        error: chance that any of them is a false alarm.

    Returns:
        The findings in their order, intervals widened.

    Reference: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    findings = list(findings)
    compared = [f for f in findings if f.smallest is not None]
    levels: dict[int, float] = {}
    level, stopped = 1.0, False
    for k, finding in enumerate(sorted(compared, key=lambda f: f.p)):
        if not stopped:
            level = 1 - error / (len(compared) - k)
            stopped = finding.p >= 1 - level
        levels[id(finding)] = level
    return tuple(f.at(levels[id(f)]) if id(f) in levels else f for f in findings)


def exclude(
    result: Result,
    failed: Callable[[Mapping[str, Any]], bool],
    rule: str,
    run: Sequence[str] = ("method", "seed"),
) -> tuple[Result, Excluded]:
    """Take out whole runs of which a row shows that training or fitting failed.

    Args:
        result: rows and card.
        failed: true for a row that disqualifies its run, such as
            ``lambda row: row["train_loss"] > COIN``.
        rule: the same in words; written before the comparison is made.
        run: fields that name a run.

    Returns:
        The rows that are left, and what was taken out.
    """

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in run)

    runs = list(dict.fromkeys(map(key, result.rows)))
    out = {key(row) for row in result.rows if failed(row)}
    names = [
        " ".join(_name(n, v) for n, v in zip(run, one, strict=True)) for one in runs if one in out
    ]
    kept = [row for row in result.rows if key(row) not in out]
    return Result(kept, result.card), Excluded(rule, tuple(names), len(runs))


def _name(field: str, value: Any) -> str:
    return f"{field} {value}" if isinstance(value, int | float) else str(value)


def seeds_needed(finding: Finding) -> int | None:
    """Return how many seeds would decide a difference at its observed spread.

    Enough are those whose half-width is below half the smallest effect: then the interval leaves
    out 0, or lies within the smallest effect. None for more than a thousand, or without a spread.
    """
    s = finding.summary
    if finding.smallest is None or s.low is None or s.high is None:
        return None
    half = (s.high - s.low) / 2
    tail = 0.5 + finding.level / 2
    spread = half * math.sqrt(s.n) / t_quantile(tail, s.n - 1)
    n = s.n
    while t_quantile(tail, n - 1) * spread / math.sqrt(n) >= finding.smallest / 2:
        n += max(1, n // 20)
        if n > _MOST_SEEDS:
            return None
    return n


def undecided(claim: str, findings: Sequence[Finding], evidence: Evidence) -> Verdict:
    """Return "undecided" with its reason: which differences are open, and how many seeds would do."""
    open_ = [f for f in findings if f.word in ("unresolved", "one seed", "not finite")]
    needed = [seeds_needed(f) for f in open_ if f.word == "unresolved"]
    names = " and ".join(f.name for f in open_)
    if any(f.word == "not finite" for f in open_):
        return Verdict(claim, "undecided", f"{names}: a seed has no finite number", evidence)
    if any(f.word == "one seed" for f in open_):
        return Verdict(claim, "undecided", f"{names}: one seed, at least two are needed", evidence)
    known = [n for n in needed if n is not None]
    enough = f"about {max(known)}" if len(known) == len(needed) and known else "over a thousand"
    return Verdict(
        claim,
        "undecided",
        f"{names} not resolved by {seeds_of(open_)} seeds; {enough} would do at this spread",
        evidence,
    )


def not_tested(claim: str, because: str, result: Result | None = None) -> Verdict:
    """Return "not tested" with its reason: a missing control, too few seeds, a treatment not applied."""
    scale = Scale.of(result) if result else Scale()
    return Verdict(claim, "not tested", because, Evidence(scale=scale))


def superiority(
    claim: str,
    published: Sequence[Finding],
    controls: Sequence[Finding] = (),
    *,
    evidence: Evidence,
    missed: Outcome = "not at this scale",
) -> Verdict:
    """Judge "ours is better": against what the paper compares with, and against its controls.

    All better: reproduced. All published ones better and a control not: reproduced in part, or,
    if every control that is not beaten is open, undecided. A published one equal or worse:
    `missed`. Else undecided.

    Args:
        claim: id.
        published, controls: differences, in the sense ours − theirs; corrected here by Holm's rule.
        evidence: scale and exclusions; the corrected findings are put before its own.
        missed: outcome where a published baseline is not beaten.
    """
    found = holm([*published, *controls])
    theirs, ours = found[: len(published)], found[len(published) :]
    seeds = evidence.seeds or seeds_of(found)
    evidence = Evidence((*found, *evidence.findings), evidence.scale, seeds, evidence.excluded)
    lost = [f for f in theirs if f.word not in ("better", "unresolved", "one seed", "not finite")]
    if lost:
        what = ", ".join(f"{f.name}: {f.word}" for f in lost)
        return Verdict(
            claim, missed, f"not better than what the paper compares with ({what})", evidence
        )
    if any(f.word != "better" for f in theirs):
        return undecided(claim, theirs, evidence)
    rest = [f for f in ours if f.word != "better"]
    if not rest:
        beaten = "what the paper compares with" + (" and the controls" if ours else "")
        return Verdict(claim, "reproduced", f"better than {beaten}", evidence)
    if all(f.word in ("unresolved", "one seed", "not finite") for f in rest):
        return undecided(claim, ours, evidence)
    what = ", ".join(f"{f.name}: {f.word}" for f in rest)
    because = f"better than what the paper compares with, but not than the controls ({what})"
    return Verdict(claim, "reproduced in part", because, evidence)
