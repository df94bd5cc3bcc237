"""What ``near_lags`` says, by rules written before its first cell ran."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.claims import Finding, holm
from ..engine.result import Result, select
from .claims import lengths_of, loss_change, loss_gap

NEAR = ("alibi_t5", "alibi_table8")
NEEDED = ("alibi", "rope_alibi", "alibi_lc", *NEAR)
LINES = ("unigram", "bigram")
FLAT = 0.03  # nats per byte: a rise that no reader of the loss curve would call one


def near_lag_claims(result: Result | Sequence[Mapping[str, Any]]) -> list[str]:
    """Say of each near-lag bias what it does beside ALiBi.

    The rules, written before the run. A difference counts as better or worse if its whole interval,
    widened by Holm's rule within the line, lies beyond 0, its mean is at least 0.01 nats per byte, and
    it is at least twice its standard error over the scored segments. For T5's buckets and for the table:

    - *helps*: better than ALiBi at L and at the longest context;
    - *is not matched by the light cone*: better than ALiBi with a light cone at both;
    - *reaches RoPE near*: better than RoPE with ALiBi at L, or equal within 0.01;
    - *stays flat*: the change from L to the longest context lies below 0.03 with its whole interval.

    A near-lag bias is recommended for language if all four hold for one of the two; they are confirmed
    or not by ``near_lags/confirm``, on fresh seeds and two corpora.

    Args:
        result: rows of ``near_lags``.

    Returns:
        A sentence a line and method, and what follows; none where methods are missing, a single one
        that claims nothing where they share fewer than two seeds.
    """
    rows = select(result.rows if isinstance(result, Result) else result, {"kind": "loss"})
    if not set(NEEDED) <= {row["method"] for row in rows}:
        return []
    seeds = set.intersection(*({r["seed"] for r in select(rows, {"method": m})} for m in NEEDED))
    if len(seeds) < 2:
        return ["The near-lag study claims nothing yet: it takes two seeds of every method."]
    rows = select(rows, {"seed": sorted(seeds)})
    lengths = sorted({row["length"] for row in rows})
    ends = (lengths[0], lengths[-1])
    said, holds = [], []
    for method in NEAR:
        found = [
            _line(rows, method, "alibi", ends),
            _line(rows, method, "alibi_lc", ends),
            _reach(rows, method, ends[0]),
            _flat(rows, method, ends),
        ]
        said += [text for text, _ in found]
        holds.append(all(held for _, held in found))
    named = " and ".join(m for m, held in zip(NEAR, holds, strict=True) if held)
    verdict = (
        f"all four lines hold for {named}" if named else "no near-lag bias holds all four lines"
    )
    return [*said, f"Near-lag biases on {len(seeds)} seeds: {verdict}."]


def _line(
    rows: Sequence[Mapping[str, Any]], method: str, other: str, ends: Sequence[int]
) -> tuple[str, bool]:
    found = holm(loss_gap(rows, method, other, n) for n in ends)
    held = all(
        f.word == "better" and clear(rows, method, other, n)
        for f, n in zip(found, ends, strict=True)
    )
    told = ", ".join(_told(rows, f, method, other, n) for f, n in zip(found, ends, strict=True))
    return f"{method} against {other}, {'better' if held else 'not better'}: {told}.", held


def _reach(rows: Sequence[Mapping[str, Any]], method: str, length: int) -> tuple[str, bool]:
    found = loss_gap(rows, method, "rope_alibi", length)
    held = found.word in ("better", "equal", "better, but by less than the smallest effect")
    word = "reaches it" if held else "does not reach it" if found.word == "worse" else "undecided"
    told = _told(rows, found, method, "rope_alibi", length)
    return f"{method} against rope_alibi, {word}: {told}.", held


def _flat(rows: Sequence[Mapping[str, Any]], method: str, ends: Sequence[int]) -> tuple[str, bool]:
    change = loss_change(rows, method, ends)
    held = change.summary.high is not None and change.summary.high < FLAT
    return f"{method}, {'flat' if held else 'not flat'}: {change.text()}.", held


def rivals_words(result: Result) -> list[str]:
    """Say how each rival stands to the first of them at the ends; fairness is in the shared seeds."""
    rows = select(result.rows, {"kind": "loss"})
    if len({row["seed"] for row in rows}) < 2 or not select(rows, {"method": "rope"}):
        return []
    names = dict.fromkeys(r["method"] for r in rows if r["method"] not in ("rope", *LINES))
    ends = (lengths_of(rows)[0], lengths_of(rows)[-1])
    return [f"{' and '.join(loss_gap(rows, m, 'rope', n).text() for n in ends)}." for m in names]


def confirmed(result: Result) -> list[str]:
    """Say for each corpus whether the four lines of the study hold on the fresh seeds.

    The rule, written before the run: as :func:`near_lag_claims`, corpus by corpus; the study is confirmed
    for a near-lag bias whose four lines hold on both corpora.
    """
    said, named = [], []
    for corpus in dict.fromkeys(row["corpus"] for row in result.rows):
        found = near_lag_claims(select(result.rows, {"corpus": corpus}))
        said += [f"{corpus}: {text}" for text in found]
        named.append({m for m in NEAR if found and m in found[-1]})
    both = set.intersection(*named) if named else set()
    if len(named) < 2 or not said:
        return said
    return [*said, f"Confirmed on every corpus: {' and '.join(sorted(both)) or 'nothing'}."]


def _told(
    rows: Sequence[Mapping[str, Any]], found: Finding, method: str, other: str, length: int
) -> str:
    error = segment_error(rows, method, other, length)
    return f"{found.text()}, {error:.3f} over segments"


def segment_error(rows: Sequence[Mapping[str, Any]], method: str, other: str, length: int) -> float:
    """Standard error over the scored segments of a paired difference, seeds averaged first."""
    ours, theirs = (
        {r["seed"]: r["segments"] for r in select(rows, {"method": m, "length": length})}
        for m in (method, other)
    )
    seeds = sorted(ours.keys() & theirs.keys())
    columns = zip(*(_minus(ours[s], theirs[s]) for s in seeds), strict=True)
    gaps = [math.fsum(column) / len(seeds) for column in columns]
    mean = math.fsum(gaps) / len(gaps)
    spread = math.fsum((g - mean) ** 2 for g in gaps) / max(1, len(gaps) - 1)
    return math.sqrt(spread / len(gaps))


def _minus(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [x - y for x, y in zip(a, b, strict=True)]


def clear(rows: Sequence[Mapping[str, Any]], method: str, other: str, length: int) -> bool:
    """True if the difference is at least twice its standard error over the segments."""
    mean = loss_gap(rows, method, other, length).summary.mean
    return mean is not None and abs(mean) >= 2 * segment_error(rows, method, other, length)
