"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from .. import __version__
from . import figures
from .arms import NAMES, UNION
from .evidence import Interval
from .style import CSS

if TYPE_CHECKING:
    from .report import Report

__all__ = ["body", "page"]


def page(report: Report) -> str:
    """The whole page."""
    title = f"Diagnosis of {report.source.name}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head>"
        f'<body class="pj-report">{body(report)}</body></html>\n'
    )


def body(report: Report, *, standalone: bool = True) -> str:
    """What stands inside the page, or in a notebook, where it brings its own style."""
    parts = [_head(report), _answer(report)]
    if report.plan is not None:
        parts += [_sectors(report), _charts(report), _details(report)]
    inside = "\n".join(part for part in parts if part)
    if standalone:
        return f"<main>{inside}</main>"
    for level in ("h1", "h2"):  # a notebook has headings of its own
        inside = inside.replace(f"<{level}>", f"<p class='{level}'>").replace(f"</{level}>", "</p>")
    return f'<div class="pj-report"><style>{CSS}</style>{inside}</div>'


def _head(report: Report) -> str:
    source, plan = report.source, report.plan
    facts = [f"{len(source):,} tokens, {source.vocab} distinct."]
    facts += source.notes
    if plan is not None:
        shape = plan.shape
        facts.append(
            f"{len(plan.cells)} models of {shape.layers} layer{'s' * (shape.layers > 1)} and {shape.width} channels, trained for "
            f"{plan.steps:,} steps on windows of L = {shape.length} tokens of the first nine tenths, "
            "and read on the last tenth."
        )
    return (
        f"<h1>Diagnosis of {escape(source.name)}</h1><p class='soft'>{escape(' '.join(facts))}</p>"
    )


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def _answer(report: Report) -> str:
    d = report.decision
    said = (
        f"<div class='verdict'><p><strong>{escape(d.verdict[0].upper() + d.verdict[1:])}.</strong> "
        f"{escape(d.headline)}</p></div><h2>Because</h2>{_list(d.because)}"
    )
    if d.would_decide:
        said += f"<h2>What would decide what is open</h2>{_list(d.would_decide)}"
    return said


def _sectors(report: Report) -> str:
    if not report.decision.sectors:
        return ""
    rows = []
    for s in report.decision.sectors:
        orders = ", ".join(map(str, s.orders)) if s.sector in ("fj", "lc") else "has none"
        rows.append(
            [
                NAMES[s.sector],
                s.status,
                Interval(**s.left_out).text(),
                f"{s.stable[0]} of {s.stable[1]}",
                Interval(**s.alone).text(),
                f"{s.share:.0%}".replace("-", "−"),
                orders or "none",
            ]
        )
    head = [
        *("sector", "the union needs it", "loss without it", "starts"),
        *("alone, against the union", "share of position", "orders"),
    ]
    return (
        "<h2>Which sectors</h2>"
        + _table(head, rows, "What each sector is worth, nats per token")
        + "<p class='soft'>Loss without it: the union's loss at L with the sector left out minus its loss, mean and "
        "95 % interval over all starts and seeds; starts: in how many it costs something. Share of "
        "position: what the sector alone gains over no position, as part of what the best model gains.</p>"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    cells = "".join(f"<th scope='col'>{escape(h)}</th>" for h in head)
    lines = "".join(
        f"<tr><th scope='row'>{escape(row[0])}</th>"
        + "".join(f"<td class='number'>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f"<div class='wide' tabindex='0' role='region' aria-label='{escape(caption, True)}'>"
        f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _charts(report: Report) -> str:
    drawn = [
        figures.by_length(report),
        figures.left_out(report),
        figures.sizes(report),
        *figures.kernels(report),
        figures.learning(report),
    ]
    return f"<h2>The evidence</h2><div class='charts'>{''.join(drawn)}</div>"


def _details(report: Report) -> str:
    assert report.plan is not None
    lengths = report.plan.shape.lengths
    rows = [
        [NAMES[arm], *(of[n].text(sign=False) for n in lengths)]
        for arm, of in report.losses().items()
    ]
    losses = _table(["model", *(f"{n} tokens" for n in lengths)], rows, "Held-out loss by length")
    runs = [
        [
            c["start"] or NAMES[c["arm"]],
            str(c["seed"]),
            f"{c['curve'][-1]['held_out']:.3f}",
            *(
                f"{row['rms_start']:.2f} → {row['rms']:.2f}"
                for row in c["sectors"]
                if row["order"] is None and row["length"] == lengths[0] and row["sector"] != "total"
            ),
        ]
        for c in report.cells
        if c["arm"] == UNION
    ]
    names = [
        f"size of {NAMES[r['sector']]}"
        for c in report.cells[-1:]
        for r in c["sectors"]
        if r["order"] is None and r["length"] == lengths[0] and r["sector"] != "total"
    ]
    union = _table(["gates start at", "seed", "loss", *names], runs, "Runs of the union")
    orders = _orders(report)
    return (
        f"<h2>Numbers</h2><details open><summary>Loss by length, nats per token</summary>{losses}"
        "<p class='soft'>95 % intervals over held-out segments of the mean of the runs.</p></details>"
        f"<details><summary>Every run of the union</summary>{union}<p class='soft'>Size: root mean square of the "
        "sector about its mean on d &lt; L, nats, before and after training, mean of heads and "
        f"layers.</p></details>{orders}<p class='soft'>Made by pjrope {__version__}. SHA-256 of the tokens: "
        f"<span style='overflow-wrap:anywhere'>{report.source.sha256}</span></p>"
    )


def _orders(report: Report) -> str:
    evidence = report.evidence
    if evidence is None:
        return ""
    from .evidence import interval

    rows = [
        [f"{NAMES[part.split()[0]]}, order {part.split()[1]}", interval(runs).text()]
        for part, starts in evidence.left_out.items()
        if " " in part
        for runs in [[v for values in starts.values() for v in values]]
    ]
    table = _table(["part", "loss without it"], rows, "Loss with an order left out")
    return f"<details><summary>Loss with one order left out</summary>{table}</details>"
