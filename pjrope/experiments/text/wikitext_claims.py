"""What ``wikitext_bytes`` decides of J-K6 and J-K7, by rules written before the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..analysis.claims import Evidence, Scale, Verdict, holm, not_tested, undecided
from ..engine.result import Result, select
from .claims import lengths_of, loss_gap

APPLIED = 0.1  # a shear per L below which none was applied
OPEN = ("unresolved", "one seed", "not finite")
AT_LEAST = ("better", "equal", "better, but by less than the smallest effect")


def exact_form_on_text(result: Result) -> Verdict:
    """J-K6: the scaled-exact form leads its family, RoPE + ALiBi leads all, larger shears harm.

    *reproduced* if at L "jordan" beats its η ≡ 0 twin and rope_trunc, rope_alibi beats it, and the shear
    of 1 that is held is worse than its twin at the longest length; *in part* if all but the twin
    are so, since damping then does the work; *undecided* where the comparison with the twin is
    open; else *not at this scale*.
    """
    rows = select(result.rows, {"kind": "loss"})
    near, far = lengths_of(rows)[0], lengths_of(rows)[-1]
    found = holm(
        [
            loss_gap(rows, "jordan", "damped", near),
            loss_gap(rows, "jordan", "rope_trunc", near),
            loss_gap(rows, "rope_alibi", "jordan", near),
            loss_gap(rows, "jordan_held100", "damped", far),
        ]
    )
    twin, trunc, alibi, forced = found
    evidence = _evidence(result, found)
    rest = (trunc.word, alibi.word, forced.word) == ("better", "better", "worse")
    if rest and twin.word == "better":
        return Verdict("J-K6", "reproduced", "the shear leads its twin, ALiBi all", evidence)
    if rest and twin.word not in OPEN:
        because = "damping does the work: the η ≡ 0 twin is as good"
        return Verdict("J-K6", "reproduced in part", because, evidence)
    open_ = [f for f in found if f.word in OPEN]
    if open_:
        return undecided("J-K6", open_, evidence)
    lost = [
        f.name
        for f, wanted in zip(found, ("better", "better", "better", "worse"), strict=True)
        if f.word != wanted
    ]
    return Verdict("J-K6", "not at this scale", f"not as claimed: {', '.join(lost)}", evidence)


def jets_beside_alibi(result: Result) -> Verdict:
    """J-K7: a weak shear beside ALiBi is at least as good as RoPE + ALiBi, and its twin is not.

    *reproduced* if it is better or equal at every length and better than its η ≡ 0 twin at L and at the
    longest; *in part* if it is no better than the twin, so that jets are not the cause; *undecided*
    where a comparison with RoPE + ALiBi is open; else *contradicted*.
    """
    rows, ours = select(result.rows, {"kind": "loss"}), "jordan150_alibi"
    lengths = lengths_of(rows)
    found = holm(
        [
            *(loss_gap(rows, ours, "rope_alibi", n) for n in lengths),
            *(loss_gap(rows, ours, "damped150_alibi", n) for n in (lengths[0], lengths[-1])),
        ]
    )
    rivals, twins = found[: len(lengths)], found[len(lengths) :]
    evidence = _evidence(result, found)
    if any(f.word in OPEN for f in rivals):
        return undecided("J-K7", [f for f in rivals if f.word in OPEN], evidence)
    if not all(f.word in AT_LEAST for f in rivals):
        return Verdict("J-K7", "contradicted", "RoPE + ALiBi is better somewhere", evidence)
    if all(f.word == "better" for f in twins):
        return Verdict("J-K7", "reproduced", "better than the η ≡ 0 twin as well", evidence)
    because = "at least as good as RoPE + ALiBi, and so is the twin without a shear"
    return Verdict("J-K7", "reproduced in part", because, evidence)


def _evidence(result: Result, found: tuple) -> Evidence:
    return Evidence(found, Scale.of(result), min(f.summary.n for f in found))


def _enough(
    claim: str, rule: Callable[[Result], Verdict], *needed: str
) -> Callable[[Result], Verdict]:
    def judged(result: Result) -> Verdict:
        seeds = [{r["seed"] for r in select(result.rows, {"method": m})} for m in needed]
        if not all(seeds):
            return not_tested(claim, "a method of the rule is missing", result)
        if len(set.intersection(*seeds)) < 2:
            return not_tested(claim, "it takes two seeds", result)
        held = [r["shear"] for r in select(result.rows, {"kind": "shear", "method": needed[0]})]
        if held and max(held) < APPLIED and needed[0] == "jordan_held100":
            return not_tested(claim, f"the shear applied is {max(held):.3f}", result)
        return rule(result)

    return judged


RULES: Mapping[str, Callable[[Result], Verdict]] = {
    "J-K6": _enough(
        "J-K6",
        exact_form_on_text,
        "jordan_held100",
        "jordan",
        "damped",
        "rope_trunc",
        "rope_alibi",
    ),
    "J-K7": _enough("J-K7", jets_beside_alibi, "jordan150_alibi", "damped150_alibi", "rope_alibi"),
}
