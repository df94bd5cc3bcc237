"""The charts of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from .arms import ARMS, BASELINES, NAMES, SINGLES, UNION
from .drawing import Dots, Line, dots_chart, legend, line_chart

if TYPE_CHECKING:
    from .report import Report

__all__ = ["by_length", "kernels", "learning", "left_out", "sizes"]

HEADS = ("rope", "alibi", "near", "lc", "fj", "affine", "none", "union")  # colours of heads


def _figure(chart: str, caption: str, lines: Sequence[Line] = ()) -> str:
    key = legend(lines) if lines else ""
    return f"<figure>{chart}{key}<figcaption>{escape(caption)}</figcaption></figure>"


def _dash(arm: str) -> int:
    return 0 if arm in BASELINES else 1 if arm in SINGLES else 0


def by_length(report: Report) -> str:
    """Loss against length, every arm."""
    lines, ends = [], []
    for arm, of in report.losses().items():
        points = [(math.log2(n), i.mean) for n, i in of.items()]
        ends.append(f"{NAMES[arm]} {points[0][1]:.2f} to {points[-1][1]:.2f}")
        lines.append(Line(NAMES[arm], arm, points, dash=_dash(arm)))
    lengths = list(next(iter(report.losses().values())))
    chart = line_chart(
        lines,
        x="context, tokens",
        y="loss, nats per token",
        alt="Held-out loss from the shortest to the longest context: " + ", ".join(ends) + ".",
        x_ticks=[(math.log2(n), f"{n:,}") for n in lengths],
    )
    return _figure(
        chart,
        f"Held-out loss by context length; training saw {lengths[0]} tokens. Its intervals are in the table below.",
        lines,
    )


def left_out(report: Report) -> str:
    """What leaving a sector out of the union costs, run by run."""
    assert report.evidence is not None
    rows, said = [], []
    findings = {f.sector: f.left_out for f in report.decision.sectors}
    for sector in SINGLES:
        runs = [v for values in report.evidence.left_out[sector].values() for v in values]
        found = findings.get(sector)
        mean = (found["mean"], found["low"], found["high"]) if found else None
        rows.append(Dots(NAMES[sector], sector, values=runs, mean=mean))
        said.append(f"{NAMES[sector]} {sum(runs) / len(runs):+.3f}")
    chart = dots_chart(
        rows,
        x="loss without the sector minus loss, nats per token",
        alt="Mean cost of leaving a sector out of the union: " + ", ".join(said) + ".",
    )
    return _figure(
        chart,
        "Each dot is one run of the union with a sector left out; bars are means with 95 % intervals. A "
        "sector whose dots agree is used from whichever start.",
    )


def sizes(report: Report) -> str:
    """How large each sector's function is, before and after."""
    assert report.plan is not None
    rows, said = [], []
    for sector in SINGLES:
        found = [
            row
            for c in report.cells
            if c["arm"] == UNION
            for row in c["sectors"]
            if row["sector"] == sector
            and row["order"] is None
            and row["length"] == report.plan.shape.length
        ]
        now, start = [r["rms"] for r in found], [r["rms_start"] for r in found]
        rows.append(Dots(NAMES[sector], sector, values=now, hollow=start))
        said.append(f"{NAMES[sector]} {sum(start) / len(start):.2f} to {sum(now) / len(now):.2f}")
    chart = dots_chart(
        rows,
        x="size on d < L, nats",
        alt="Size of each sector in the union before and after training: " + ", ".join(said) + ".",
    )
    return _figure(
        chart,
        "Size of each sector of the union: hollow before training, filled after, a dot a run. Where filled "
        "dots follow hollow ones, the start has decided and not the data.",
    )


def kernels(report: Report) -> list[str]:
    """The fitted bias of the best union, a chart a layer."""
    best = report.best_union()
    assert report.plan is not None and best is not None
    length = report.plan.shape.length
    drawn = []
    for layer in best["kernel"]:
        lines = []
        for head, bias in enumerate(layer["total"]):
            middle = sum(bias[:length]) / length
            points = [(float(d), b - middle) for d, b in enumerate(bias)]
            turns = f", {layer['turns']['fj'][head]:.1f} turns per L"
            style = HEADS[head % len(HEADS)]
            lines.append(Line(f"head {head}{turns}", style, points, dash=head % 4, marks=False))
        chart = line_chart(
            lines,
            x="lag d, tokens",
            y="bias, nats",
            alt=_spoken(layer, length),
            mark_at=(length, "L"),
        )
        drawn.append(
            _figure(
                chart,
                f"The fitted kernel, layer {layer['layer']}: bias of each head about its mean on d < L, in the "
                "union with the least held-out loss.",
                lines,
            )
        )
    return drawn


def _spoken(layer: dict[str, Any], length: int) -> str:
    peaks = []
    for head, bias in enumerate(layer["total"]):
        within = list(bias[:length])
        at = within.index(max(within))
        peaks.append(f"head {head} at lag {at}")
    return f"Bias by lag in layer {layer['layer']}; largest within L: " + ", ".join(peaks) + "."


def learning(report: Report) -> str:
    """Held-out loss during training, every arm."""
    lines = []
    for arm in ARMS:
        curves = [c["curve"] for c in report.cells if c["arm"] == arm]
        points = [
            (float(rows[0]["step"]), sum(r["held_out"] for r in rows) / len(rows))
            for rows in zip(*curves, strict=True)
        ]
        lines.append(Line(NAMES[arm], arm, points, dash=_dash(arm), marks=False))
    said = ", ".join(
        f"{line.name} {line.points[0][1]:.2f} to {line.points[-1][1]:.2f}" for line in lines
    )
    chart = line_chart(
        lines, x="training step", y="held-out loss at L, nats", alt=f"Learning curves: {said}."
    )
    return _figure(chart, "Held-out loss during training, mean of the runs of each model.", lines)
