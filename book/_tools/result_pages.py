"""The pages of results: what each record answers its question with, and where the rest is printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def results(found: Iterable[tuple[Any, Any]]) -> str:
    """A section for each experiment and its result."""
    sections = [section(experiment, result) for experiment, result in found]
    return "\n\n".join(sections) or "No result has been recorded yet."


def section(experiment: Any, result: Any) -> str:
    """The first table with its differences, what the numbers say, and the claims they judge.

    `pjrope show` prints every table of a record; this page has the one that its question asks for.
    """
    from pjrope.experiments.analysis.report import card_line

    tables = [t for t in experiment.tables if result.where(**t.where).rows]
    parts = [
        f"## {experiment.name}: {experiment.question}",
        *_table(experiment, result, tables[:1]),
    ]
    if said := experiment.sentences(result):
        parts.append("\n".join(f"- {sentence}" for sentence in said))
    if experiment.verdicts:
        parts.append(f"Judges {', '.join(experiment.verdicts)}: see {{doc}}`ledger`.")
    more = len(tables) - 1
    rest = f" `pjrope show {experiment.name}` prints {more} more table{'s' * (more > 1)}."
    parts.append(card_line(result.card) + (rest if more > 0 else ""))
    return "\n\n".join(parts)


def _table(experiment: Any, result: Any, tables: list[Any]) -> Iterable[str]:
    """A table, and the differences to its baseline where seeds can show one."""
    from pjrope.experiments.analysis.report import table_of
    from pjrope.experiments.analysis.statistics import single_seed

    for wanted in tables:
        yield f"### {wanted.title}\n\n{table_of(experiment, wanted, result)}"
        baseline = experiment.baseline if wanted.baseline is None else wanted.baseline
        if wanted.smallest_effect is not None and baseline and not single_seed(result):
            yield (
                f"Difference to {baseline} over shared seeds ({wanted.better} is better; smallest "
                f"effect of interest {wanted.smallest_effect:g}):"
            )
            yield table_of(experiment, wanted, result, baseline)
