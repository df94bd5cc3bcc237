"""What `pjrope show` prints: the tables an experiment names, and where their numbers come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine.plain_json import ExperimentError
from ..engine.result import Result
from ..engine.spec import Experiment, Table
from .claims import CLAIMS, Verdict, sentence
from .statistics import single_seed
from .tables import table

__all__ = ["card_line", "duration", "report", "statements", "table_of", "verdicts"]


def report(experiment: Experiment, result: Result) -> str:
    """Return the experiment's question, its tables with differences to the baseline, sentences and card.

    Args:
        experiment: names the tables and makes the sentences.
        result: rows and card, of any of its presets.

    Returns:
        Markdown that also reads as plain text.
    """
    parts = [f"# {experiment.name}: {experiment.question}"]
    if experiment.deterministic:
        parts.append(
            "Deterministic: nothing is random, and a second run gives the same numbers up to rounding."
        )
    for wanted in experiment.tables:
        if not result.where(
            **wanted.where
        ).rows:  # a preset or a filtered run may lack a whole table
            continue
        parts.append(f"## {wanted.title}\n\n{table_of(experiment, wanted, result)}")
        baseline = experiment.baseline if wanted.baseline is None else wanted.baseline
        if wanted.smallest_effect is None or baseline == "" or single_seed(result):
            continue
        head = f"Difference to {baseline} over shared seeds ({wanted.better} is better; "
        head += f"smallest effect of interest {wanted.smallest_effect:g}):"
        try:
            gaps = table_of(experiment, wanted, result, baseline)
        except ExperimentError as error:
            gaps = f"({error})"
        parts.append(f"{head}\n\n{gaps}")
    if said := experiment.sentences(result):
        parts.append("\n".join(["## What the numbers say", "", *(f"- {s}" for s in said)]))
    if told := verdicts(experiment, result):
        parts.append("\n".join(["## Claims", "", *(f"- {s}" for s in told)]))
    parts.append(card_line(result.card))
    if stale := _stale(experiment, result.card):
        parts.append(stale)
    return "\n\n".join(parts)


def verdicts(experiment: Experiment, result: Result, evidence: bool = True) -> list[str]:
    """Return a sentence for each claim that the experiment has a rule for.

    Args:
        experiment: has the rules.
        result: rows and card.
        evidence: whether to name the numbers that a verdict rests on, and the scale.
    """
    judged: list[Verdict] = [rule(result) for rule in experiment.verdicts.values()]
    return [sentence(verdict, CLAIMS.get(verdict.claim), evidence) for verdict in judged]


def statements(experiment: Experiment, result: Result, evidence: bool = True) -> list[str]:
    """Return what the numbers say: a sentence for each verdict, then those that describe."""
    described = () if experiment.sentences is None else experiment.sentences(result)
    return [*verdicts(experiment, result, evidence), *described]


def table_of(experiment: Experiment, wanted: Table, result: Result, baseline: Any = None) -> str:
    """Return one table of an experiment: means, or with a baseline differences and verdicts."""
    return table(
        result,
        wanted.value,
        wanted.rows,
        columns=wanted.columns,
        where=wanted.where,
        baseline=baseline,
        threshold=wanted.smallest_effect,
        better=wanted.better,
        digits=wanted.digits,
        form=wanted.form,
        deterministic=experiment.deterministic,
    )


def _stale(experiment: Experiment, card: Mapping[str, Any]) -> str:
    preset = experiment.presets.get(card["preset"])
    if preset is not None and experiment.spec_id(preset) == card["spec_id"]:
        return ""
    return "Note: these rows were made with other settings than this version of the package has."


def card_line(card: Mapping[str, Any]) -> str:
    """Return one sentence about a run: preset, seeds, corpora, code, machine, date and cost."""
    code = f"commit {card['commit'][:10]}" if card["commit"] else f"version {card['version']}"
    code += " with local changes" if card["dirty"] else ""
    corpora = [
        f"{entry['name']} (stand-in, not the real corpus)" if entry["stand_in"] else entry["name"]
        for entry in card["data"]
    ]
    facts = [
        f"preset {card['preset']}",
        f"seeds {_ranges(card['seeds'])}",
        f"{card['cells']} cells" + (f" of {card['of_cells']}" if "of_cells" in card else ""),
        *([f"data {', '.join(corpora)}"] if corpora else []),
        code,
        f"torch {card['torch']}",
        f"{card['device']} ({card['cpu']})",
        card["date"][:10],
        f"{duration(card['cpu_seconds'])} of processor time",
    ]
    return "Run card: " + "; ".join(facts) + "."


def duration(seconds: float) -> str:
    """Return seconds, minutes or hours, whichever reads best."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _ranges(seeds: list[int]) -> str:
    """Return [0, 1, 2, 5] as "0-2, 5"."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts) or "none"
