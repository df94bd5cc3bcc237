"""Two toy questions to one small decoder: one needs order, the other does not.

*order*: at every step, say which symbol stood ``lag`` steps back. *needle*: one symbol of the past
is marked; say which at the end. A model without position sees its past as a bag: it can answer the
second question and not the first, as far as the causal mask alone does not help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...kernels import NoPE, RoPE
from ...models import Decoder
from ..analysis.claims import SMALLEST_EFFECT
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .training import decoder, exams, fit, presets

SYMBOLS = 16  # plain symbols; the marked ones follow, then the question mark
QUESTION = 2 * SYMBOLS
IGNORED = -100


def order_batch(
    generator: torch.Generator, batch: int, length: int, lag: int
) -> tuple[Tensor, Tensor]:
    """Random symbols, and at each step the symbol ``lag`` steps back as the target.

    Returns:
        inputs and targets, both ``(batch, length)`` int64; the first ``lag`` are not scored.
    """
    tokens = torch.randint(SYMBOLS, (batch, length), generator=generator)
    targets = torch.full_like(tokens, IGNORED)
    targets[:, lag:] = tokens[:, :-lag]
    return tokens, targets


def needle_batch(generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Random symbols with one of them marked, and a question at the end: which was it?

    Returns:
        inputs and targets, both ``(batch, length)`` int64; only the last step is scored.
    """
    tokens = torch.randint(SYMBOLS, (batch, length), generator=generator)
    place = torch.randint(length - 1, (batch, 1), generator=generator)
    needle = tokens.gather(1, place)
    tokens.scatter_(1, place, needle + SYMBOLS)
    tokens[:, -1] = QUESTION
    targets = torch.full_like(tokens, IGNORED)
    targets[:, -1:] = needle
    return tokens, targets


def make_model(method: str, layers: int, settings: Mapping[str, Any], seed: int) -> Decoder:
    """One small decoder with or without RoPE."""
    kernel = RoPE(settings["width"] // settings["heads"]) if method == "rope" else NoPE()
    return decoder({**settings, "layers": layers}, kernel, 2 * SYMBOLS + 1, seed)


def bag_ceiling(tokens: Tensor, lag: int) -> float:
    """Best accuracy on the order task for a reader who sees the past as a bag.

    At step t the target is any of the t symbols before it, all alike: guess the most frequent.

    Args:
        tokens: ``(batch, length)``.
        lag: first scored step.
    """
    counts = torch.nn.functional.one_hot(tokens, SYMBOLS).cumsum(1)  # of steps 0 … t
    most = counts.amax(-1)[:, lag - 1 : -1].double()  # of the t symbols before step t
    return float((most / torch.arange(lag, tokens.shape[1])).mean())


@torch.no_grad()
def accuracy(model: Decoder, inputs: Tensor, targets: Tensor) -> float:
    """Share of scored steps whose most likely symbol is the target."""
    device = next(model.parameters()).device
    guesses = model(inputs.to(device)).argmax(-1).cpu()
    scored = targets != IGNORED
    return float((guesses[scored] == targets[scored]).double().mean())


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell({"task": task, "layers": layers, "method": method, "seed": seed})
        for task in ("order", "needle")
        for layers in preset.settings["layers"]
        for method in ("none", "rope")
        for seed in seeds
    ]


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, key = context.settings, cell.key

    def sample(generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        if key["task"] == "order":
            return order_batch(generator, batch, length, settings["lag"])
        return needle_batch(generator, batch, length)

    model = make_model(key["method"], key["layers"], settings, cell.seed).to(context.device)
    fit(model, sample, cell, context)
    return [
        {
            **key,
            "length": length,
            "accuracy": accuracy(model, *exam),
            "bag": bag_ceiling(exam[0], settings["lag"]) if key["task"] == "order" else 1.0,
        }
        for length, exam in exams(sample, cell, settings).items()
    ]


def _settings(steps: int, sequences: int, layers: list[int], lengths: list[int]) -> dict[str, Any]:
    return {
        "width": 32,
        "heads": 2,
        "layers": layers,
        "lag": 3,
        "length": 32,
        "lengths": lengths,
        "sequences": sequences,
        "training": {"steps": steps, "batch": 32, "lr": 1e-2, "warmup": 10, "final_lr": 0.1},
    }


def _table(task: str, layers: int) -> Table:
    return Table(
        f"Accuracy, task {task}, layers {layers} (chance 1/{SYMBOLS})",
        value="accuracy",
        columns="length",
        where={"task": task, "layers": layers},
        better="higher",
        smallest_effect=SMALLEST_EFFECT["accuracy"],
    )


EXPERIMENT = Experiment(
    name="order_toy",
    question="Which questions about the past can a decoder answer without position, and which not?",
    claims=(),
    presets=presets(
        Preset("smoke", (0,), _settings(200, 256, [1], [32]), "3 core-seconds"),
        Preset(
            "book",
            (0, 1, 2, 3, 4),
            _settings(1000, 1024, [1, 2, 4], [32, 128]),
            "about 10 core-minutes",
        ),
        Preset(
            "paper",
            tuple(range(16)),
            _settings(4000, 1024, [1, 2, 4], [32, 128, 512]),
            "not run yet; about 2 core-hours",
        ),
    ),
    cells=_cells,
    run_cell=_run_cell,
    baseline="none",
    tables=tuple(_table(task, layers) for task in ("order", "needle") for layers in (1, 2, 4)),
)
