"""One row for each claim of both papers: what its records say together, as Markdown or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ... import record
from ..engine import registry
from ..engine.store import load
from .claims import CLAIMS, OUTCOMES, PaperClaim, Verdict, combine
from .tables import markdown

__all__ = ["Row", "as_json", "as_markdown", "as_sections", "brief", "counts", "rows"]

PRESETS = ("paper", "book")  # a smoke record shows that code runs, and judges nothing
HEAD = (
    "claim",
    "the paper's figure",
    "verdict",
    "because",
    "rests on",
    "scale gap",
    "rule",
    "chapter, command",
)


@dataclass(frozen=True)
class Row:
    """A claim, its verdict, and the verdicts that this was made of.

    Args:
        claim: of a paper.
        verdict: what its experiments say together.
        parts: experiment (its preset where that is not "book") → its verdict.
        silent: recorded experiments that name the claim and have no rule for it.
    """

    claim: PaperClaim
    verdict: Verdict
    parts: Mapping[str, Verdict]
    silent: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        names = [name.partition(" ")[0] for name in (*self.parts, *self.silent)]
        return f"pjrope show {' '.join(dict.fromkeys(names))}" if names else ""


def rows(claims: Iterable[str] | None = None) -> list[Row]:
    """Return a row for each claim, in the order of the papers.

    Args:
        claims: ids; default, all.

    Raises:
        ExperimentError: for an unknown id, or a record that fails its check.
    """
    wanted = list(CLAIMS) if claims is None else [_known(id) for id in claims]
    heard: dict[str, dict[str, Verdict]] = {id: {} for id in wanted}
    silent: dict[str, list[str]] = {id: [] for id in wanted}
    for name, preset in record.recorded():
        if preset not in PRESETS or name not in registry.names():
            continue
        experiment = registry.get(name)
        rules = {id: rule for id, rule in experiment.verdicts.items() if id in heard}
        label = name if preset == "book" else f"{name} ({preset})"
        for id in {*experiment.claims} & {*wanted} - {*rules}:
            silent[id].append(label)
        if rules:
            result = load(name, preset)
            for id, rule in rules.items():
                heard[id][label] = rule(result)
    return [_row(CLAIMS[id], heard[id], tuple(silent[id])) for id in wanted]


def _known(id: str) -> str:
    from .claims import claim

    return claim(id).id


def _row(claim: PaperClaim, parts: Mapping[str, Verdict], silent: tuple[str, ...]) -> Row:
    if silent and not parts:
        names = ", ".join(f"`{name}`" for name in silent)
        reason = f"{names}: recorded rows, and no rule that judges them yet"
        return Row(claim, Verdict(claim.id, "not tested", reason), parts, silent)
    return Row(claim, combine(claim, parts), parts, silent)


def counts(found: Sequence[Row]) -> str:
    """Return one line: how many claims have which outcome."""
    by = Counter(row.verdict.outcome for row in found)
    return f"{len(found)} claims: " + ", ".join(f"{by[o]} {o}" for o in OUTCOMES if by[o]) + "."


def as_markdown(found: Sequence[Row]) -> str:
    """Return the whole ledger: counts, then a table with one row for each claim."""
    lines = [
        (
            f"**{row.claim.id}** {row.claim.statement}",
            f"{row.claim.published} — {row.claim.paper}, {row.claim.where}",
            f"**{row.verdict.outcome}**",
            _capital(row.verdict.because),
            row.verdict.evidence.text() or "–",
            _scale(row) or "–",
            f"{row.claim.rule} (Written {row.claim.written} the record.)",
            f"{row.claim.chapter}" + (f"; `{row.command}`" if row.command else ""),
        )
        for row in found
    ]
    return f"{counts(found)}\n\n{markdown(HEAD, lines, pad=False)}"


def brief(found: Sequence[Row]) -> str:
    """Return the ledger in a few words: each claim and its outcome."""
    lines = [(row.claim.id, row.claim.statement, row.verdict.outcome) for row in found]
    table = markdown(("claim", "what the paper says", "here"), lines, pad=False)
    return f"{counts(found)} Why, and by which rule: `pjrope ledger`.\n\n{table}"


def as_sections(found: Sequence[Row]) -> str:
    """Return the ledger as a page: a section for each claim, readable on a narrow screen."""
    parts = [brief(found)]
    for row in found:
        facts = {
            "The paper": f"{row.claim.published} ({row.claim.paper}, {row.claim.where})",
            "Here": f"**{row.verdict.outcome}**. {_capital(row.verdict.because)}",
            "Rests on": row.verdict.evidence.text(),
            "Scale": _scale(row),
            "A fair test needs": "; ".join(row.claim.needs),
            f"Rule, written {row.claim.written} the record": row.claim.rule,
            "Again": f"`{row.command}`" if row.command else "",
        }
        lines = [f"- {name}: {text}" for name, text in facts.items() if text]
        parts.append("\n".join([f"## {row.claim.id}: {row.claim.statement}", "", *lines]))
    return "\n\n".join(parts)


def as_json(found: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the ledger as plain data; every interval is in it."""
    return [
        {
            "claim": {**asdict(row.claim), "paper": row.claim.paper},
            **_verdict(row.verdict),
            "scale_gap": row.verdict.evidence.scale.beside(row.claim.scale),
            "experiments": {name: _verdict(v) for name, v in row.parts.items()},
            "without_rule": list(row.silent),
            "command": row.command,
        }
        for row in found
    ]


def _verdict(verdict: Verdict) -> dict[str, Any]:
    evidence = verdict.evidence
    findings = [
        {**asdict(f), **asdict(f.summary), "word": f.word, "text": f.text()}
        for f in evidence.findings
    ]
    for finding in findings:
        del finding["summary"]
    return {
        "outcome": verdict.outcome,
        "because": verdict.because,
        "findings": findings,
        "scale": asdict(evidence.scale),
        "seeds": evidence.seeds,
        "excluded": [asdict(e) for e in evidence.excluded],
    }


def _scale(row: Row) -> str:
    gap = row.verdict.evidence.scale.beside(row.claim.scale)
    seeds = row.verdict.evidence.seeds
    return "; ".join([*([gap] if gap else []), *([f"{seeds} seeds"] if seeds > 1 else [])])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
