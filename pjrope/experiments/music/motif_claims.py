"""P-M5, what models gain from returns, and P-M6, PJ-rotary on music; rules written before a run."""

from __future__ import annotations

from ..analysis.claims import Finding, Verdict, gap, holm, not_tested, undecided
from ..engine.result import Result, select
from ..text.claims import COLLAPSE, lengths_of, loss_change, loss_gap
from .judging import GOOD, OPEN, Rows, corpora_of, evidence_of, losses_on_test, shared_seeds


def returns_help(result: Result) -> Verdict:
    """P-M5: every method loses less on the structured corpus than on the shuffled one."""
    rows = losses_on_test(result)
    methods = list(dict.fromkeys(row["method"] for row in rows))
    methods = [m for m in methods if m not in ("unigram", "bigram")]
    paired = {m: [s for s in corpora_of(select(rows, {"method": m}))] for m in methods}
    methods = [m for m in methods if len(paired[m]) == 2]
    shared = shared_seeds(rows, methods)
    if not methods or len(shared) < 2:
        return not_tested("P-M5", "it takes two seeds of both corpora", result)
    rows = [row for row in rows if row["seed"] in shared]
    longest = lengths_of(rows)[-1]
    found = holm(_gain(rows, method, longest) for method in methods)
    evidence = evidence_of(result, found)
    helped = [m for m, f in zip(methods, found, strict=True) if f.word == "better"]
    if len(helped) == len(methods):
        because = "every method loses less on music that returns"
        return Verdict("P-M5", "reproduced", because, evidence)
    if helped:
        because = f"{len(helped)} of {len(methods)} methods lose less on music that returns"
        return Verdict("P-M5", "reproduced in part", because, evidence)
    if any(f.word in OPEN for f in found):
        return undecided("P-M5", found, evidence)
    return Verdict("P-M5", "not at this scale", "no method gains", evidence)


def _gain(rows: Rows, method: str, length: int) -> Finding:
    return gap(
        rows,
        "loss",
        method="structured",
        baseline="shuffled",
        where={"method": method, "length": length},
        by="corpus",
        kind="loss",
        name=f"{method}, structured - shuffled at {length:,}",
    )


def rotary_collapses(result: Result) -> Verdict:
    """P-M6 on music: PJ-rotary is as good as RoPE at L, and rises by a nat to the longest context."""
    rows = losses_on_test(result)
    if not {"pj_rotary", "rope"} <= {row["method"] for row in rows}:
        return not_tested("P-M6", "the record has no pj_rotary beside rope", result)
    if len(shared_seeds(rows, ("pj_rotary", "rope"))) < 2:
        return not_tested("P-M6", "it takes two seeds", result)
    corpora = corpora_of(rows)
    rows = select(rows, {"corpus": corpora[0]})
    ends = lengths_of(rows)
    found = holm(
        [loss_gap(rows, "pj_rotary", "rope", ends[0]), loss_change(rows, "pj_rotary", ends)]
    )
    evidence = evidence_of(result, found)
    near, rise = found
    good = near.word in GOOD
    falls = rise.summary.low is not None and rise.summary.low >= COLLAPSE
    if good and falls:
        return Verdict("P-M6", "reproduced", "as good as RoPE at L, a nat worse far out", evidence)
    if good or falls:
        because = "good at L, no collapse" if good else "a collapse, not good at L"
        return Verdict("P-M6", "reproduced in part", because, evidence)
    if near.word in OPEN:
        return undecided("P-M6", found[:1], evidence)
    because = "neither good at L nor a collapse"
    return Verdict("P-M6", "not at this scale", because, evidence)
