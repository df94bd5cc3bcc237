"""Sentences on the grids on music, by rules written before their first cell ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.claims import holm, measured
from ..analysis.statistics import summary
from ..analysis.tables import markdown
from ..engine.result import Result, select
from ..text.claims import lengths_of, loss_change, loss_gap

BASE, LINE = "alibi", "bigram"
TRAINED = (
    *("alibi_table8", "lc_affine", "full", "rope_affine", "rope_ntk_affine", "alibi_time"),
    "full_uniform",
)
FLAT = 0.03  # nats per token: a rise that no reader of the loss curve would call one
SEEN = 0.01  # nats per token, between bars that return and bars that do not
Rows = Sequence[Mapping[str, Any]]


def music_words(result: Result) -> list[str]:
    """Say of each method how it stands to ALiBi at the ends, and whether it stays flat.

    The rules: a difference counts as in the claims, corrected over the two ends of a method; *flat* is a
    change from L to the longest context that lies below 0.03 nats per token with its whole interval.
    The union from equal gates stands beside that from the paper's: what differs between the two is the
    start and the rate of the gates, nothing else.
    """
    said = []
    whole = select(result.rows, {"kind": "loss", "split": "test"})
    for corpus in dict.fromkeys(row["corpus"] for row in whole):
        rows = select(whole, {"corpus": corpus})
        for method in TRAINED:
            shared = _seeds(rows, BASE) & _seeds(rows, method)
            if len(shared) > 1:
                said.append(f"{corpus}, {_stands(select(rows, {'seed': sorted(shared)}), method)}")
    return said


def _stands(rows: Rows, method: str) -> str:
    ends = (lengths_of(rows)[0], lengths_of(rows)[-1])
    found = holm(loss_gap(rows, method, BASE, n) for n in ends)
    change = loss_change(rows, method, ends)
    flat = change.summary.high is not None and change.summary.high < FLAT
    word = "flat" if flat else "not flat"
    return f"{' and '.join(f.text() for f in found)}; {word}: {change.text()}."


def _seeds(rows: Rows, method: str) -> set[int]:
    return {row["seed"] for row in select(rows, {"method": method})}


def motif_words(result: Result) -> list[str]:
    """Say which returns each method sees.

    The rule: a method sees a return of k bars at a length if its loss in the bars that return from there
    is below that in new bars by more than 0.01 nats per token, with the whole interval over seeds, after
    the same difference of the bigram line is taken away. That line looks one token back, so its
    difference says how hard the scored bars are in themselves.
    """
    rows = select(result.rows, {"kind": "returns"})
    said = []
    line = select(rows, {"method": LINE})
    for method in dict.fromkeys(row["method"] for row in rows if row["method"] != LINE):
        own = select(rows, {"method": method})
        if len(_seeds(own, method)) < 2:
            continue
        ends = (lengths_of(own)[0], lengths_of(own)[-1])
        said += [
            f"{method} at {n:,}: {_seen(*(select(r, {'length': n}) for r in (own, line)))}."
            for n in ends
        ]
    return said


def _seen(rows: Rows, line: Rows) -> str:
    parts = []
    for lag in sorted({row["lag"] for row in rows} - {0}):
        gain = measured(f"of {lag} bars", gains(rows, lag, line))
        low = gain.summary.low
        parts.append(f"{'sees' if low is not None and low > SEEN else 'misses'} {gain.text()}")
    return ", ".join(parts)


def gains(rows: Rows, lag: int, line: Rows = ()) -> list[float | None]:
    """By how much loss in bars that return from a distance is below that in new ones, seed by seed.

    Args:
        rows: of kind "returns", one method, one length.
        lag: in bars.
        line: the same of the bigram line, whose difference is taken away; none leaves it in.
    """
    own = _differences(rows, lag)
    theirs = _differences(line, lag)
    return [
        None
        if gain is None or (line and theirs.get(seed) is None)
        else gain - (theirs.get(seed) or 0)
        for seed, gain in own.items()
    ]


def _differences(rows: Rows, lag: int) -> dict[int, float | None]:
    by = {(row["seed"], row["lag"]): row["loss"] for row in rows}
    found: dict[int, float | None] = {}
    for seed in sorted({row["seed"] for row in rows}):
        new, old = by.get((seed, 0)), by.get((seed, lag))
        found[seed] = None if new is None or old is None else new - old
    return found


def gain_table(result: Result, length: int) -> str:
    """The mean gains of each method by the distance of the return, as a Markdown table.

    Args:
        result: of ``music_motif``.
        length: context, tokens.

    Returns:
        a row for each method; "" where the record has no method or no bigram line.
    """
    rows = select(result.rows, {"kind": "returns", "length": length})
    line = select(rows, {"method": LINE})
    lags = sorted({row["lag"] for row in rows} - {0})
    methods = [m for m in dict.fromkeys(row["method"] for row in rows) if m != LINE]
    if not methods or not line:
        return ""
    cells = [
        [f"`{m}`", *(_told(gains(select(rows, {"method": m}), lag, line)) for lag in lags)]
        for m in methods
    ]
    return markdown(["gain, nats per token", *(f"{lag} bars" for lag in lags)], cells, "lr")


def _told(values: Sequence[float | None]) -> str:
    mean = summary(values).mean
    return "–" if mean is None else f"{mean:z.3f}"
