"""Which position method to use: a table of decisions, each row with its evidence from records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from front_answers import GOOD, OPEN, Records, difference


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
            f"loss of RoPE + ALiBi minus RoPE's at L = 256: {difference(near)}", "rope",
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
            f"loss minus ALiBi's at L: {difference(table)}", "language",
            table is not None and table.word in GOOD,
        ),
        Advice(
            "A trained RoPE model, longer texts, a short tuning",
            "YaRN" if tuned[1] and tuned[1].word in GOOD else "YaRN or NTK scaling, to the length tuned",
            f"loss at 4 L after 60 steps of tuning: YaRN minus no stretch {difference(tuned[0])}, "
            f"YaRN minus NTK {difference(tuned[1])}", "stretch",
            tuned[0] is not None and tuned[0].word in GOOD,
        ),
        Advice(
            "The same without any tuning", "NTK scaling, to about 2 L; try YaRN",
            f"loss minus RoPE's: dynamic NTK at 2 L {difference(dynamic)}; other models at 4 L: NTK "
            f"{difference(fixed[0])}, YaRN {difference(fixed[1])}", "stretch",
            dynamic is not None and dynamic.word in GOOD,
        ),
        Advice(
            "Slopes that learn", "start them at ALiBi's slopes",
            f"loss minus ALiBi's at L: so started {difference(spread)}; all alike {difference(plain)}",
            "alibi",
            spread is not None and spread.word in NO_WORSE and plain.word == "worse",
        ),
    ]  # fmt: skip


def _advice_other(r: Records, verdicts: dict[str, str]) -> list[Advice]:
    shear = r.gap("phase_lm", "accuracy", "stabilized", "rope_trunc", kind="accuracy", times=8)
    return [
        Advice(
            "A task that hangs on distance times phase", "RoPE on the same short ladder of frequencies",
            f"accuracy at 8 L of a Jordan block minus that of RoPE on its ladder: {difference(shear)}",
            "phase-language",
            shear is not None and shear.word not in GOOD,
        ),
        Advice(
            "Numbers that must stay bounded at any length", "light-cone coordinates",
            f"claim P-F1, bounded norms and logits: {verdicts['P-F1']}; the price, claim P-F4, far lags "
            f"harder to tell apart: {verdicts['P-F4']}", "lightcone",
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
