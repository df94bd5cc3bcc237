"""Markdown tables: of any cells, and of means and differences over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ..engine.plain_json import ExperimentError
from ..engine.result import Result, select
from .statistics import (
    ONE_SEED,
    by_seed,
    paired_difference,
    rows_of,
    single_seed,
    summary,
    verdict,
)

__all__ = ["markdown", "table"]


def table(
    result: Result | Sequence[Mapping[str, Any]],
    value: str,
    rows: str = "method",
    columns: str | Sequence[str] | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    baseline: str | None = None,
    threshold: float | None = None,
    better: Literal["lower", "higher"] = "lower",
    digits: int = 3,
    form: Literal["fixed", "scientific"] = "fixed",
    deterministic: bool = False,
) -> str:
    """Return a Markdown table of means with intervals, aligned so that it reads as plain text too.

    Args:
        result: a `Result` or its rows.
        value: row field shown.
        rows, columns: fields that label the sides, in order of appearance; None: one column;
            several fields: one column for each combination that occurs.
        where: fields that must have these values.
        baseline: show paired differences to this value of `rows` instead of means.
        threshold, better: with a baseline, append verdicts by this smallest effect.
        digits: digits after the point.
        form: "fixed", or "scientific" for values that span decades.
        deterministic: nothing is random: leave out the remark that one seed has no interval.

    Raises:
        ExperimentError: when nothing is left to show, or a seed has several rows for one place.
    """
    chosen = select(rows_of(result), where or {})
    fields = (columns,) if isinstance(columns, str) else tuple(columns or ())
    sides, tops = _labels(chosen, rows), _tops(chosen, fields)
    if not sides or not tops:
        raise ExperimentError(f"no rows with {dict(where or {})}, {rows} and {columns} to show")
    _check_baseline(baseline, rows, sides)
    alone = single_seed(chosen)

    def place(side: Any, top: tuple[Any, ...]) -> str:
        here = dict(zip(fields, top, strict=True))
        if baseline is not None:
            if not all(select(chosen, {**here, rows: one}) for one in (side, baseline)):
                return "–"
            pair = {"method": side, "baseline": baseline, "by": rows}
            gap = paired_difference(chosen, value, where=here, **pair)
            said = gap.summary.text(digits, sign=True, form=form)
            return said if threshold is None else f"{said}: {verdict(gap, threshold, better)}"
        numbers = by_seed(chosen, value, {**here, rows: side})
        said = summary(numbers.values()).text(digits, form=form) if numbers else "–"
        return said.removesuffix(f" ({ONE_SEED})") if alone else said

    head = [rows, *(_title(columns, top) or value for top in tops)]
    lines = [[_word(s), *(place(s, top) for top in tops)] for s in sides if s != baseline]
    grid = markdown(head, lines, "lr")
    told = alone and not deterministic and baseline is None
    return f"{grid}\n\n({ONE_SEED})" if told else grid


def _check_baseline(baseline: str | None, rows: str, sides: list[Any]) -> None:
    if baseline is not None and baseline not in sides:
        raise ExperimentError(f"no rows with {rows}={baseline!r}; there are: {sides}")


def _labels(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in rows if name in row))


def _title(columns: str | Sequence[str] | None, top: tuple[Any, ...]) -> str:
    return " ".join([*([columns] if isinstance(columns, str) else []), *map(_word, top)])


def _tops(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> list[tuple[Any, ...]]:
    """The combinations of these fields that occur, in order of appearance."""
    return list(dict.fromkeys(tuple(r[f] for f in fields) for r in rows if r.keys() >= {*fields}))


def _word(label: Any) -> str:
    return f"{label:,}" if isinstance(label, int) and not isinstance(label, bool) else str(label)


def markdown(
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    align: str = "l",
    pad: bool = True,
) -> str:
    """Return a Markdown table.

    Args:
        head: titles.
        rows: cells; a bar is escaped and line ends become spaces, as they would end the cell.
        align: "l" or "r" a column; the last letter goes for all columns after it.
        pad: make columns line up as plain text too; without it lines are as short as they can be.
    """
    lines = [[_cell(text) for text in line] for line in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [align[min(i, len(align) - 1)] for i in range(len(widths))]

    def line(words: Sequence[str]) -> str:
        padded = (
            word if not pad else word.rjust(width) if side == "r" else word.ljust(width)
            for word, width, side in zip(words, widths, sides, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    widths = [max(2, width) for width in widths] if pad else [3] * len(widths)
    rule = ["-" * (n - 1) + (":" if s == "r" else "-") for n, s in zip(widths, sides, strict=True)]
    return "\n".join([line(lines[0]), line(rule), *map(line, lines[1:])])


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", r"\|")
