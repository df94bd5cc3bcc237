"""Can a trained decoder act as a given filter, ``y(i) = sum_d K(d) x(i - d)``?

White noise in, filtered noise out, mean squared error over all positions. The filter's lag function
is of the kind that Jordan blocks have as modes; it is of unit norm over the training length, so
outputs grow with the context and only R² compares lengths.

A number times one fixed vector has nothing left after RMSNorm but its sign. The input map therefore
is affine here; ``input: linear`` is the paper's, kept as a control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ...models import Decoder, DecoderConfig
from ...training import TrainConfig, stream, train
from ...training.loop import Sampler
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .jordan_methods import make_kernel
from .lag_language import lag_weights
from .last_token import TOKENS_PER_BATCH
from .phase_lm import learned, target_frequency

TARGETS = {
    "seasonal_trend": "(0.35 + 0.9 x) cos wd + 0.25 sin wd",
    "damped_wave": "e^(-d/10,000) (cos wd + 0.75 x sin wd)",
}
BASELINE = "rope_trunc"
SMALLEST_EFFECT = 0.03


def filtered(signal: Tensor, weights: Tensor) -> Tensor:
    """``y(i) = sum_{d=1}^{i} K(d) x(i - d)``: the past alone, without the present.

    Args:
        signal: ``(batch, N)``.
        weights: ``(N - 1,)`` fp64, K at the lags 1 … N - 1.

    Returns:
        ``(batch, N)`` fp64.
    """
    steps = torch.arange(signal.shape[1])
    lags = steps[:, None] - steps
    toeplitz = torch.where(lags > 0, weights[(lags - 1).clamp(min=0)], 0.0)
    return signal.double() @ toeplitz.T


def signal_sampler(name: str, length: int, omega: float) -> Sampler:
    """Draws white noise and what the filter makes of it.

    Args:
        name, length, omega: as for :func:`lag_weights`; ``length`` is the training length.

    Returns:
        ``(generator, batch, N) -> (x, y)``, both ``(batch, N, 1)`` fp32.
    """

    def sample(generator: torch.Generator, batch: int, n: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(batch, n, generator=generator)
        y = filtered(x, lag_weights(name, n - 1, length, omega))
        return x[..., None], y.float()[..., None]

    return sample


def make_model(settings: Mapping[str, Any], method: str, affine: bool, seed: int) -> Decoder:
    """A decoder from numbers to numbers, ``(B, N, 1) -> (B, N, 1)``.

    Args:
        settings: ``width heads layers length``.
        method: one of ``METHODS``.
        affine: whether the input map has a bias, which keeps magnitudes through RMSNorm.
        seed: of the initial weights; equal for all methods.
    """
    width, heads = settings["width"], settings["heads"]
    config = DecoderConfig(
        vocab=1,  # one output
        width=width,
        layers=settings["layers"],
        heads=heads,
        length=settings["length"],
        mlp_ratio=2,
        tied=False,
        kernel=make_kernel(method, width // heads, heads, settings["length"]).spec,
    )
    model = Decoder(config, seed=seed)
    model.embedding = nn.Linear(1, width, bias=affine)
    draw = stream(seed, "input map")
    for parameter in model.embedding.parameters():
        nn.init.uniform_(parameter, -1.0, 1.0, generator=draw)
    return model


@torch.no_grad()
def score(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    """R² and mean squared error over all sequences and positions.

    Args:
        model: ``(B, N, 1)`` to ``(B, N, 1)``.
        x, y: ``(n, N, 1)``.

    Returns:
        ``r2``, ``1 - sum (y - f)² / sum (y - mean y)²``, and ``mse``.
    """
    device = next(model.parameters()).device
    rows = max(1, TOKENS_PER_BATCH // x.shape[1])
    found = torch.cat([model(part.to(device)).float().cpu() for part in x.split(rows)])
    error = (found.double() - y.double()).square().mean()
    return {"r2": float(1 - error / y.double().var(correction=0)), "mse": float(error)}


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, key = context.settings, cell.key
    length = settings["length"]
    sample = signal_sampler(key["target"], length, target_frequency(settings))
    affine = key["input"] == "affine"
    model = make_model(settings, key["method"], affine, cell.seed).to(context.device)
    training = train(
        model,
        sample,
        TrainConfig(length=length, **settings["training"]),
        seed=cell.seed,
        out=context.workdir,
        progress=context.progress,
        loss=mse_loss,
    )
    constant = {
        **key,
        **learned([block.attention.kernel for block in model.blocks], length),
        "train_loss": training.rows[-1]["loss"],
    }
    rows = []
    for n in settings["lengths"]:
        exam = sample(stream(cell.seed, "exam", n), settings["sequences"], n)
        rows.append({**constant, "length": n, "times": n // length, **score(model, *exam)})
    return rows


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell({"target": target, "input": kind, "method": method, "seed": seed})
        for target in preset.settings["targets"]
        for kind, methods in preset.settings["inputs"].items()
        for seed in seeds
        for method in methods
    ]


def _settings(length: int, steps: int, batch: int, **changes: Any) -> dict[str, Any]:
    return {
        "width": 128,
        "heads": 4,
        "layers": 2,
        "target_index": 3,
        "length": length,
        "lengths": [length, 2 * length, 4 * length, 8 * length],
        "sequences": 64,
        "targets": list(TARGETS),
        "inputs": {
            "affine": [
                "none",
                "rope",
                "rope_trunc",
                "rope_alibi",
                "direct_sum",
                "direct_sum_grid",
                "stabilized",
                "exact",
            ],
            "linear": ["rope_trunc", "stabilized"],
        },
        "training": {
            "steps": steps,
            "batch": batch,
            "lr": 1e-3,
            "weight_decay": 0.01,
            "clip": 1.0,
            "position_lr": 0.1,  # as in phase_lm
            "checkpoint_every": 100,
        },
        **changes,
    }


def _table(target: str, kind: str) -> Table:
    return Table(
        f"R², filter {TARGETS[target]}, {kind} input map",
        value="r2",
        columns="length",
        where={"target": target, "input": kind},
        better="higher",
        smallest_effect=SMALLEST_EFFECT,
    )


EXPERIMENT = Experiment(
    name="signal_regression",
    question="Can a trained decoder act as a filter whose lag function a Jordan block has as modes?",
    claims=("J-K2",),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=_settings(
                32,
                steps=120,
                batch=8,
                width=32,
                heads=2,
                target_index=1,
                sequences=16,
                targets=["seasonal_trend"],
                inputs={"affine": ["rope_trunc", "stabilized"]},
            ),
            cost="4 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2, 3, 4),
            settings=_settings(128, steps=300, batch=16),
            cost="50 core-minutes",
        ),
        "paper": Preset(
            "paper",
            seeds=(0, 1, 2),
            settings=_settings(512, steps=300, batch=8, layers=3),
            cost="not run yet; about 5 core-hours",
        ),
    },
    cells=_cells,
    run_cell=_run_cell,
    baseline=BASELINE,
    tables=tuple(_table(target, kind) for target in TARGETS for kind in ("affine", "linear")),
)
