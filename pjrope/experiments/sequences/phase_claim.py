"""Claim J-K4 from the numbers: does the coupled mode beat what it is compared with?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.statistics import paired_difference, summary, verdict
from ..analysis.words import listed
from ..engine.store import Result, select
from .training import SMALLEST_EFFECT

COUPLED = "stabilized"
PUBLISHED = ("rope", "direct_sum")  # what the paper compares with
CONTROLS = ("rope_trunc", "direct_sum_grid")  # what it lacks


def claim_k4(result: Result | Sequence[Mapping[str, Any]]) -> list[str]:
    """Say whether the coupled mode beats each baseline at the longest exam, and what follows.

    The rule, fixed before the run: "beats" is a paired difference in accuracy of at least 0.03
    whose 95 % interval leaves out 0. Beating all four baselines reproduces claim J-K4; beating the
    two published ones (RoPE, direct sum) alone reproduces it with a caveat; anything else does not.

    Args:
        result: rows of ``phase_lm`` or a grid of it.

    Returns:
        Sentences; none where no seed has both the coupled mode and a baseline.
    """
    rows = result.rows if isinstance(result, Result) else result
    longest = max((row["times"] for row in rows), default=0)
    here = select(rows, {"times": longest})
    ours = [row["accuracy"] for row in select(here, {"method": COUPLED})]
    present = {row["method"] for row in here}
    rivals = [m for m in (*PUBLISHED, *CONTROLS) if m in present]
    if not ours or not rivals:
        return []
    length, mean = here[0]["length"], summary(ours)
    head = (
        f"At {length:,} tokens, {longest} times the training length, the coupled mode ({COUPLED}) "
        "answers "
    )
    if len(ours) == 1:
        return [
            f"{head}{mean.mean:.3f} of the questions rightly; from one seed nothing follows.",
            "Claim J-K4: not tested.",
        ]
    gaps = {m: paired_difference(here, "accuracy", method=COUPLED, baseline=m) for m in rivals}
    words = {m: verdict(gap, SMALLEST_EFFECT, "higher") for m, gap in gaps.items()}
    beaten = [m for m in rivals if words[m] == "better"]
    said = {m: f"{m} ({gaps[m].summary.text(sign=True)}: {words[m]})" for m in rivals}
    sentences = [f"{head}{mean.text()} of the questions rightly."]
    if beaten:
        sentences.append(f"It beats {listed(said[m] for m in beaten)}.")
    if others := [said[m] for m in rivals if m not in beaten]:
        sentences.append(f"It does not beat {listed(others)}.")
    return [*sentences, _k4(set(rivals), set(beaten))]


def _k4(rivals: set[str], beaten: set[str]) -> str:
    everything = {*PUBLISHED, *CONTROLS}
    if missing := everything - rivals:
        return f"Claim J-K4: not decided by this grid, it lacks {listed(sorted(missing))}."
    if beaten == everything:
        return "Claim J-K4: reproduced, against the published baselines and against both controls."
    if beaten >= set(PUBLISHED):
        left = listed(m for m in CONTROLS if m not in beaten)
        return (
            "Claim J-K4: reproduced with a caveat: the published baselines are beaten, but not "
            f"{left}, so the coupling is not shown to be the cause."
        )
    return "Claim J-K4: not reproduced at this scale."
