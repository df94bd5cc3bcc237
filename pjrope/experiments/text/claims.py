"""What the byte models decide of P-L3, P-L4, P-L5 and P-F1, as verdicts.

Differences are paired over seeds, in nats per byte at the end of the context, and corrected within a
claim by Holm's rule. The rules of P-L4, P-L5 and P-F1 were written before their records were made, those of
P-L3 and P-M6 after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..analysis.claims import (
    Evidence,
    Finding,
    Outcome,
    Scale,
    Verdict,
    gap,
    holm,
    measured,
    not_tested,
    superiority,
    undecided,
)
from ..engine.result import Result, select

# What the papers compare; slopes that start at ALiBi's, and ALiBi itself, are our controls.
PUBLISHED = ("none", "rope", "rope_ntk", "affine", "rope_affine")
CONTROLS = ("alibi", "affine_spread", "rope_affine_spread", "rope_ntk_affine_spread")
FLAT = ("affine", "lc_affine", "full")
BOUNDED = ("lc", "fj", "pj_rotary")
GROWS = 2.0
COLLAPSE = 1.0  # nats per byte
_OPEN = ("unresolved", "one seed", "not finite")


def lengths_of(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """The context lengths in some rows, rising."""
    return sorted({row["length"] for row in rows})


def loss_gap(rows: Sequence[Mapping[str, Any]], method: str, other: str, length: int) -> Finding:
    """Loss of one method minus another's at a length."""
    where, name = {"length": length}, f"{method} - {other} at {length:,}"
    return gap(rows, "loss", method=method, baseline=other, where=where, kind="loss", name=name)


def loss_change(rows: Sequence[Mapping[str, Any]], method: str, lengths: Sequence[int]) -> Finding:
    """Loss of a method at the last of some lengths minus that at the first."""
    ends: dict[str, Any] = {"method": lengths[-1], "baseline": lengths[0]}
    name = f"{method}, from {lengths[0]:,} to {lengths[-1]:,}"
    return gap(rows, "loss", **ends, where={"method": method}, by="length", kind="loss", name=name)


def enough(rule: Callable[[Result], Verdict], claim: str, *needed: str) -> Callable[..., Verdict]:
    """A rule that is asked only where all its methods share two seeds and two lengths."""

    def judged(result: Result) -> Verdict:
        seeds = [{r["seed"] for r in select(result.rows, {"method": m})} for m in needed]
        if not all(seeds):
            missing = next(m for m, found in zip(needed, seeds, strict=True) if not found)
            return not_tested(claim, f"the record has no {missing}", result)
        if len(set.intersection(*seeds)) < 2 or len(lengths_of(result.rows)) < 2:
            return not_tested(claim, "it takes two seeds and two lengths", result)
        return rule(result)

    return judged


def best_far_out(result: Result) -> Verdict:
    """P-L3: NTK-scaled RoPE with affine recency is best at the longest context."""
    ours, rows = "rope_ntk_affine", result.rows
    longest = lengths_of(rows)[-1]
    return superiority(
        "P-L3",
        [loss_gap(rows, ours, other, longest) for other in PUBLISHED],
        [loss_gap(rows, ours, other, longest) for other in CONTROLS],
        evidence=Evidence(scale=Scale.of(result)),
    )


def rope_rises(result: Result) -> Verdict:
    """P-L4: RoPE rises with length; NTK scaling, the only extension here, rises less."""
    rows, lengths = result.rows, lengths_of(result.rows)
    found = holm(
        [
            loss_change(rows, "rope", lengths),
            *(loss_gap(rows, "rope_ntk", "rope", n) for n in (lengths[1], lengths[-1])),
        ]
    )
    evidence = _evidence(result, found)
    rises, near, far = (f.word for f in found)
    if rises in _OPEN:
        return undecided("P-L4", found[:1], evidence)
    if rises == "worse" and "better" in (near, far):
        where = "at the longest context" if far == "better" else "at twice L only"
        because = (
            f"RoPE rises and NTK scaling is below it {where}; PI and YaRN are not in this grid"
        )
        return Verdict("P-L4", "reproduced in part", because, evidence)
    because = "RoPE does not rise" if rises != "worse" else "NTK scaling is not below RoPE"
    return Verdict("P-L4", "not at this scale", because, evidence)


def recency_is_flat(result: Result) -> Verdict:
    """P-L5 for recency alone: its loss does not change with length."""
    found = (loss_change(result.rows, "affine", lengths_of(result.rows)),)
    return flatness(result, found, "recency alone, the other two were not run")


def unions_are_flat(result: Result) -> Verdict:
    """P-L5 for recency, the light cone with recency, and the union, from equal gates."""
    rows = select(result.rows, {"kind": "loss"})
    found = holm(loss_change(rows, method, lengths_of(rows)) for method in FLAT)
    return flatness(result, found, "gates start equal and learn tenfold, not as in the paper")


def flatness(result: Result, found: Sequence[Finding], model: str) -> Verdict:
    """Equal for all: reproduced; for some: in part; for none: not at this scale."""
    evidence = _evidence(result, found)
    flat = [f for f in found if f.word == "equal"]
    risen = [f for f in found if f.word in ("worse", "not finite")]
    if len(flat) == len(found):
        return Verdict("P-L5", "reproduced", f"no loss changes with length ({model})", evidence)
    if not flat and not risen:
        fallen = [f for f in found if f.word.startswith("better")]
        if len(fallen) < len(found):
            return undecided("P-L5", found, evidence)
        because = f"longer contexts help ({model})"
        return Verdict("P-L5", "reproduced in part", because, evidence)
    names = " and ".join(f.name.split(",")[0] for f in flat)
    because = f"flat: {names or 'nothing'} ({model})"
    outcome: Outcome = "reproduced in part" if flat else "not at this scale"
    return Verdict("P-L5", outcome, because, evidence)


def rotary_collapses(result: Result) -> Verdict:
    """P-M6 on text: PJ-rotary is as good as ALiBi at L, and rises by a nat to the longest context."""
    rows = select(result.rows, {"kind": "loss"})
    lengths = lengths_of(rows)
    near, rise = holm(
        [
            loss_gap(rows, "pj_rotary", "alibi", lengths[0]),
            loss_change(rows, "pj_rotary", lengths),
        ]
    )
    evidence = _evidence(result, (near, rise))
    if "not finite" in (near.word, rise.word):
        return undecided("P-M6", (near, rise), evidence)
    good = near.word.startswith("better") or near.word == "equal"
    falls = rise.summary.low is not None and rise.summary.low >= COLLAPSE
    if good and falls:
        because = (
            "as good as ALiBi at L and a nat worse far out (text; its frequencies alone not run)"
        )
        return Verdict("P-M6", "reproduced", because, evidence)
    because = "good at L, no collapse" if good else "a collapse, not good at L"
    if good or falls:
        return Verdict("P-M6", "reproduced in part", because, evidence)
    return Verdict("P-M6", "not at this scale", "neither good at L nor a collapse", evidence)


def bounded_in_a_model(result: Result) -> Verdict:
    """P-F1 in a trained model: keys and logits of the light cone stay below twice their size at L."""
    rows = select(result.rows, {"kind": "attention"})
    values = {"norm of keys": "placed_key_norm", "largest logit": "logit_max"}
    grown = {
        method: {name: growth(rows, method, value) for name, value in values.items()}
        for method in BOUNDED
    }

    def below(method: str) -> bool:
        return all(ratio < GROWS for ratios in grown[method].values() for ratio in ratios)

    ends = lengths_of(rows)
    found = [
        measured(
            f"{method}, {name} at {ends[-1]:,} over {ends[0]:,}",
            [r if math.isfinite(r) else None for r in ratios],
        )
        for method, of in grown.items()
        for name, ratios in of.items()
    ]
    evidence = _evidence(result, found)
    rises = all(ratio > GROWS for ratios in grown["pj_rotary"].values() for ratio in ratios)
    if not below("lc") or not rises:
        because = "the light cone grows" if not below("lc") else "PJ-rotary does not grow"
        return Verdict("P-F1", "not at this scale", because, evidence)
    if below("fj"):
        because = "the light cone bounds keys and logits, and so do damped Fourier jets"
        return Verdict("P-F1", "reproduced in part", because, evidence)
    return Verdict("P-F1", "reproduced", "the light cone alone bounds keys and logits", evidence)


def growth(rows: Sequence[Mapping[str, Any]], method: str, value: str) -> list[float]:
    """The largest ratio of the longest context to the shortest over layers, seed by seed.

    Infinite where a number was not finite.
    """
    size = {
        (row["seed"], row["layer"], row["length"]): row[value]
        for row in select(rows, {"method": method})
    }
    ends = lengths_of(rows)
    ratios: dict[int, float] = {}
    for seed, layer, length in size:
        if length == ends[0]:
            far, near = size.get((seed, layer, ends[-1])), size[seed, layer, length]
            ratio = math.inf if far is None or not near else far / near
            ratios[seed] = max(ratio, ratios.get(seed, 0.0))
    return list(ratios.values())


def _evidence(result: Result, found: Sequence[Finding]) -> Evidence:
    seeds = min(f.summary.n for f in found)
    return Evidence(tuple(found), Scale.of(result), seeds)
