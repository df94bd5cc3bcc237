"""One cell of the teachers' grids: learn a language, be examined, say what the kernel became."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....diagnostics import kernels_by_layer
from ...engine.spec import Cell, CellContext, Preset
from ..training import examine, exams, fit
from .judging import FAST, PLAIN
from .language import Language, majority_accuracy
from .methods import OMEGA_RATES, make_model
from .readouts import learned


def run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    """Train one model on its teacher's language and examine it at every length.

    Returns:
        a row a length; that of the training length also says what the kernel became.
    """
    settings, key = context.settings, cell.key
    length = settings["length"]
    language = Language(key["teacher"], key["sharpness"], length, settings["cycles"])
    sample = language.sampler(key["threshold"])
    papers = exams(sample, cell, settings)
    about = {
        n: {
            **key,
            "task": language.name,
            "length": n,
            "times": n // length,
            "support": language.support(n - 1),
        }
        for n in papers
    }
    if key["method"] == "majority":
        return [about[n] | {"accuracy": majority_accuracy(*exam)} for n, exam in papers.items()]
    model = make_model(key, settings, language).to(context.device)
    kernels = [kernel for _, kernel in kernels_by_layer(model)]
    before = copy.deepcopy(kernels)
    about[length]["train_loss"] = fit(
        model,
        sample,
        cell,
        context,
        resume=False,  # a cell takes seconds, and a killed one starts afresh
        position_lr=key["position_lr"],
        gate_lr=key.get("gate_lr", FAST),
        omega_lr=OMEGA_RATES[key["omega"]],
    )
    about[length] |= learned(before, kernels, key["teacher"], (length, max(papers)))
    return [about[n] | examine(model, *exam) for n, exam in papers.items()]


def _keys(group: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    factors = {name: group.get(name, (default,)) for name, default in PLAIN.items()}
    if "gate_lr" in group:  # else it stays out of the key, as in the cells of the first record
        factors["gate_lr"] = group["gate_lr"]
    for (teacher, sharpness), method, *values in itertools.product(
        group["teachers"], group["methods"], *factors.values()
    ):
        yield {
            "teacher": teacher,
            "sharpness": sharpness,
            "method": method,
            **dict(zip(factors, values, strict=True)),
            "seed": seed,
        }


def cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    """All combinations of each group of the settings; what two groups share runs once."""
    found = [
        Cell(key)
        for seed in seeds
        for group in preset.settings["groups"]
        for key in _keys(group, seed)
    ]
    return list({cell.id: cell for cell in found}.values())
