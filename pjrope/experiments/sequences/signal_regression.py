"""Can a trained decoder act as a given filter, ``y(i) = sum_d K(d) x(i - d)``?

White noise in, filtered noise out, mean squared error over all positions. The filter's lag function
is of the kind that Jordan blocks have as modes; it is of unit norm over the training length, so
outputs grow with the context and only R² compares lengths.

A number times one fixed vector has nothing left after RMSNorm but its sign. The input map therefore
is affine here; ``input: linear`` is the paper's, kept as a control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ...diagnostics.views import kernels_by_layer
from ...models import Decoder
from ...training import stream
from ...training.loop import Sampler
from ..analysis.claims import SMALLEST_EFFECT
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .claims import claim_k2
from .language import lag_weights
from .methods import kernel_of, learned
from .phase_lm import target_frequency
from .training import (
    by_length,
    decoder,
    exams,
    fit,
    outputs,
    presets,
    settings_of,
)

TARGETS = {
    "seasonal_trend": "(0.35 + 0.9 x) cos wd + 0.25 sin wd",
    "damped_wave": "e^(-d/10,000) (cos wd + 0.75 x sin wd)",
}


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
    width, kernel = settings["width"], kernel_of(method, settings)
    model = decoder(settings, kernel, 1, seed, tied=False)  # one output
    model.add_module("embedding", nn.Linear(1, width, bias=affine))
    draw = stream(seed, "input map")
    for parameter in model.embedding.parameters():
        nn.init.uniform_(parameter, -1.0, 1.0, generator=draw)
    return model


def score(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    """R² and mean squared error over all sequences and positions.

    Args:
        model: ``(B, N, 1)`` to ``(B, N, 1)``.
        x, y: ``(n, N, 1)``.

    Returns:
        ``r2``, ``1 - sum (y - f)² / sum (y - mean y)²``, and ``mse``.
    """
    error = (outputs(model, x).double() - y.double()).square().mean()
    return {"r2": float(1 - error / y.double().var(correction=0)), "mse": float(error)}


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, key = context.settings, cell.key
    length = settings["length"]
    sample = signal_sampler(key["target"], length, target_frequency(settings))
    affine = key["input"] == "affine"
    model = make_model(settings, key["method"], affine, cell.seed).to(context.device)
    loss = fit(model, sample, cell, context, loss=mse_loss)
    kernels = [kernel for _, kernel in kernels_by_layer(model)]
    constant = {**key, **learned(kernels, length), "train_loss": loss}
    return by_length(constant, exams(sample, cell, settings), length, partial(score, model))


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell({"target": target, "input": kind, "method": method, "seed": seed})
        for target in preset.settings["targets"]
        for kind, methods in preset.settings["inputs"].items()
        for seed in seeds
        for method in methods
    ]


AFFINE = (
    "none",
    "rope",
    "rope_trunc",
    "rope_alibi",
    "direct_sum",
    "direct_sum_grid",
    "stabilized",
    "exact",
)


def _settings(length: int, steps: int, batch: int, **changes: Any) -> dict[str, Any]:
    own = {
        "width": 128,
        "heads": 4,
        "target_index": 3,
        "sequences": 64,
        "targets": list(TARGETS),
        "inputs": {"affine": list(AFFINE), "linear": ["rope_trunc", "stabilized"]},
    }
    return settings_of(length, {"steps": steps, "batch": batch, "lr": 1e-3}, **{**own, **changes})


SMALL = {
    "width": 32,
    "heads": 2,
    "target_index": 1,
    "sequences": 16,
    "targets": ["seasonal_trend"],
    "inputs": {"affine": ["rope_trunc", "stabilized"]},
}


def _table(target: str, kind: str) -> Table:
    return Table(
        f"R², filter {TARGETS[target]}, {kind} input map",
        value="r2",
        columns="length",
        where={"target": target, "input": kind},
        better="higher",
        smallest_effect=SMALLEST_EFFECT["r2"],
    )


EXPERIMENT = Experiment(
    name="signal_regression",
    question="Can a trained decoder act as a filter whose lag function a Jordan block has as modes?",
    claims=("J-K2",),
    presets=presets(
        Preset("smoke", (0,), _settings(32, 120, 8, **SMALL), "4 core-seconds"),
        Preset("book", (0, 1, 2, 3, 4), _settings(128, 300, 16), "50 core-minutes"),
        Preset(
            "paper", (0, 1, 2), _settings(512, 300, 8, layers=3), "not run yet; about 5 core-hours"
        ),
    ),
    cells=_cells,
    run_cell=_run_cell,
    baseline="rope_trunc",
    verdicts={"J-K2": claim_k2},
    tables=tuple(_table(target, kind) for target in TARGETS for kind in ("affine", "linear")),
)
