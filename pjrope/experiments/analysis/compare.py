"""From seeds to statements: means, 95 % intervals, paired differences, tables and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..engine.plain_json import ExperimentError
from ..engine.store import Result, select
from .student import t_quantile

__all__ = [
    "Difference",
    "Summary",
    "paired_difference",
    "summary",
    "table",
    "verdict",
]

ONE_SEED = "one seed, no interval"
FORMS = {"fixed": "f", "scientific": "e"}


@dataclass(frozen=True)
class Summary:
    """Mean of n seeds with its 95 % interval.

    Args:
        mean: None when a seed gave no finite number: a mean of the rest would flatter.
        low, high: ends of the interval; None with one seed, or without a mean.
        n: seeds.
        missing: seeds without a finite number.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    missing: int = 0

    def text(self, digits: int = 3, sign: bool = False, form: str = "fixed") -> str:
        """Return "1.234 ± 0.005", saying so where there is no interval or no mean.

        Args:
            digits: digits after the point.
            sign: also write a plus.
            form: "fixed", or "scientific" as in "1.2e+01 ± 5.0e-02".

        Raises:
            ExperimentError: for another form.
        """
        if form not in FORMS:
            raise ExperimentError(f"form {form!r}: choose from {', '.join(FORMS)}")
        if self.mean is None:
            return f"not finite for {self.missing} of {self.n} seeds"
        number = f".{digits}{FORMS[form]}"
        shown = f"{self.mean:{'+' if sign else ''}z{number}}"  # z: no minus before zeros
        if self.low is None or self.high is None:
            return f"{shown} ({ONE_SEED})"
        return f"{shown} ± {(self.high - self.low) / 2:{number}}"


def summary(values: Iterable[float | None]) -> Summary:
    """Return mean and 95 % t-interval: mean ± t(0.975, n−1) · s / √n with s over n−1.

    Args:
        values: one number a seed; None for one that is not finite.

    Returns:
        A `Summary`; of one value it has no interval.

    Raises:
        ExperimentError: for no values.

    Limits: takes seeds as independent and roughly normal.
    """
    values = list(values)
    n = len(values)
    if not n:
        raise ExperimentError("no values to summarise; check the method, seeds and filter")
    known = [float(v) for v in values if v is not None and math.isfinite(v)]
    if len(known) < n:
        return Summary(None, None, None, n, n - len(known))
    mean = math.fsum(known) / n
    if n == 1:
        return Summary(mean, None, None, 1)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in known) / (n - 1))
    half = t_quantile(0.975, n - 1) * spread / math.sqrt(n)
    return Summary(mean, mean - half, mean + half, n)


@dataclass(frozen=True)
class Difference:
    """Paired difference, method − baseline, over the seeds that both have."""

    method: str
    baseline: str
    value: str
    seeds: tuple[int, ...]
    summary: Summary


def paired_difference(
    result: Result | Sequence[Mapping[str, Any]],
    value: str,
    *,
    method: str,
    baseline: str,
    where: Mapping[str, Any] | None = None,
    by: str = "method",
) -> Difference:
    """Return mean and interval of value(method) − value(baseline) over shared seeds.

    Args:
        result: a `Result` or its rows.
        value: row field compared.
        method, baseline: the two values of the field `by`.
        where: fields that pick one row per seed, such as {"length": 1024}.

    Raises:
        ExperimentError: when a seed has several rows, or no seed is shared.
    """
    ours, theirs = (_by_seed(result, value, {**(where or {}), by: m}) for m in (method, baseline))
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    if not seeds:
        raise ExperimentError(
            f"{method} (seeds {sorted(ours)}) and {baseline} (seeds {sorted(theirs)}) share no seed"
        )
    pairs = [(ours[s], theirs[s]) for s in seeds]
    differences = [None if a is None or b is None else a - b for a, b in pairs]
    return Difference(method, baseline, value, seeds, summary(differences))


def _by_seed(
    result: Result | Sequence[Mapping[str, Any]], value: str, where: Mapping[str, Any]
) -> dict[int, float | None]:
    numbers: dict[int, float | None] = {}
    for row in select(_rows(result), where):
        if value not in row:
            raise ExperimentError(f"rows have no {value!r}; they have: {', '.join(row)}")
        if row["seed"] in numbers:
            raise ExperimentError(
                f"several rows for seed {row['seed']} with {dict(where)}; filter with where, "
                f"by one of: {', '.join(row)}"
            )
        numbers[row["seed"]] = row[value]
    return numbers


def _rows(result: Result | Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return result.rows if isinstance(result, Result) else result


def verdict(
    difference: Difference | Summary,
    threshold: float,
    better: Literal["lower", "higher"] = "lower",
) -> str:
    """Say in words what a difference to the baseline shows; the rule is fixed before the run.

    "better" or "worse": the interval leaves out 0 and the mean is at least the smallest effect.
    "equal within the smallest effect": the interval lies inside ±threshold.
    "no difference resolved": anything else. Without an interval there is no verdict.

    Args:
        difference: method − baseline.
        threshold: smallest effect of interest, in units of the value; ≥ 0.
        better: "lower" for a loss, "higher" for an accuracy.

    Raises:
        ExperimentError: for a negative threshold or another direction.
    """
    if better not in ("lower", "higher") or not threshold >= 0:
        raise ExperimentError(
            f"verdict: better={better!r}, threshold={threshold}; allowed are 'lower' or 'higher', "
            "and a threshold >= 0"
        )
    s = difference.summary if isinstance(difference, Difference) else difference
    if s.mean is None:
        return "no verdict: " + s.text()
    if s.low is None or s.high is None:
        return "no verdict: " + ONE_SEED
    if abs(s.mean) >= threshold and (s.low > 0 or s.high < 0):
        return "better" if (s.mean < 0) == (better == "lower") else "worse"
    if -threshold < s.low and s.high < threshold:
        return "equal within the smallest effect"
    return "no difference resolved"


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
    chosen = select(_rows(result), where or {})
    sides = _labels(chosen, rows)
    fields = (columns,) if isinstance(columns, str) else tuple(columns or ())
    tops = list(dict.fromkeys(tuple(r[f] for f in fields) for r in chosen if r.keys() >= {*fields}))
    if not sides or not tops:
        raise ExperimentError(f"no rows with {dict(where or {})}, {rows} and {columns} to show")
    if baseline is not None and baseline not in sides:
        raise ExperimentError(f"no rows with {rows}={baseline!r}; there are: {sides}")

    alone = single_seed(chosen)

    def place(side: Any, top: tuple[Any, ...]) -> str:
        here = dict(zip(fields, top, strict=True))
        if baseline is None:
            numbers = _by_seed(chosen, value, {**here, rows: side})
            said = summary(numbers.values()).text(digits, form=form) if numbers else "–"
            return said.removesuffix(f" ({ONE_SEED})") if alone else said
        if not all(select(chosen, {**here, rows: one}) for one in (side, baseline)):
            return "–"
        gap = paired_difference(chosen, value, method=side, baseline=baseline, where=here, by=rows)
        said = gap.summary.text(digits, sign=True, form=form)
        return said if threshold is None else f"{said}: {verdict(gap, threshold, better)}"

    shown = [side for side in sides if side != baseline]
    name = f"{columns} " if isinstance(columns, str) else ""
    head = [rows, *(name + " ".join(map(_word, top)) if top else value for top in tops)]
    grid = _grid([head, *([_word(side), *(place(side, top) for top in tops)] for side in shown)])
    silent = deterministic or baseline is not None or not alone
    return grid if silent else f"{grid}\n\n({ONE_SEED})"


def single_seed(result: Result | Sequence[Mapping[str, Any]]) -> bool:
    """Say whether all rows come from one seed, so that nothing about their spread is known."""
    return len({row.get("seed") for row in _rows(result)}) == 1


def _labels(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in rows if name in row))


def _word(label: Any) -> str:
    return f"{label:,}" if isinstance(label, int) and not isinstance(label, bool) else str(label)


def _grid(lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def line(words: Sequence[str]) -> str:
        label, *numbers = zip(words, widths, strict=True)
        padded = [label[0].ljust(label[1]), *(word.rjust(width) for word, width in numbers)]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * n if i == 0 else "-" * (n - 1) + ":") for i, n in enumerate(widths)]
    return "\n".join([line(lines[0]), line(rule), *map(line, lines[1:])])
