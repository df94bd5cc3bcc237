"""Claim P-F4 from the numbers: does the light cone tell far lags apart less well?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analysis.compare import paired_difference, summary, verdict
from ..analysis.words import listed
from ..engine.store import Result, select
from .lag_codes import PRECISIONS, PROTOCOLS

__all__ = ["FAR", "SMALLEST_EFFECT", "resolution_claim", "shared_seeds"]

SMALLEST_EFFECT = 0.03
RIVALS = ("raw", "scaled")
FAR = "x16_32"
AT_CHANCE = "both at chance: nothing follows"


def shared_seeds(
    rows: Sequence[Mapping[str, Any]], needed: Iterable[Mapping[str, Any]]
) -> set[int] | None:
    """The seeds that every needed place has; None where a place has no row at all."""
    found = [{row["seed"] for row in select(rows, where)} for where in needed]
    return set.intersection(*found) if all(found) else None


def resolution_claim(
    result: Result | Sequence[Mapping[str, Any]],
    value: str,
    where: Mapping[str, Any] | None = None,
    chance: float | None = None,
) -> list[str]:
    """Say where the light cone resolves less than raw and scaled, and whether its phase is why.

    The rule, written before the fair runs of this file, when the published figures and trials of the
    codes were known: at a precision of a protocol "lower" is a
    paired difference of at least 0.03 whose 95 % interval leaves out 0, on lags from 16 L to 32 L.
    P-F4 is *reproduced* if lc is lower than raw and than scaled in fp32 by both protocols; *with a
    caveat* if, short of that, it is lower than both at some precision of some protocol; *not
    reproduced* otherwise. The phase is called the cause if, by the fair protocol, the light-cone
    phase alone is lower than the linear phase alone.

    Added after the runs, as two networks that guess are equal in that alone: from a pair of means
    that both lie within 0.03 of chance nothing follows, neither "lower" nor "not lower". Where such
    a pair, or numbers that are not finite, could have made lc lower somewhere, P-F4 is *not tested*
    in place of *not reproduced*.

    Args:
        result: rows with method, protocol, precision, bucket and seed.
        value: the accuracy compared.
        where: further fields that pick one row a seed.
        chance: what guessing reaches; None where that is next to nothing.

    Returns:
        Sentences; none where a row that the rule needs is missing.
    """
    rows = result.rows if isinstance(result, Result) else result
    rows = [row for row in select(rows, {**(where or {}), "bucket": FAR}) if value in row]
    needed = [(p, m) for p in PROTOCOLS for m in ("lc", *RIVALS)]
    needed += [("fair", "phase_linear"), ("fair", "phase_lightcone")]
    seeds = shared_seeds(
        rows,
        [{"protocol": p, "method": m, "precision": c} for p, m in needed for c in PRECISIONS],
    )
    if seeds is None:
        return []
    if len(seeds) < 2:
        return ["P-F4, not tested: from one seed nothing follows."]

    def gap(ours: str, theirs: str, protocol: str, precision: str) -> tuple[str, str]:
        here = select(rows, {"protocol": protocol, "precision": precision})
        found = paired_difference(here, value, method=ours, baseline=theirs)
        word = verdict(found, SMALLEST_EFFECT, "higher")
        if chance is not None and all(_near(here, m, value, chance) for m in (ours, theirs)):
            word = AT_CHANCE
        return word, found.summary.text(sign=True)

    sentences, words = [], {}
    for protocol in PROTOCOLS:
        for precision in PRECISIONS:
            found = {rival: gap("lc", rival, protocol, precision) for rival in RIVALS}
            words[protocol, precision] = [word for word, _ in found.values()]
            ours = select(rows, {"protocol": protocol, "precision": precision, "method": "lc"})
            against = listed(f"{rival} ({said}: {word})" for rival, (word, said) in found.items())
            sentences.append(
                f"{protocol}, {precision}: lc has {summary(r[value] for r in ours).text()}, "
                f"compared with {against}."
            )
    return [_head(words), *sentences, *(_phase(gap, precision) for precision in PRECISIONS)]


def _near(rows: Sequence[Mapping[str, Any]], method: str, value: str, chance: float) -> bool:
    mean = summary(row[value] for row in select(rows, {"method": method})).mean
    return mean is not None and abs(mean - chance) <= SMALLEST_EFFECT


def _silent(word: str) -> bool:
    """Whether a comparison says neither that lc is lower nor that it is not."""
    return word == AT_CHANCE or word.startswith("no verdict")


def _head(words: Mapping[tuple[str, str], Sequence[str]]) -> str:
    def places(chosen: Iterable[tuple[str, str]]) -> str:
        return listed(f"{protocol} at {precision}" for protocol, precision in chosen)

    holds = [place for place, both in words.items() if all(word == "worse" for word in both)]
    # One rival that lc is not lower than settles a place, whatever the other is.
    unknown = [
        place
        for place, both in words.items()
        if any(map(_silent, both)) and all(_silent(word) or word == "worse" for word in both)
    ]
    fp32 = [(protocol, "fp32") for protocol in PROTOCOLS]
    if set(fp32) <= set(holds):
        return "P-F4, reproduced: lc is lower than raw and than scaled in fp32 by both protocols."
    if holds:
        rest = f"; nothing follows from {places(unknown)}" if unknown else ""
        return (
            "P-F4, reproduced with a caveat: lc is lower than raw and than scaled by "
            f"{places(holds)} only{rest}."
        )
    if unknown:
        return f"P-F4, not tested: nothing follows from {places(unknown)}."
    return "P-F4, not reproduced: nowhere is lc lower than both raw and scaled."


def _phase(gap: Any, precision: str) -> str:
    word, said = gap("phase_lightcone", "phase_linear", "fair", precision)
    head = f"Phase alone, fair, {precision}: "
    if _silent(word):
        return f"{head}light-cone and linear phase ({said}): {word}."
    cause = "resolves less" if word == "worse" else "does not resolve less"
    return f"{head}the light-cone phase {cause} than the linear one ({said}: {word})."
