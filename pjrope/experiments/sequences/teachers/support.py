"""Claim P-S2 from the numbers: a narrower support of the teacher, a wider gap to no position?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...analysis.statistics import Summary
from ...engine.store import select
from .compare import (
    CAVEAT,
    NOT,
    REPRODUCED,
    Rows,
    TooFew,
    beats,
    falls,
    gap,
    mean,
    pick,
    said,
)


def growth(rows: Rows, method: str, rival: str, ends: Sequence[float], **where: Any) -> Summary:
    """How much more ``method`` is ahead of ``rival`` at the last sharpness than at the first.

    Args:
        rows: of the support sweep.
        method, rival: the rival is found at the default slope, since it has none.
        ends: two values of lambda.
        where: factors of the method.

    Raises:
        TooFew: rows that are missing.
    """
    advantages = []
    for sharpness in ends:
        here = {"teacher": "recency_weak_jet", "sharpness": sharpness, "times": 1}
        theirs = {row["seed"]: row["accuracy"] for row in pick(rows, method=rival, **here)}
        ours = pick(rows, method=method, **here, **where)
        advantages.append(
            [
                {"seed": row["seed"], "ahead": row["accuracy"] - theirs[row["seed"]]}
                for row in ours
                if row["seed"] in theirs
            ]
        )
    return gap(advantages[1], advantages[0], "ahead")


def claim_s2(rows: Rows) -> list[str]:
    """Does a narrower support of the teacher widen the gap between position and none?

    Teacher recency_weak_jet, at the training length, from the smallest to the largest lambda, for
    every initial slope that was run. Rule: *reproduced* if at every slope the lead of "affine" and
    of "full" over "none" grows by at least 0.03 (interval above 0), its lead over the majority vote
    does too, and at the smallest lambda neither does worse than that vote, by the same measure;
    *with a caveat* if the lead over "none" grows at every slope and one of the controls fails;
    else *not reproduced*.

    Raises:
        TooFew: fewer than two sharpnesses, no row of a method (a guard added after the first record
            was seen), or one seed.
    """
    swept = select(rows, {"teacher": "recency_weak_jet", "times": 1})
    sharpness = sorted({row["sharpness"] for row in swept})
    if len(sharpness) < 2:
        raise TooFew
    ends = (sharpness[0], sharpness[-1])
    methods, rivals = ("affine", "full"), ("none", "majority")
    slopes = sorted({row["slope"] for row in select(swept, {"method": list(methods)})})
    if not slopes:
        raise TooFew
    votes = pick(swept, method="majority", sharpness=ends[0])
    told, grown, clean = [], True, True
    for slope in slopes:
        for m in methods:
            more = {r: growth(swept, m, r, ends, slope=slope) for r in rivals}
            wide = gap(pick(swept, method=m, slope=slope, sharpness=ends[0]), votes)
            grown &= beats(more["none"])
            clean &= beats(more["majority"]) and not falls(wide)
            told.append(
                f"{m} from slope {slope:g}: {said(more['none'])} over none, "
                f"{said(more['majority'])} over the vote, and {said(wide)} against the vote at the "
                "widest"
            )
    word = NOT if not grown else REPRODUCED if clean else CAVEAT
    why = ": where the support is widest, recency loses to the vote, or the vote falls as fast"
    return [
        f"Support from λ = {ends[0]:g} ({votes[0]['support']:.0f} of "
        f"{votes[0]['length'] - 1} lags) to λ = {ends[1]:g}; the majority vote answers "
        f"{mean(votes)} of the questions rightly at the first and "
        f"{mean(pick(swept, method='majority', sharpness=ends[1]))} at the second. "
        f"Growth of the lead: {'; '.join(told)}.",
        f"Claim P-S2: {word}{why if word == CAVEAT else ''}.",
    ]
