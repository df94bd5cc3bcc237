"""Numbers in prose that follow from a record: each carries an expression that is computed again.

In a chapter's section of results a decimal is followed by a comment that the page does not show:

    RoPE reads 0.61<!--= mean("phase_lm", "accuracy", method="rope", length=128) --> of them.

The comment stands right behind the number, before a sign such as %. The value must round to the
number as written. A decimal that is set and not measured is followed by ``<!--given-->``.

    value(record, field, **where)    of the one row with these fields
    mean(record, field, **where)     over rows, seeds as a rule
    low, high, half                  the ends of its 95 % interval, and half its width
    diff(record, field, a, b, **where)        paired by seeds: method a minus method b
    diff_low, diff_high, diff_half            the same of the difference
    least, most, count               over the rows; count(record, **where) has no field
    at_least(record, field, bound, **where)   how many rows reach a bound
    abs, round, sqrt, log10          and the signs + - * / **

A record is "phase_lm", preset "book"; "bench:cpu" names another preset. A field of ``where`` may be
a list: any of these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

CHAPTERS = Path(__file__).resolve().parents[1] / "chapters"
# Chapters whose results still hold decimals without a mark. One leaves the list when it is
# rewritten, and none joins it.
NOT_MARKED_YET: frozenset[str] = frozenset()
RESULTS = "## What experiments say"
NUMBER = r"[−-]?\d[\d,]*(?:\.\d+)?|[−-]?\.\d+"
MARK = re.compile(rf"({NUMBER})?<!--= *(.*?) *-->", re.S)
DECIMAL = re.compile(r"(?<![\w.])[−-]?\d*\.\d+(?![\w.]*\d)(?!\$?<!--(?:=|given))")
# Where a decimal is no result: code, names of files and models, links, citations, tables.
ELSEWHERE = (
    re.compile(r"^(```+).*?^\1 *$", re.S | re.M),
    re.compile(r"^\|.*$", re.M),
    re.compile(r"`[^`]*`"),
    re.compile(r"\]\([^)]*\)"),
)


@cache
def rows_of(name: str) -> list[dict[str, Any]]:
    from pjrope import record

    experiment, _, preset = name.partition(":")
    return record.load(experiment, preset or "book")["rows"]


def chosen(name: str, where: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a record with these fields.

    Raises:
        ValueError: no row has them.
    """
    from pjrope.experiments.engine.result import select

    rows = select(rows_of(name), where)
    if not rows:
        raise ValueError(f"no row of {name} has {dict(where)}")
    return rows


def numbers(name: str, field: str, where: Mapping[str, Any]) -> list[float]:
    return [row[field] for row in chosen(name, where) if field in row]


def value(name: str, field: str, **where: Any) -> float:
    found = numbers(name, field, where)
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows of {name} have {where}; value() needs one")
    return found[0]


def _summary(name: str, field: str, where: Mapping[str, Any]) -> Any:
    from pjrope.experiments.analysis.statistics import summary

    return summary(numbers(name, field, where))


def _difference(name: str, field: str, a: str, b: str, where: Mapping[str, Any]) -> Any:
    from pjrope.experiments.analysis.statistics import paired_difference

    rows = rows_of(name)
    return paired_difference(rows, field, method=a, baseline=b, where=where).summary


PARTS: Mapping[str, Callable[[Any], float]] = {
    "mean": lambda s: s.mean,
    "low": lambda s: s.low,
    "high": lambda s: s.high,
    "half": lambda s: (s.high - s.low) / 2,
}


def _functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {
        "value": value,
        "least": lambda name, field, **where: min(numbers(name, field, where)),
        "most": lambda name, field, **where: max(numbers(name, field, where)),
        "at_least": lambda name, field, bound, **where: sum(
            x >= bound for x in numbers(name, field, where)
        ),
        "count": lambda name, **where: len(chosen(name, where)),
        **{"abs": abs, "round": round, "sqrt": math.sqrt, "log10": math.log10},
    }
    for word, part in PARTS.items():
        found[word] = lambda name, field, part=part, **where: part(_summary(name, field, where))
        found["diff" if word == "mean" else f"diff_{word}"] = (
            lambda name, field, a, b, part=part, **where: part(
                _difference(name, field, a, b, where)
            )
        )
    return found


FUNCTIONS = _functions()


def computed(expression: str) -> float:
    """The value of a mark's expression; it knows the functions above and nothing else."""
    code = compile(" ".join(expression.split()), "<mark>", "eval")
    return float(eval(code, {"__builtins__": {}}, FUNCTIONS))


def agrees(written: str, number: float) -> bool:
    """Whether a number rounds to what is written, to half a unit of its last digit."""
    text = written.replace(",", "").replace("−", "-")
    digits = len(text.partition(".")[2])
    return abs(number - float(text)) <= 0.5 * 10**-digits * (1 + 1e-9)


def wrong_marks(text: str) -> Iterator[str]:
    """A line for each mark whose expression fails or differs from its number."""
    for written, expression in MARK.findall(text):
        if not written:
            yield f"the mark {expression!r} does not stand right behind a number"
            continue
        try:
            number = computed(expression)
        except Exception as error:  # whatever a chapter's expression may raise
            yield f"the mark {expression!r} of {written} fails: {error}"
            continue
        if not agrees(written, number):
            yield f"{written} is written, {expression} is {number:.6g}"


def results(text: str) -> str:
    """The section of results of a chapter's .md, up to the next section."""
    _, _, rest = text.partition(f"\n{RESULTS}\n")
    return re.split(r"^## ", rest, maxsplit=1, flags=re.M)[0]


def unmarked(text: str) -> Iterator[str]:
    """A line for each decimal in the results that says not where it comes from."""
    section = results(text)
    for pattern in ELSEWHERE:
        section = pattern.sub("", section)
    bare = re.sub(r"<!--(?!=|given).*?-->", "", section, flags=re.S)
    bare = re.sub(r"<!--= .*?-->", "<!--=-->", bare, flags=re.S)
    for found in DECIMAL.finditer(bare):
        around = " ".join(bare[max(0, found.start() - 40) : found.end()].split())
        yield f"a decimal without a mark: “…{around}”"


def wrong_numbers(folder: Path = CHAPTERS, spared: frozenset[str] = NOT_MARKED_YET) -> list[str]:
    """Every fault of the marks of all chapters."""
    wrong = []
    for md in sorted(folder.glob("ch*.md")):
        text = md.read_text(encoding="utf8")
        found = [*wrong_marks(text), *(() if md.stem in spared else unmarked(text))]
        wrong += [f"{md.name}: {fault}" for fault in found]
    return wrong
