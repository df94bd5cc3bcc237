"""What the rules on music share: which rows they read, and when they are asked at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..analysis.claims import Evidence, Finding, Scale, Verdict, not_tested
from ..engine.result import Result, select

OPEN = ("unresolved", "one seed", "not finite")
GOOD = ("better", "slightly better", "equal")
SMALL = 0.01  # nats per token
Rows = Sequence[Mapping[str, Any]]


def losses_on_test(result: Result, corpus: str | None = None) -> list[Any]:
    """Losses on the test split, of one corpus or of all."""
    where = {"kind": "loss", "split": "test"} | ({} if corpus is None else {"corpus": corpus})
    return select(result.rows, where)


def corpora_of(rows: Rows) -> list[str]:
    """The corpora that rows were read on, in their order."""
    return list(dict.fromkeys(row["corpus"] for row in rows))


def evidence_of(result: Result, found: Sequence[Finding]) -> Evidence:
    """Findings with the scale of the run and the fewest seeds among them."""
    seeds = min((f.summary.n for f in found), default=0)
    return Evidence(tuple(found), Scale.of(result), seeds)


def shared_seeds(rows: Rows, methods: Sequence[str]) -> set[int]:
    """The seeds that every method has."""
    seeds = [{row["seed"] for row in select(rows, {"method": m})} for m in methods]
    return set.intersection(*seeds) if seeds else set()


def asked_of(
    claim: str, methods: Sequence[str], rule: Callable[[Result], Verdict]
) -> Callable[[Result], Verdict]:
    """A rule that is asked only where all its methods share two seeds."""

    def judged(result: Result) -> Verdict:
        rows = losses_on_test(result)
        missing = [m for m in methods if not select(rows, {"method": m})]
        if missing:
            return not_tested(claim, f"the record has no {missing[0]}", result)
        shared = shared_seeds(rows, methods)
        if len(shared) < 2:
            return not_tested(claim, "it takes two seeds of every method", result)
        kept = [row for row in result.rows if row["seed"] in shared]
        return rule(Result(kept, result.card))

    return judged
