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
from typing import Any

import torch
from torch import nn

from ...kernels import PositionKernel
from ...kernels.jordan_action import JordanAction
from ...models import Decoder, DecoderConfig
from ...positions.frequencies import geometric
from ...training import TrainConfig, stream, train
from ..analysis.words import listed
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .jordan_methods import make_kernel
from .lag_language import lag_sampler
from .last_token import LastToken, examine
from .phase_claim import CONTROLS, SMALLEST_EFFECT, claim_k4

__all__ = [
    "CONTROLS",
    "EXPERIMENT",
    "MID",
    "claim_k4",
    "learned",
    "listed",
    "make_model",
    "run_language",
    "target_frequency",
]

VOCAB = 3  # the two letters and QUERY
BASELINE = "rope_trunc"
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
    config = DecoderConfig(
        vocab=VOCAB,
        width=settings["width"],
        layers=settings["layers"],
        heads=settings["heads"],
        length=settings["length"],
        mlp_ratio=2,
        kernel=kernel.spec,
    )
    return LastToken(Decoder(config, seed=seed), answers=2)


def target_frequency(settings: Mapping[str, Any]) -> float:
    """The target's frequency, one of the head's own RoPE ladder, radians per token."""
    head_dim = settings["width"] // settings["heads"]
    return float(geometric(head_dim)[settings["target_index"]])


@torch.no_grad()
def learned(kernels: Sequence[nn.Module], length: int) -> dict[str, float]:
    """What became of shear and damping, as means over layers, heads and blocks.

    Args:
        kernels: the position kernel of each layer.
        length: L, tokens.

    Returns:
        ``shear``, mean of ``|eta| t`` between tokens 0 and L, and ``damping``, mean of ``gamma L``;
        0 where a kernel has none.
    """
    parts = [p for kernel in kernels for p in kernel.modules() if isinstance(p, JordanAction)]
    # Between tokens 0 and L a bounded shear reaches tau(L) = L/2.
    end = torch.tensor(length)
    shear = [
        float(p.eta.abs().mean()) * float(p.shear.time(end)) for p in parts if p.eta is not None
    ]
    damping = [float(p.gamma.mean()) * p.per_token * length for p in parts if p.gamma is not None]
    return {
        "shear": sum(shear) / len(shear) if shear else 0.0,
        "damping": sum(damping) / len(damping) if damping else 0.0,
    }


def run_language(
    cell: Cell, context: CellContext, target: str, kernel: PositionKernel, **changes: Any
) -> list[dict[str, Any]]:
    """Train one model on the language of a target and examine it at every length.

    Args:
        cell: its key enters every row, its seed draws everything.
        context: settings ``width heads layers length target_index lengths sequences training``.
        target: one of ``LAG_FUNCTIONS``.
        kernel: of every layer.
        changes: to the training settings, for this cell alone.
    """
    settings = context.settings
    length = settings["length"]
    sample = lag_sampler(target, length, target_frequency(settings))
    model = make_model(settings, kernel, cell.seed).to(context.device)
    training = train(
        model,
        sample,
        TrainConfig(length=length, **{**settings["training"], **changes}),
        seed=cell.seed,
        out=context.workdir,
        progress=context.progress,
    )
    constant = {
        **cell.key,
        **learned(model.kernels, length),
        "train_loss": training.rows[-1]["loss"],
    }
    rows = []
    for n in settings["lengths"]:
        exam = sample(stream(cell.seed, "exam", n), settings["sequences"], n)
        rows.append({**constant, "length": n, "times": n // length, **examine(model, *exam)})
    return rows


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings = context.settings
    heads, length = settings["heads"], settings["length"]
    method = cell.key["method"]
    kernel = make_kernel(method, settings["width"] // heads, heads, length)
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
    return {
        "width": 128,
        "heads": 4,
        "layers": 2,
        "target_index": 3,
        "length": length,
        "lengths": [length, 2 * length, 4 * length, 8 * length],
        "sequences": 256,
        "methods": ["rope", "rope_trunc", "direct_sum", "direct_sum_grid", "stabilized"],
        "other_methods": [],
        "other_seeds": 0,
        "training": {
            "steps": steps,
            "batch": batch,
            "lr": lr,
            "weight_decay": 0.01,
            "clip": 1.0,
            "position_lr": 0.1,  # the paper's shear is 0.1 tanh(h), with the rate of all else for h
            "checkpoint_every": 100,
        },
        **changes,
    }


SMOKE = Preset(
    "smoke",
    seeds=(0,),
    settings=_settings(
        32,
        steps=120,
        batch=32,
        lr=3e-3,
        width=32,
        heads=2,
        target_index=1,
        methods=["rope_trunc", "stabilized"],
    ),
    cost="5 core-seconds",
)

_TABLES = (
    Table(
        "Accuracy of the answers by length (chance 0.5)",
        value="accuracy",
        columns="length",
        better="higher",
        smallest_effect=SMALLEST_EFFECT,
    ),
    Table("Loss of the answers, nats (a fair coin: 0.693)", value="loss", columns="length"),
    Table("Learned shear over the training length, mean |eta| t", "shear", where={"times": 1}),
    Table("Learned damping over the training length, mean gamma L", "damping", where={"times": 1}),
)

_QUESTION = (
    "Does a trained decoder use the coupled mode, distance times phase, and does that carry it "
    "beyond the training length?"
)

EXPERIMENT = Experiment(
    name="phase_lm",
    question=_QUESTION,
    claims=("J-K4",),
    presets={
        "smoke": SMOKE,
        "book": Preset(
            "book",
            seeds=tuple(range(16)),
            settings=_settings(
                128, steps=350, batch=32, lr=1e-3, other_methods=list(OTHERS), other_seeds=5
            ),
            cost="about 2 core-hours",
        ),
        "paper": Preset(
            "paper",
            seeds=(0,),
            settings=_settings(1024, steps=1200, batch=24, lr=5e-4, layers=3),
            cost="about one core-hour a cell, five cells",
        ),
    },
    cells=_cells,
    run_cell=_run_cell,
    baseline=BASELINE,
    tables=_TABLES,
    sentences=claim_k4,
)

MID = Experiment(
    name="phase_lm/mid",
    question=_QUESTION,
    claims=("J-K4",),
    presets={
        "smoke": SMOKE,
        "book": Preset(
            "book",
            seeds=(0, 1, 2),
            settings=_settings(
                512,
                steps=220,
                batch=16,
                lr=1e-3,
                methods=["rope_trunc", "direct_sum_grid", "stabilized"],
            ),
            cost="about 30 core-minutes",
        ),
    },
    cells=_cells,
    run_cell=_run_cell,
    baseline=BASELINE,
    tables=_TABLES,
    sentences=claim_k4,
)
