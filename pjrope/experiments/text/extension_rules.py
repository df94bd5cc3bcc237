"""What ``your_model/extension`` says of each way to extend, by rules written before its first cell ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.claims import Finding, gap, holm, measured
from ..engine.result import Result, select
from .claims import lengths_of, loss_change, loss_gap

NEEDED = ("trained", "continued")
KEPT = 0.03  # nats per byte: what short texts may lose
FLAT = 0.03  # nats per byte: a rise that no reader of the curve would call one
RECALLED = 0.1  # nats per byte: what an earlier copy must be worth


def extension_words(result: Result) -> list[str]:
    """Say of each way to extend what it buys, and which one to take.

    The rules, written before the run. Losses are at the end of the context, paired over seeds.

    - *extends*: at the longest context better than the same tuning without an extension ("continued"),
      by Holm's rule over all ways, and by at least 0.01 nats per byte;
    - *holds*: the change from the tuning length to the longest context lies below 0.03 with its whole
      interval;
    - *keeps*: at L the loss minus that of the model before tuning lies below 0.03 with its whole interval;
    - *recalls*: to the farthest distance d such that an earlier copy of a phrase, at d and at every nearer
      distance asked, is worth at least 0.1 nats per byte in the mean of the seeds, with an interval
      above 0.

    A way that extends, holds and keeps is worth its price. Recommended is, of those, the one with the least
    mean loss at the longest context; it is named beside any other whose difference from it is not resolved.

    Args:
        result: rows of the experiment.

    Returns:
        a sentence a way and what follows; none where the two references are missing, one that claims
        nothing with fewer than two seeds.
    """
    losses = select(result.rows, {"kind": "loss"})
    names = dict.fromkeys(row["method"] for row in losses)
    if not set(NEEDED) <= names.keys() or len(names) == len(NEEDED):
        return []
    if len({row["seed"] for row in losses}) < 2:
        return ["The study of extensions claims nothing yet: it takes two seeds."]
    ways = [name for name in names if name not in NEEDED]
    farthest = lengths_of(losses)[-1]
    gains = holm(loss_gap(losses, way, "continued", farthest) for way in ways)
    tuned = _tuned_length(result)
    said, worth = [], []
    for way, gained in zip(ways, gains, strict=True):
        text, buys = _way(result, losses, way, gained, (tuned, farthest))
        said.append(text)
        worth += [way] if buys else []
    return [*said, _recommended(losses, worth, farthest)]


def _tuned_length(result: Result) -> int:
    return int(result.card["settings"]["tuned_length"])


def _way(
    result: Result,
    losses: Sequence[Mapping[str, Any]],
    way: str,
    gained: Finding,
    ends: tuple[int, int],
) -> tuple[str, bool]:
    """A sentence on one way, and whether it extends, holds and keeps."""
    change = loss_change(select(losses, {"length": list(ends)}), way, ends)
    kept = loss_gap(losses, way, "trained", lengths_of(losses)[0])
    marks = {
        "extends": gained.word == "better",
        "holds": _below(change, FLAT),
        "keeps": _below(kept, KEPT),
    }
    found = ", ".join(name if held else f"not {name}" for name, held in marks.items())
    rows = select(result.rows, {"kind": "recall", "method": way})
    recalled = f" Recalls {_reach(rows)}." if rows else ""
    told = "; ".join(f.text() for f in (gained, change, kept))
    return f"{way}: {found} ({told}).{recalled}", all(marks.values())


def _below(found: Finding, limit: float) -> bool:
    return found.summary.high is not None and found.summary.high < limit


def _reach(rows: Sequence[Mapping[str, Any]]) -> str:
    """How far back an earlier copy of a phrase still helps."""
    reach, last = 0, None
    for distance in sorted({row["distance"] for row in rows}):
        gains = [row["gain"] for row in select(rows, {"distance": distance})]
        last = measured(f"gain at {distance:,}", gains)
        s = last.summary
        if s.mean is None or s.low is None or s.mean < RECALLED or s.low <= 0:
            break
        reach = distance
    where = f"to {reach:,} bytes" if reach else "at no distance asked"
    return where if last is None else f"{where} ({last.text()})"


def _recommended(losses: Sequence[Mapping[str, Any]], worth: Sequence[str], farthest: int) -> str:
    if not worth:
        return "No way extends, holds and keeps at once: nothing is recommended."

    def mean(way: str) -> float:
        found = [r["loss"] for r in select(losses, {"method": way, "length": farthest})]
        return sum(found) / len(found)

    best = min(worth, key=mean)
    others = [way for way in worth if way != best]
    open_ = [
        way
        for way in others
        if gap(
            losses,
            "loss",
            method=way,
            baseline=best,
            where={"length": farthest},
            kind="loss",
        ).word
        in ("unresolved", "equal")
    ]
    beside = f"; not told apart from it: {', '.join(open_)}" if open_ else ""
    return f"Recommended for contexts of {farthest:,}: {best}{beside}."
