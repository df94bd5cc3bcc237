"""What ``byte_lm/lightcone`` says beside its verdicts: who changes with length, and who helps whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.claims import measured
from ..analysis.words import listed
from ..engine.result import Result, select
from .claims import FLAT, lengths_of, loss_change, loss_gap

NEEDED = (*FLAT, "fj", "lc", "alibi", "alibi_lc", "pj_rotary")
PAIRS = (("lc_affine", "affine"), ("alibi_lc", "alibi"), ("full", "lc_affine"))


def lightcone_sentences(result: Result | Sequence[Mapping[str, Any]]) -> list[str]:
    """Say how the other methods change with length, what a light cone adds, and where loss sits.

    Args:
        result: rows of ``byte_lm/lightcone``.

    Returns:
        Sentences; none where a method is missing, or all of them share fewer than two seeds.
    """
    rows = select(result.rows if isinstance(result, Result) else result, {"kind": "loss"})
    seeds = [{row["seed"] for row in select(rows, {"method": method})} for method in NEEDED]
    if len(set.intersection(*seeds)) < 2 or len(lengths_of(rows)) < 2:
        return []
    lengths = lengths_of(rows)
    others = dict.fromkeys(row["method"] for row in rows if row["method"] not in FLAT)
    told = [loss_change(rows, method, lengths).text() for method in others]
    ends = (lengths[0], lengths[-1])
    helps = [[loss_gap(rows, *pair, n).text() for n in ends] for pair in PAIRS]
    return [
        f"Change of the loss with length: {'; '.join(told)}.",
        *(f"{' and '.join(said)}." for said in helps),
        _within(rows, lengths[-1]),
    ]


def _within(rows: Sequence[Mapping[str, Any]], length: int) -> str:
    """Mean loss by position inside the longest context: the last bucket up to L, then two beyond."""
    far = select(rows, {"length": length})
    ends = [bucket["to"] for bucket in far[0]["buckets"]]
    shown = sorted({1, len(ends) // 2, len(ends) - 1})

    def at(method: str, n: int) -> str:
        each = (row["buckets"][n]["loss"] for row in select(far, {"method": method}))
        mean = measured(method, each).summary.mean
        return "not finite" if mean is None else f"{mean:.3f}"

    places = [f"{ends[n - 1]:,} to {ends[n]:,}" for n in shown]
    told = [f"{method} {', '.join(at(method, n) for n in shown)}" for method in NEEDED]
    return (
        f"Loss by position inside {length:,} bytes, at {listed(places)}, mean of the seeds: "
        f"{'; '.join(told)}."
    )
