"""The report of a diagnosis: plain data, a text, a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.home import expanded
from ..experiments.engine.store import write
from .arms import ARMS, NAMES, UNION
from .decision import Decision
from .evidence import Evidence, Interval, interval
from .plan import Plan
from .source import InputError, Source

__all__ = ["FORMAT", "Report"]

FORMAT = 1  # of the JSON


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What a diagnosis found.

    Attributes:
        source: what was diagnosed.
        decision: the answer, a :class:`pjrope.diagnosis.Decision`.
        plan: what was trained; None where nothing was.
        evidence: the summaries that the rule has read; None where nothing was trained.
        cells: what each training found.
    """

    source: Source
    decision: Decision
    plan: Plan | None = None
    evidence: Evidence | None = None
    cells: Sequence[dict[str, Any]] = field(default_factory=tuple)

    def __repr__(self) -> str:
        return f"<Report of {self.source.name}: {self.verdict}>"

    @property
    def verdict(self) -> str:
        """ "found", "cannot tell", "order does not matter", "no structure" or "too little data"."""
        return self.decision.verdict

    def losses(self) -> dict[str, dict[int, Interval]]:
        """Held-out loss by arm and length, nats per token, with 95 % intervals over the segments."""
        if self.plan is None:
            return {}
        found: dict[str, dict[int, Interval]] = {}
        for arm in ARMS:
            mine = [c for c in self.cells if c["arm"] == arm]
            for length in self.plan.shape.lengths:
                runs = [c["losses"][str(length)] for c in mine]
                means = [sum(v) / len(v) for v in zip(*runs, strict=True)]
                found.setdefault(arm, {})[length] = interval(means)
        return found

    def best_union(self) -> dict[str, Any] | None:
        """The run of the union with the least held-out loss, whose kernel is drawn."""
        runs = [c for c in self.cells if c["arm"] == UNION]
        return min(runs, key=lambda c: c["curve"][-1]["held_out"]) if runs else None

    def to_json(self) -> dict[str, Any]:
        """Plain data: everything the page shows, and what each training found."""
        return {
            "format": FORMAT,
            "source": {
                "name": self.source.name,
                "kind": self.source.kind,
                "tokens": len(self.source),
                "vocab": self.source.vocab,
                "notes": list(self.source.notes),
                "sha256": self.source.sha256,
            },
            "decision": self.decision.to_json(),
            "plan": None if self.plan is None else self.plan.to_json(),
            "losses": {
                arm: {str(n): i.to_json() for n, i in of.items()}
                for arm, of in self.losses().items()
            },
            "cells": list(self.cells),
        }

    def text(self) -> str:
        """The report for a terminal."""
        d, source = self.decision, self.source
        lines = [
            f"{source.name}: {len(source):,} tokens, {source.vocab} distinct",
            f"Verdict: {d.verdict}",
            d.headline,
            *(f"  - {s}" for s in d.because),
        ]
        if d.would_decide:
            lines += ["What would decide:", *(f"  - {s}" for s in d.would_decide)]
        if d.sectors:
            lines.append("Sector            left out of the union   alone, share   orders")
        for s in d.sectors:
            cost = Interval(**s.left_out).text()
            orders = ", ".join(map(str, s.orders)) or "-"
            lines.append(
                f"  {NAMES[s.sector]:<16} {s.status:<12} {cost:<18} {s.share:>6.0%}   {orders}"
            )
        return "\n".join(lines)

    def save(self, folder: Path | str) -> tuple[Path, Path]:
        """Write ``report.html``, one file that needs no network, and ``report.json``.

        Returns:
            the two paths.
        """
        from .page import page

        folder = expanded(folder, InputError)
        data, html = folder / "report.json", folder / "report.html"
        write(data, self.to_json())
        html.write_text(page(self), encoding="utf-8")
        return html, data

    def _repr_html_(self) -> str:
        from .page import body

        return body(self, standalone=False)
