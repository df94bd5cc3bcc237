"""What the first page, README.md and chapter 16 say in few words, all of it from records.

Words about a record are bound to what its rows show: a recommendation whose numbers no longer carry it
is replaced by "not decided by the records", so that no page can say more than its evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    reason = short(row.verdict.because)
    return f"{row.claim.statement} **{row.verdict.outcome}**" + (f": {reason}." if reason else ".")


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


@dataclass(frozen=True)
class Advice:
    """A row of the table of decisions.

    Args:
        situation: what the reader has.
        use: what to take, if `holds`.
        evidence: numbers from records.
        chapter: slug of the chapter that tells it.
        holds: whether the numbers carry the advice.
    """

    situation: str
    use: str
    evidence: str
    chapter: str
    holds: bool


GOOD = ("better", "slightly better")
NO_WORSE = (*GOOD, "equal")


def _advice_text(r: Records) -> list[Advice]:
    base, far = "byte_lm/baselines", "byte_lm/extrapolation"
    near = r.gap(base, "loss", "rope_alibi", "rope", length=256)
    long = r.gap(base, "loss", "alibi", "rope", length=8192)
    spread = r.gap(far, "loss", "affine_spread", "alibi", length=256)
    plain = r.gap(far, "loss", "affine", "alibi", length=256)
    dynamic = r.gap(base, "loss", "rope_ntk", "rope", length=512)
    fixed = [
        r.gap("byte_lm/stretched", "loss", m, "rope", length=512) for m in ("rope_ntk", "rope_yarn")
    ]
    tuned = [
        r.gap("your_model/extension", "loss", "yarn", b, length=1024) for b in ("continued", "ntk")
    ]
    table = r.gap("near_lags", "loss", "alibi_t5", "alibi", length=128)
    return [
        Advice(
            "Text, no longer than in training", "RoPE, or RoPE + ALiBi",
            f"loss of RoPE + ALiBi less RoPE's at L = 256: {difference(near)}", "rope",
            near is not None and near.word in NO_WORSE,
        ),
        Advice(
            "Text, longer than in training, trained from scratch", "ALiBi, slopes as published",
            f"loss at 32 L: ALiBi {r.mean(base, 'loss', method='alibi', length=8192)}, "
            f"RoPE {r.mean(base, 'loss', method='rope', length=8192)}", "alibi",
            long is not None and long.word in GOOD,
        ),
        Advice(
            "The same, and the last few tokens matter", "ALiBi with T5's buckets beside it",
            f"loss less ALiBi's at L: {difference(table)}", "alibi",
            table is not None and table.word in GOOD,
        ),
        Advice(
            "A trained RoPE model, longer texts, a short tuning",
            "YaRN" if tuned[1] and tuned[1].word in GOOD else "YaRN or NTK scaling, to the length tuned",
            f"loss at 4 L after 60 steps of tuning: YaRN less no stretch {difference(tuned[0])}, "
            f"YaRN less NTK {difference(tuned[1])}", "stretch",
            tuned[0] is not None and tuned[0].word in GOOD,
        ),
        Advice(
            "The same without any tuning", "NTK scaling, to about 2 L; try YaRN",
            f"loss less RoPE's: dynamic NTK at 2 L {difference(dynamic)}; other models at 4 L: NTK "
            f"{difference(fixed[0])}, YaRN {difference(fixed[1])}", "stretch",
            dynamic is not None and dynamic.word in GOOD,
        ),
        Advice(
            "Slopes that learn", "start them at ALiBi's slopes",
            f"loss less ALiBi's at L: so started {difference(spread)}; all alike {difference(plain)}",
            "alibi",
            spread is not None and spread.word in NO_WORSE and plain.word == "worse",
        ),
    ]  # fmt: skip


def _advice_other(r: Records, verdicts: dict[str, str]) -> list[Advice]:
    shear = r.gap("phase_lm", "accuracy", "stabilized", "rope_trunc", kind="accuracy", times=8)
    return [
        Advice(
            "A task that hangs on distance times phase", "RoPE on the same cut ladder",
            f"accuracy at 8 L of a Jordan block less that of cut RoPE: {difference(shear)}",
            "phase-language",
            shear is not None and shear.word not in GOOD,
        ),
        Advice(
            "Numbers that must stay bounded at any length", "light-cone coordinates",
            f"claim P-F1 {verdicts['P-F1']}; price: claim P-F4 {verdicts['P-F4']}", "lightcone",
            verdicts["P-F1"].startswith("reproduced"),
        ),
        Advice(
            "Music", "what the ledger says of P-M1",
            f"claim P-M1 {verdicts['P-M1']}", "ledger", verdicts["P-M1"].startswith("reproduced"),
        ),
    ]  # fmt: skip


def decisions(rows: Sequence[Any], records: Records) -> list[Advice]:
    """Which position method to use, each row with its evidence."""
    verdicts = {row.claim.id: row.verdict.outcome for row in rows}
    return [*_advice_text(records), *_advice_other(records, verdicts)]


def decision_table(
    advice: Sequence[Advice],
    link: Callable[[str], str],
    table: Callable[[Any, Any], str],
    evidence: bool = True,
) -> str:
    """The rows as Markdown.

    Args:
        advice: of :func:`decisions`.
        link: slug of a chapter to Markdown that links to it, "" for one that is not there yet.
        table: writes a Markdown table from a head and rows.
        evidence: whether the numbers stand beside the advice.
    """
    head = ["you have", "take", *(["evidence"] if evidence else []), "chapter"]
    body = [
        [
            a.situation,
            a.use if a.holds else OPEN,
            *([a.evidence] if evidence else []),
            link(a.chapter),
        ]
        for a in advice
    ]
    return table(head, body)
