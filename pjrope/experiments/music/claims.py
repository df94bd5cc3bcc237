"""What the grids on music decide of P-M1 … P-M6, by rules written before their first cell ran.

Differences are paired over seeds, in nats per token on the test split, and corrected within a claim by
Holm's rule; they count from 0.01 nats per token. A claim about two corpora that was read on one is
reproduced in part at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from ..analysis.claims import Evidence, Finding, Outcome, Scale, Verdict, holm, measured, undecided
from ..engine.result import Result, select
from ..text.claims import lengths_of, loss_gap
from .judging import GOOD, OPEN, Rows, asked_of, corpora_of, evidence_of, losses_on_test
from .mass_claims import high_orders_matter

COMPARED = ("alibi", "alibi_table8", "lc_affine", "rope_affine", "rope_ntk_affine", "full")
OURS = (*COMPARED, "alibi_time")


def _far_gaps(result: Result, ours: str) -> dict[str, tuple[Finding, ...]]:
    """Corpus by corpus, `ours` minus each other method at the longest context; corrected together."""
    others = [m for m in OURS if m != ours and select(losses_on_test(result), {"method": m})]
    found: list[tuple[str, Finding]] = []
    for corpus in corpora_of(losses_on_test(result)):
        rows = losses_on_test(result, corpus)
        longest = lengths_of(rows)[-1]
        found += [(corpus, loss_gap(rows, ours, other, longest)) for other in others]
    corrected = holm(finding for _, finding in found)
    return {
        corpus: tuple(f for (c, _), f in zip(found, corrected, strict=True) if c == corpus)
        for corpus in corpora_of(losses_on_test(result))
    }


def _by_corpus(
    claim: str,
    held: Mapping[str, bool],
    evidence: Evidence,
    words: tuple[str, str],
    otherwise: Outcome = "not at this scale",
) -> Verdict:
    """Held on two corpora or more: reproduced; on some: in part; on none: `otherwise`."""
    on = [corpus for corpus, holds in held.items() if holds]
    if len(on) == len(held) > 1:
        return Verdict(claim, "reproduced", f"{words[0]} on {' and '.join(on)}", evidence)
    if on:
        told = "the only corpus read" if len(held) == 1 else f"not on {len(held) - len(on)} other"
        because = f"{words[0]} on {' and '.join(on)}, {told}"
        return Verdict(claim, "reproduced in part", because, evidence)
    return Verdict(claim, otherwise, words[1], evidence)


def lightcone_is_best(result: Result) -> Verdict:
    """P-M1: the light cone with recency is equal to or better than every other at the longest context."""
    gaps = _far_gaps(result, "lc_affine")
    flat = [f for found in gaps.values() for f in found]
    evidence = evidence_of(result, flat)
    held = {corpus: all(f.word in GOOD for f in found) for corpus, found in gaps.items()}
    lost = any(f.word in ("worse", "slightly worse") for f in flat)
    if not any(held.values()) and not lost:
        return undecided("P-M1", flat, evidence)
    return _by_corpus("P-M1", held, evidence, ("best or near the best", "another method is better"))


def ntk_does_not_win(result: Result) -> Verdict:
    """P-M2: another method beats NTK-scaled RoPE with recency at the longest context."""
    gaps = _far_gaps(result, "rope_ntk_affine")
    flat = [f for found in gaps.values() for f in found]
    evidence = evidence_of(result, flat)
    if all(f.word == "better" for f in flat):
        return Verdict("P-M2", "contradicted", "it beats all others", evidence)
    held = {corpus: any(f.word == "worse" for f in found) for corpus, found in gaps.items()}
    if not any(held.values()) and any(f.word in OPEN for f in flat):
        return undecided("P-M2", flat, evidence)
    return _by_corpus("P-M2", held, evidence, ("another method beats it", "no method beats it"))


def ranking_is_the_same(result: Result) -> Verdict:
    """P-M4: no two methods that are resolved on two choices of pieces change their order."""
    rows = select(result.rows, {"kind": "loss"})
    methods = [m for m in OURS if select(rows, {"method": m})]
    choices = list(dict.fromkeys((row["corpus"], row["split"]) for row in rows))
    shared = set.intersection(
        *(set(lengths_of(select(rows, {"corpus": c, "split": s}))) for c, s in choices)
    )
    pairs = list(combinations(methods, 2))
    found = {
        choice: [_gap_on(rows, pair, choice, max(shared)) for pair in pairs] for choice in choices
    }
    corrected = iter(holm(f for gaps in found.values() for f in gaps))
    signs = [
        [0 if (f := next(corrected)).word in OPEN else _sign(f) for _ in pairs] for _ in choices
    ]
    judged = [[s for s in column if s] for column in zip(*signs, strict=True)]
    twice = [column for column in judged if len(column) > 1]
    turned = sum(len(set(column)) > 1 for column in twice)
    seeds = len({row["seed"] for row in rows})
    counts = (
        measured("pairs of methods ordered on two choices of pieces", len(twice)),
        measured("of these, pairs that change their order", turned),
    )
    evidence = Evidence(counts, Scale.of(result), seeds)
    if turned:
        return Verdict("P-M4", "contradicted", f"{turned} pairs change their order", evidence)
    if len(twice) < len(pairs) / 2:
        because = f"{len(twice)} of {len(pairs)} pairs are resolved on two choices of pieces"
        return Verdict("P-M4", "undecided", because, evidence)
    corpora = corpora_of(rows)
    if len(corpora) < 2:
        because = f"no pair changes its order among the splits of {corpora[0]}; no other was read"
        return Verdict("P-M4", "reproduced in part", because, evidence)
    return Verdict("P-M4", "reproduced", "no pair changes its order", evidence)


def _sign(finding: Finding) -> int:
    mean = finding.summary.mean
    return 0 if mean is None or finding.word == "equal" else 1 if mean > 0 else -1


def _gap_on(rows: Rows, pair: Sequence[str], choice: Sequence[str], length: int) -> Finding:
    own = select(rows, {"corpus": choice[0], "split": choice[1]})
    return loss_gap(own, pair[0], pair[1], length)


RULES: Mapping[str, Callable[[Result], Verdict]] = {
    "P-M1": asked_of("P-M1", COMPARED, lightcone_is_best),
    "P-M2": asked_of("P-M2", COMPARED, ntk_does_not_win),
    "P-M3": asked_of("P-M3", ("full",), high_orders_matter),
    "P-M4": asked_of("P-M4", COMPARED, ranking_is_the_same),
}
