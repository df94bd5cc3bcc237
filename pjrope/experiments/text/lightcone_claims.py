"""What ``byte_lm/lightcone`` says of jets and light cones in a trained model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.compare import summary
from ..analysis.words import listed
from ..engine.store import Result, select
from .byte_losses import Losses

FLAT = ("affine", "lc_affine", "full")
NEEDED = (*FLAT, "fj", "lc", "alibi", "alibi_lc", "pj_rotary")
GROWS = 2.0
EQUAL = "equal within the smallest effect"


def lightcone_claims(result: Result | Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what the grid decides of P-L5 and P-F1, and whether a light cone helps recency.

    The rules, fixed before the run; losses differ if they do by at least 0.01 nats per byte with
    a 95 % interval that leaves out 0.

    - P-L5 (affine, light cone with affine, and the full union are flat in length): *reproduced* if
      the change of all three from the shortest to the longest context is equal within 0.01; *with
      a caveat* if none is worse, but one is better or not resolved; else *not reproduced*, as where
      a loss is not finite.
    - P-F1 in a trained model (a light cone bounds norms and logits): *reproduced* if over all
      layers and seeds "lc" keeps both the norm of its keys, positions worked in, and its largest
      logit at the longest context below twice what they are at L, while "pj_rotary" passes twice
      in both; *with a caveat* if, besides, "fj" stays below twice as well, so that the light cone
      is not needed for it; else *not reproduced*.

    Args:
        result: rows of ``byte_lm/lightcone``.

    Returns:
        Sentences; a single one that claims nothing where the methods share fewer than two seeds
        or lengths, none where a method is missing.
    """
    rows = result.rows if isinstance(result, Result) else result
    if not set(NEEDED) <= {row["method"] for row in rows}:
        return []
    loss, attention = (select(rows, {"kind": kind}) for kind in ("loss", "attention"))
    losses = Losses(loss)
    if min(_shared(loss), _shared(attention)) < 2 or len(losses.lengths) < 2:
        return ["Claims P-L5, P-F1: not tested; they take two seeds and two lengths."]
    return [
        _flat(losses),
        _others(losses),
        _bounded(attention, losses.lengths),
        *_helps(losses),
        _within(loss, losses.lengths[-1]),
    ]


def _shared(rows: Sequence[Mapping[str, Any]]) -> int:
    """How many seeds all methods have."""
    seeds = [{row["seed"] for row in select(rows, {"method": method})} for method in NEEDED]
    return len(set.intersection(*seeds))


def _flat(losses: Losses) -> str:
    found = {method: losses.growth(method) for method in FLAT}
    words = {word for word, _ in found.values()}
    verdict = "not reproduced"
    if words == {EQUAL}:
        verdict = "reproduced"
    elif words <= {EQUAL, "better", "no difference resolved"}:
        verdict = "reproduced with a caveat"
    told = listed(f"{by} ({method})" for method, (_, by) in found.items())
    return f"P-L5, {verdict}: from {_span(losses)} the loss changes by {told} nats per byte."


def _others(losses: Losses) -> str:
    found = {m: losses.growth(m) for m in losses.methods if m not in FLAT}
    told = [f"{method} changes by {by} ({word})" for method, (word, by) in found.items()]
    return f"From {_span(losses)} {listed(told)}."


def _span(losses: Losses) -> str:
    return f"{losses.lengths[0]:,} to {losses.lengths[-1]:,} bytes"


def _growth(
    rows: Sequence[Mapping[str, Any]], method: str, value: str, ends: Sequence[int]
) -> list[float]:
    """The largest ratio of the longest context to the shortest over layers, seed by seed.

    Infinite where a number was not finite.
    """
    size = {
        (row["seed"], row["layer"], row["length"]): row[value]
        for row in select(rows, {"method": method})
    }
    ratios: dict[int, float] = {}
    for seed, layer, length in size:
        if length == ends[0]:
            far, near = size.get((seed, layer, ends[-1])), size[seed, layer, length]
            ratio = math.inf if far is None or not near else far / near
            ratios[seed] = max(ratio, ratios.get(seed, 0.0))
    return list(ratios.values())


def _bounded(rows: Sequence[Mapping[str, Any]], lengths: Sequence[int]) -> str:
    values = {"norm of keys": "placed_key_norm", "largest logit": "logit_max"}
    grown = {
        method: {name: _growth(rows, method, value, lengths) for name, value in values.items()}
        for method in ("lc", "fj", "pj_rotary")
    }

    def below(method: str) -> bool:
        return all(ratio < GROWS for ratios in grown[method].values() for ratio in ratios)

    grows = all(ratio > GROWS for ratios in grown["pj_rotary"].values() for ratio in ratios)
    word = "not reproduced"
    if below("lc") and grows:
        word = "reproduced with a caveat" if below("fj") else "reproduced"
    told = [
        f"{method} " + listed(f"{_told(ratios)} ({name})" for name, ratios in of.items())
        for method, of in grown.items()
    ]
    return (
        f"P-F1 in a trained model, {word}: at {lengths[-1]:,} bytes, in units of what they are at "
        f"{lengths[0]:,}, in the layer where they grow most: {'; '.join(told)}."
    )


def _told(ratios: Sequence[float]) -> str:
    return summary(r if math.isfinite(r) else None for r in ratios).text()


def _helps(losses: Losses) -> list[str]:
    pairs = (("lc_affine", "affine"), ("alibi_lc", "alibi"), ("full", "lc_affine"))
    said = []
    for method, other in pairs:
        parts = []
        for length in (losses.lengths[0], losses.lengths[-1]):
            word, by = losses.against(method, other, length)
            parts.append(f"{by} at {length:,} ({word})")
        said.append(f"{method} against {other}: {listed(parts)}.")
    return said


def _within(rows: Sequence[Mapping[str, Any]], length: int) -> str:
    """Mean loss by position inside the longest context: the last bucket up to L, then two beyond."""
    far = select(rows, {"length": length})
    ends = [bucket["to"] for bucket in far[0]["buckets"]]
    shown = sorted({1, len(ends) // 2, len(ends) - 1})

    def at(method: str, n: int) -> str:
        mean = summary(row["buckets"][n]["loss"] for row in select(far, {"method": method})).mean
        return "not finite" if mean is None else f"{mean:.3f}"

    places = [f"{ends[n - 1]:,} to {ends[n]:,}" for n in shown]
    told = [f"{method} {', '.join(at(method, n) for n in shown)}" for method in NEEDED]
    return (
        f"Loss by position inside {length:,} bytes, at {listed(places)}, mean of the seeds: "
        f"{'; '.join(told)}."
    )
