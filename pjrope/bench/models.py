"""Sections training and evaluation: the byte model as a user runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor

from ..experiments.text.byte_lm import make_model
from ..models import Decoder
from ..training import TrainConfig, train
from ..training.evaluation import token_losses
from .cases import make_kernel
from .pairing import Contestant, Run, rows_of
from .peers import PerPair, check_per_pair
from .settings import Settings

__all__ = ["evaluation", "make_decoder", "training"]

SHAPE = {"width": 96, "layers": 2, "heads": 4, "length": 1024}
BYTES = 256
EAGER, PER_PAIR = "full, backend eager", "full, kernel evaluated per pair"


def make_decoder(name: str, settings: Settings) -> Decoder:
    """The byte model with one of the benchmark's kernels; every backbone has the same bits."""
    config = make_model("none", SHAPE, BYTES, seed=0).config
    head_dim = config.width // config.heads
    fitting = replace(settings, heads=config.heads, head_dim=head_dim)
    config = replace(config, kernel=make_kernel(name, fitting).spec)
    return Decoder(config, seed=0).to(settings.device)


def _eager(model: Decoder) -> None:
    for layer in model.attention_layers:
        layer.backend = "eager"


def _per_pair(model: Decoder) -> None:
    for block, layer in zip(model.blocks, model.attention_layers, strict=True):
        block.attention = PerPair(layer)


def _tokens(n: int) -> Tensor:
    return torch.randint(BYTES, (n,), generator=torch.Generator().manual_seed(n))


def training(settings: Settings) -> Iterator[dict[str, Any]]:
    """Rows of training steps: kernels against none, and ``full`` against slower ways to it."""
    for n, batch in settings.training:
        tokens = _tokens(8 * n * batch)
        config = TrainConfig(steps=settings.steps, batch=batch, length=n)

        def contestant(
            kernel: str,
            name: str = "",
            change: Callable[[Decoder], None] | None = None,
            tokens: Tensor = tokens,
            config: TrainConfig = config,
        ) -> Contestant:
            def prepare() -> Run:
                if change is _per_pair:
                    check_per_pair(settings)
                model = make_decoder(kernel, settings)
                if change is not None:
                    change(model)
                return lambda: train(model, tokens, config, seed=0, progress=False)

            return Contestant(name or kernel, prepare, "" if name else "auto")

        kernels = [contestant(name) for name in settings.kernels]
        slower = [contestant("full", EAGER, _eager), contestant("full", PER_PAIR, _per_pair)]
        races = [
            (contestant("none"), kernels),
            *((other, [contestant("full")]) for other in slower),
        ]
        for reference, others in races:
            rows = rows_of("training", reference, others, settings, n=n, batch=batch)
            yield from (_with_speed(row, settings.steps * n * batch) for row in rows)


def _with_speed(row: dict[str, Any], tokens: int) -> dict[str, Any]:
    """The row with tokens per second of both sides, from the median of their seconds."""
    if row["skipped"]:
        return row
    speeds = {
        f"{side}tokens_per_second": tokens / median(row[f"{side}seconds"])
        for side in ("", "reference_")
    }
    return {**row, **speeds}


def evaluation(settings: Settings) -> Iterator[dict[str, Any]]:
    """Rows of the loss of one long sequence, against the model without position."""
    for n in settings.evaluated:
        windows = _tokens(n + 1)[None]

        def contestant(name: str, windows: Tensor = windows) -> Contestant:
            def prepare() -> Run:
                model = make_decoder(name, settings)
                return lambda: token_losses(model, windows)

            return Contestant(name, prepare, "auto")

        others = [contestant(name) for name in settings.kernels]
        yield from rows_of("evaluation", contestant("none"), others, settings, n=n, batch=1)
