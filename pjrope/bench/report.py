"""A benchmark as text: one aligned table a section, readable as Markdown."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..experiments.analysis.report import duration
from ..experiments.analysis.tables import markdown
from ..experiments.engine.result import Result
from .settings import SECTIONS

__all__ = ["report", "row_line"]

HEAD = ("method", "backend", "N", "ratio", "quartiles", "cpu", "pairs", "took", "reference")
JUDGED = ("must", "strive", "verdict")
BUSY = 0.25  # load per core at the start from which ratios are in doubt


def report(result: Result) -> str:
    """Tables of all sections, what was skipped and why, targets met and missed, the machine."""
    parts = [_card(result.card)]
    for section, meaning in SECTIONS.items():
        rows = [row for row in result.rows if row["section"] == section]
        if rows:
            parts.append(f"## {section}: {meaning}")
            parts += _tables(rows)
    parts.append(_score(result.rows))
    return "\n\n".join(parts)


def _card(card: Mapping[str, Any]) -> str:
    code = f"commit {card['commit'][:10]}" if card["commit"] else f"version {card['version']}"
    code += " with local changes" if card["dirty"] else ""
    settings = card["settings"]
    facts = (
        f"{card['device']} ({card['cpu']}, {card['cores']} cores)",
        f"{card['threads']} thread(s)",
        f"torch {card['torch']}",
        f"{settings['heads']} heads of {settings['head_dim']} channels, {settings['dtype']}",
        code,
        card["date"][:16].replace("T", " ") + " UTC",
        duration(card["wall_seconds"]),
    )
    lines = [
        f"# {card['command']}",
        "",
        "; ".join(facts) + ".",
        "A ratio is the median over pairs of runs that took turns; below 1, the method is faster "
        "than (or smaller than) its reference. cpu: the same of processor time.",
    ]
    load = card["load"]
    if load is not None and load > BUSY * card["cores"]:
        lines.append(
            f"The machine was busy when this began (load {load:.1f} on {card['cores']} cores): "
            "do not quote these numbers."
        )
    return "\n".join(lines)


def _tables(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table for each reference (and pass), and a list of what was skipped."""
    parts = []
    for against, passes in dict.fromkeys((row["against"], row.get("passes")) for row in rows):
        here = [r for r in rows if (r["against"], r.get("passes")) == (against, passes)]
        title = f"Against {against}" + (f", {passes}" if passes else "")
        if ran := [row for row in here if not row["skipped"]]:
            parts.append(f"{title}:\n\n{markdown([*HEAD, *JUDGED], [_cells(row) for row in ran])}")
        if skipped := [row for row in here if row["skipped"]]:
            parts.append("\n".join([f"{title}, skipped:", "", *_skips(skipped)]))
    return parts


def _skips(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    reasons: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        key = (row["method"], row["backend"], row["skipped"])
        reasons.setdefault(key, []).append(row["n"])
    return [
        f"- {method}{f' ({backend})' if backend else ''}, "
        f"N = {', '.join(f'{n:,}' for n in ns)}: {why}"
        for (method, backend, why), ns in reasons.items()
    ]


def _cells(row: Mapping[str, Any]) -> list[str]:
    spread = f"{row['ratio_low']:.2f}–{row['ratio_high']:.2f}" if "ratio_low" in row else "–"
    judged = ["–"] * len(JUDGED)
    if row["verdict"]:
        judged = [f"{row['must']:.2f}", f"{row['strive']:.2f}", row["verdict"]]
    size = f"{row['n']:,}" + (f" × {row['batch']}" if row["batch"] > 1 else "")
    return [
        row["method"],
        f"{row['backend']}: {row['chosen']}" if row["chosen"] else row["backend"],
        size,
        f"{row['ratio']:.2f}",
        spread,
        "–" if row.get("cpu_ratio") is None else f"{row['cpu_ratio']:.2f}",
        f"{row['pairs']}",
        amount(row, ""),
        amount(row, "reference_"),
        *judged,
    ]


def amount(row: Mapping[str, Any], side: str) -> str:
    """What one side took: memory, tokens per second, or the median of its seconds."""
    if f"{side}bytes" in row:
        return f"{row[f'{side}bytes'] / 1e6:,.0f} MB"
    if f"{side}tokens_per_second" in row:
        return f"{row[f'{side}tokens_per_second']:,.0f} tokens/s"
    seconds = statistics.median(row[f"{side}seconds"])
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def row_line(row: Mapping[str, Any]) -> str:
    """One row in one line, to follow a run."""
    what = f"{row['section']} N={row['n']:,} {row['method']}"
    what += f" ({row['backend']})" if row["backend"] else ""
    if row["skipped"]:
        return f"{what}: skipped, {row['skipped']}"
    told = f"{what}: {row['ratio']:.2f} x {row['against']}"
    return f"{told}, {row['verdict']}" if row["verdict"] else told


def _score(rows: Sequence[Mapping[str, Any]]) -> str:
    judged = [row for row in rows if row["verdict"]]
    if not judged:
        return "Targets: none applies to these sizes."
    counts = Counter(row["verdict"] for row in judged)
    met = len(judged) - counts["missed"]
    lines = [
        f"Targets: {met} of {len(judged)} met, {counts['met, aim too']} of them with the aim too."
    ]
    lines += [
        f"- missed: {row_line(row).removesuffix(', missed')} (must {row['must']:.2f})"
        for row in judged
        if row["verdict"] == "missed"
    ]
    return "\n".join(lines)
