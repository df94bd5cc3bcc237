"""Does a trained decoder use a coupled mode, "distance times phase"?

The distance-modulated phase language: the answer to the last token is the sign of
``sum_d (d/L) cos(omega d) s(d)`` over random signs s(d) at lag d. A Jordan block of order 2 has
``d cos(omega d)`` among its modes; RoPE has the phase alone. Methods share backbone weights,
batches and exams. Grid ``phase_lm/mid`` asks the same at four times the length.

Departures from the paper: unit-norm embeddings instead of unit entries, no weight decay on
position parameters, at least 256 sequences an exam, drawn anew for every seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ...kernels import PositionKernel
from ...positions.frequencies import geometric
from ...training.loop import Sampler
from ..analysis.claims import SMALLEST_EFFECT
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .claims import claim_k4
from .language import lag_sampler
from .methods import kernel_of, learned
from .training import LastToken, by_length, decoder, examine, exams, fit, presets, settings_of

VOCAB = 3  # the two letters and QUERY
OTHERS = (
    "none",
    "rope_respread",
    "alibi",
    "rope_alibi",
    "damped",
    "damped_c1",
    "stabilized_no_gamma",
    "exact",
    "scaled",
    "lag",
    "stabilized_fast",
)
FAST = {"stabilized_fast": {"position_lr": 1.0}}  # position parameters learn as fast as the rest


def make_model(settings: Mapping[str, Any], kernel: PositionKernel, seed: int) -> LastToken:
    """A decoder that answers with one of the two letters behind its last token.

    Args:
        settings: ``width``, ``heads``, ``layers`` and ``length``.
        kernel: of every layer; backbones of equal seeds are equal bit for bit.
        seed: of the initial weights.
    """
    return LastToken(decoder(settings, kernel, VOCAB, seed), answers=2)


def target_frequency(settings: Mapping[str, Any]) -> float:
    """The target's frequency, one of the head's own RoPE ladder, radians per token."""
    head_dim = settings["width"] // settings["heads"]
    return float(geometric(head_dim)[settings["target_index"]])


def train_language(
    cell: Cell, context: CellContext, target: str, kernel: PositionKernel, **changes: Any
) -> tuple[LastToken, Sampler, dict[str, Any]]:
    """Train one model on the language of a target.

    Args:
        cell: its seed draws everything.
        context: settings ``width heads layers length target_index training``.
        target: one of ``LAG_FUNCTIONS``.
        kernel: of every layer.
        changes: to the settings of training, for this cell alone.

    Returns:
        the model, what draws its language, and ``shear``, ``damping`` and ``train_loss``.
    """
    settings = context.settings
    length = settings["length"]
    sample = lag_sampler(target, length, target_frequency(settings))
    model = make_model(settings, kernel, cell.seed).to(context.device)
    loss = fit(model, sample, cell, context, **changes)
    return model, sample, {**learned(model.kernels, length), "train_loss": loss}


def run_language(
    cell: Cell, context: CellContext, target: str, kernel: PositionKernel, **changes: Any
) -> list[dict[str, Any]]:
    """Train as :func:`train_language` does, examine at all ``lengths``: a row for each."""
    model, sample, found = train_language(cell, context, target, kernel, **changes)
    return by_length(
        {**cell.key, **found},
        exams(sample, cell, context.settings),
        context.settings["length"],
        partial(examine, model),
    )


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    method = cell.key["method"]
    kernel = kernel_of(method, context.settings)
    return run_language(cell, context, "mixed_raw", kernel, **FAST.get(method, {}))


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    """Every seed runs ``methods``; seeds below ``other_seeds`` run ``other_methods`` too."""
    settings = preset.settings
    return [
        Cell({"method": method, "seed": seed})
        for seed in seeds
        for method in (
            *settings["methods"],
            *(settings["other_methods"] if seed < settings["other_seeds"] else ()),
        )
    ]


def _settings(length: int, steps: int, batch: int, lr: float, **changes: Any) -> dict[str, Any]:
    """The model of the protocol, with what changes between presets."""
    own = {
        "width": 128,
        "heads": 4,
        "target_index": 3,
        "methods": ["rope", "rope_trunc", "direct_sum", "direct_sum_grid", "stabilized"],
        "other_methods": [],
        "other_seeds": 0,
    }
    return settings_of(length, {"steps": steps, "batch": batch, "lr": lr}, **{**own, **changes})


SMALL = {"width": 32, "heads": 2, "target_index": 1, "methods": ["rope_trunc", "stabilized"]}
SMOKE = Preset("smoke", (0,), _settings(32, 120, 32, 3e-3, **SMALL), "5 core-seconds")
BOOK = _settings(128, 350, 32, 1e-3, other_methods=list(OTHERS), other_seeds=5)
PAPER = _settings(1024, 1200, 24, 5e-4, layers=3)
DECISIVE = ["rope_trunc", "direct_sum_grid", "stabilized"]


def _experiment(name: str, *sizes: Preset) -> Experiment:
    return Experiment(
        name=name,
        question=(
            "Does a trained decoder use the coupled mode, distance times phase, and does that "
            "carry it beyond the training length?"
        ),
        claims=("J-K4",),
        presets=presets(SMOKE, *sizes),
        cells=_cells,
        run_cell=_run_cell,
        baseline="rope_trunc",
        tables=(
            Table(
                "Accuracy of the answers by length (chance 0.5)",
                value="accuracy",
                columns="length",
                better="higher",
                smallest_effect=SMALLEST_EFFECT["accuracy"],
            ),
            Table("Loss of the answers, nats (a fair coin: 0.693)", "loss", columns="length"),
            Table(
                "Learned shear over the training length, mean |eta| t",
                "shear",
                where={"times": 1},
            ),
            Table(
                "Learned damping over the training length, mean gamma L",
                "damping",
                where={"times": 1},
            ),
        ),
        verdicts={"J-K4": claim_k4},
    )


EXPERIMENT = _experiment(
    "phase_lm",
    Preset("book", tuple(range(16)), BOOK, "about 2 core-hours"),
    Preset("paper", (0,), PAPER, "about one core-hour a cell, five cells"),
)

MID = _experiment(
    "phase_lm/mid",
    Preset(
        "book", (0, 1, 2), _settings(512, 220, 16, 1e-3, methods=DECISIVE), "about 30 core-minutes"
    ),
)
