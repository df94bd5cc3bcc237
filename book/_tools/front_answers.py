"""What the first page, README.md and chapter 16 say in few words, all of it from records.

Words about a record are bound to what its rows show: a recommendation whose numbers no longer carry it
is replaced by "not decided by the records", so that no page can say more than its evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

# The claims of the ten lines: those that need no chapter to be understood come first.
HEADLINES = ("P-L4", "P-S1", "P-S4a", "J-K1", "J-K3", "P-L3", "P-M1", "J-K4", "J-K6", "P-U1")
GROUPS = {
    "What survives": ("reproduced", "reproduced in part"),
    "What does not": ("contradicted", "not at this scale"),
    "What is open": ("undecided", "not tested"),
}
OPEN = "not decided by the records"


def short(because: str, most: int = 110) -> str:
    """The first reason of several, without the name of its experiment; "" if it is long."""
    first = re.sub(r"^[\w/]+ \([^)]*\): ", "", because.split("; ")[0])
    return first if len(first) <= most else ""


def ten_lines(rows: Sequence[Any]) -> str:
    """The headline claims, sorted by what became of them; under each heading how many there are."""
    by_id = {row.claim.id: row for row in rows}
    parts = []
    for title, outcomes in GROUPS.items():
        count = sum(row.verdict.outcome in outcomes for row in rows)
        part = sum(row.verdict.outcome == "reproduced in part" for row in rows)
        of_them = f", {part} of them in part" if "reproduced in part" in outcomes else ""
        lines = [
            f"- {_line(by_id[id])}" for id in HEADLINES if by_id[id].verdict.outcome in outcomes
        ]
        head = f"**{title}** ({count} of {len(rows)} claims{of_them})"
        parts.append("\n".join([head, "", *(lines or ["- None of the ten below."])]))
    return "\n\n".join(parts)


def tally(rows: Sequence[Any]) -> str:
    """How many claims are in each group, in one line."""
    found = [
        f"{title.lower()}: {sum(row.verdict.outcome in outcomes for row in rows)}"
        for title, outcomes in GROUPS.items()
    ]
    return f"{len(rows)} claims: {', '.join(found)}"


def _line(row: Any) -> str:
    reason = in_words(short(row.verdict.because))
    statement = row.claim.statement.replace("d^r e^{iωd}", "dʳ e^(iωd)")
    return f"{statement} **{row.verdict.outcome}**" + (f": {reason}." if reason else ".")


def in_words(reason: str) -> str:
    """A reason with the names of methods as figures label them, and signs as print has them."""
    from pjrope.plotting import METHODS

    def label(found: re.Match[str]) -> str:
        return f"“{METHODS[found[0]].label}”" if found[0] in METHODS else found[0]

    named = re.sub(r"\b[a-z]+(?:_[a-z0-9]+)+\b", label, reason)
    return named.replace("” - “", "” minus “").replace(">=", "≥")


GOOD = ("better", "slightly better")


class Records:
    """Committed results, read once; None where nothing is recorded."""

    def __init__(self) -> None:
        from pjrope import record

        self.names = {name for name, preset in record.recorded() if preset == "book"}
        self._read: dict[str, Any] = {}

    def result(self, name: str) -> Any:
        from pjrope import experiments

        if name not in self.names:
            return None
        if name not in self._read:
            self._read[name] = experiments.load(name, "book")
        return self._read[name]

    def mean(self, name: str, value: str, **where: object) -> str:
        """ "1.843 ± 0.027" over seeds, "" where nothing is recorded."""
        from pjrope.experiments.analysis.statistics import summary

        values = [row[value] for row in self._rows(name, value, where)]
        return summary(values).text() if values else ""

    def gap(
        self, name: str, value: str, method: str, baseline: str, kind: str = "loss", **where: object
    ) -> Any:
        """The paired difference of two methods, None where either is not recorded."""
        from pjrope.experiments.analysis.claims import gap

        rows = self._rows(name, value, where)
        seeds = [{r["seed"] for r in rows if r["method"] == m} for m in (method, baseline)]
        if not set.intersection(*seeds):
            return None
        return gap(rows, value, method=method, baseline=baseline, kind=kind)

    def rise(self, name: str, value: str, method: str, near: int, far: int) -> Any:
        """What a method's value gains from one length to another: over seeds; None if not recorded."""
        from pjrope.experiments.analysis.statistics import summary

        at = [
            {r["seed"]: r[value] for r in self._rows(name, value, {"method": method, "length": n})}
            for n in (near, far)
        ]
        shared = sorted(at[0].keys() & at[1].keys())
        return summary(at[1][seed] - at[0][seed] for seed in shared) if shared else None

    def _rows(self, name: str, value: str, where: dict[str, object]) -> list[Any]:
        result = self.result(name)
        rows = result.rows if result else []
        return [r for r in rows if value in r and all(r.get(k, v) == v for k, v in where.items())]


def extrapolates(records: Records) -> str:
    """Whether RoPE reads further than it was trained, as far as its loss says so."""
    base, near, far = "byte_lm/baselines", 256, 8192
    rise = records.rise(base, "loss", "rope", near, far)
    if rise is None or rise.low is None:
        return f"{OPEN.capitalize()}."

    def at(method: str, length: int) -> str:
        return records.mean(base, "loss", method=method, length=length)

    worse = rise.low > 0
    ntk = records.gap(base, "loss", "rope_ntk", "rope", length=2 * near)
    helped = " NTK scaling helps it at twice its length." if ntk and ntk.word in GOOD else ""
    return (
        f"{'No, not by itself' if worse else 'In this test it does'}: trained on {near} bytes, its loss "
        f"{'rises' if worse else 'goes'} from {at('rope', near)} there to {at('rope', far)} nats per byte "
        f"at {far:,}.{helped} At the same two lengths ALiBi has {at('alibi', near)} and "
        f"{at('alibi', far)}."
    )


def difference(finding: Any) -> str:
    """ "-0.021 ± 0.010 (slightly better, 5 seeds)"; one seed has no interval and says so."""
    if finding is None:
        return "not recorded yet"
    told = finding.text().removeprefix(finding.name).strip()
    return told if finding.summary.n == 1 else f"{told[:-1]}, {finding.summary.n} seeds)"
