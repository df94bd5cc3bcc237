"""From seeds to statements: means, 95 % intervals, paired differences, and what they show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..engine.plain_json import ExperimentError
from ..engine.result import Result, select
from .student import t_quantile

__all__ = [
    "Difference",
    "Summary",
    "paired_difference",
    "shown",
    "single_seed",
    "summary",
    "verdict",
]

ONE_SEED = "one seed, no interval"
Word = Literal[
    "better",
    "worse",
    "equal",
    "slightly better",
    "slightly worse",
    "unresolved",
    "one seed",
    "not finite",
]
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
    ours, theirs = (by_seed(result, value, {**(where or {}), by: m}) for m in (method, baseline))
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    if not seeds:
        raise ExperimentError(
            f"{method} (seeds {sorted(ours)}) and {baseline} (seeds {sorted(theirs)}) share no seed"
        )
    pairs = [(ours[s], theirs[s]) for s in seeds]
    differences = [None if a is None or b is None else a - b for a, b in pairs]
    return Difference(method, baseline, value, seeds, summary(differences))


def by_seed(
    result: Result | Sequence[Mapping[str, Any]], value: str, where: Mapping[str, Any]
) -> dict[int, float | None]:
    numbers: dict[int, float | None] = {}
    for row in select(rows_of(result), where):
        if value not in row:
            raise ExperimentError(f"rows have no {value!r}; they have: {', '.join(row)}")
        if row["seed"] in numbers:
            raise ExperimentError(
                f"several rows for seed {row['seed']} with {dict(where)}; filter with where, "
                f"by one of: {', '.join(row)}"
            )
        numbers[row["seed"]] = row[value]
    return numbers


def rows_of(result: Result | Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return result.rows if isinstance(result, Result) else result


def shown(s: Summary, smallest: float, better: Literal["lower", "higher"]) -> Word:
    """Say in a word what a difference shows; the one place where that is decided.

    "better" and "worse": the whole interval lies beyond 0 and the mean is at least the smallest
    effect. "equal": the interval lies within the smallest effect. "slightly better" and "slightly
    worse": the interval leaves out 0, and the mean is smaller than the smallest effect. So an
    interval that leaves out 0 is never "unresolved".
    """
    if s.mean is None:
        return "not finite"
    if s.low is None or s.high is None:
        return "one seed"
    if -smallest < s.low and s.high < smallest:
        return "equal"
    if s.low <= 0 <= s.high:
        return "unresolved"
    good = (s.mean < 0) == (better == "lower")
    if abs(s.mean) >= smallest:
        return "better" if good else "worse"
    return "slightly better" if good else "slightly worse"


_TOLD: Mapping[Word, str] = {
    "better": "better",
    "worse": "worse",
    "equal": "equal within the smallest effect",
    "slightly better": "better by less than the smallest effect",
    "slightly worse": "worse by less than the smallest effect",
    "unresolved": "no difference resolved",
    "one seed": "no verdict: " + ONE_SEED,
}


def verdict(
    difference: Difference | Summary,
    threshold: float,
    better: Literal["lower", "higher"] = "lower",
) -> str:
    """Say in words what a difference to the baseline shows (`shown`, as tables print it).

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
    word = shown(s, threshold, better)
    return _TOLD.get(word, "no verdict: " + s.text())


def single_seed(result: Result | Sequence[Mapping[str, Any]]) -> bool:
    """Say whether all rows come from one seed, so that nothing about their spread is known."""
    return len({row.get("seed") for row in rows_of(result)}) == 1
