"""Byte models trained until their curve is flat: what the grids on language share.

A cell trains one method at one learning rate on one corpus, keeps its curve, and scores the same
segments at every length. Two counted lines, unigram and bigram, are scored on the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...data import Corpus, evaluation_windows, load_or_stand_in
from ...data.batches import EvaluationWindows
from ...diagnostics import kernels_by_layer
from ...models import Decoder
from ...training import TrainConfig, evaluate, token_losses, train
from ..engine.spec import Cell, CellContext, CellResult, Preset, Table
from .byte_lm import card_of, make_model
from .lines import bigram_losses, unigram_losses
from .methods import learned_slopes

LINES = ("unigram", "bigram")
# What each method learns with: the better of 3e-3 and 1e-2 in an earlier trial of four methods on
# WikiText-2. Its seed 0 is among those reported, so the rate is not chosen apart from them; the grid
# byte_lm/rates asks whether another serves a method better.
RATE = 1e-2
RATES: Mapping[str, float] = {}
SHOWN_LAGS = (*range(16), 20, 24, 32, 48, 64, 96, 127)


DECAYED = {"final_lr": 0.0, "clip": 1.0}  # of every training here: along a cosine, down to nothing


def book_settings(corpus: str, split: str, steps: int = 4000) -> dict[str, Any]:
    """The byte model of the protocol, trained at L = 128, read to 64 L on a split."""
    return {
        "corpus": corpus,
        "split": split,
        "width": 96,
        "layers": 2,
        "heads": 4,
        "length": 128,
        "lengths": [128, 512, 2048, 8192],
        "segments": 24,
        "scored": 512,
        "watched": 64,
        "training": DECAYED
        | {"steps": steps, "batch": 16, "warmup": 100, "log_every": steps // 20},
    }


SMOKE_SETTINGS: dict[str, Any] = {
    "corpus": "toy_language",
    "split": "validation",
    "width": 32,
    "layers": 1,
    "heads": 2,
    "length": 64,
    "lengths": [64, 256],
    "segments": 8,
    "scored": 64,
    "watched": 8,
    "training": DECAYED | {"steps": 40, "batch": 8, "warmup": 5, "log_every": 20},
}


def corpus_card(preset: Preset) -> list[dict[str, Any]]:
    """The corpora that the cells of a preset read."""
    settings = preset.settings
    names = settings["corpora"] if "corpora" in settings else (settings["corpus"],)
    return [entry for name in names for entry in card_of(load_or_stand_in(name))]


def cells(methods: Sequence[str], seeds: Sequence[int], **more: Any) -> list[Cell]:
    """Seed by seed, the counted lines first; each method at its own rate.

    Args:
        methods: trained, in this order.
        seeds: as given to the grid.
        more: further fields of every key, such as the corpus.
    """
    found = []
    for seed in seeds:
        found.append(Cell({"method": list(LINES), **more, "seed": seed}))
        found += [
            Cell({"method": m, "rate": RATES.get(m, RATE), **more, "seed": seed}) for m in methods
        ]
    return found


def run_cell(cell: Cell, context: CellContext) -> CellResult:
    """Rows of kind "loss" by length, "training" (the curve), and "bias" where one is learned."""
    settings = context.settings
    corpus = load_or_stand_in(cell.key.get("corpus", settings.get("corpus")))
    windows = scored_windows(corpus, settings)
    own = {"corpus": cell.key["corpus"]} if "corpus" in cell.key else {}
    if cell.key["method"] == LINES:
        lines = _lines(corpus, windows, settings)
        return CellResult([own | {"seed": cell.seed} | row for row in lines], data=card_of(corpus))
    method = cell.key["method"]
    model = make_model(method, settings, corpus.vocab_size, cell.seed).to(context.device)
    training = fit(model, corpus, cell, context, lr=cell.key["rate"])
    found = [loss_row(row) for row in evaluate(model, windows, lengths=settings["lengths"])]
    constant = {"method": method, "seed": cell.seed, "rate": cell.key["rate"], **own}
    kinds = {"loss": found, "training": [training], "bias": bias_rows(model, settings["length"])}
    rows = [constant | {"kind": kind} | row for kind, of in kinds.items() for row in of]
    return CellResult(rows, data=card_of(corpus))


def scored_windows(corpus: Corpus, settings: Mapping[str, Any]) -> EvaluationWindows:
    """The segments that are scored at every length."""
    return evaluation_windows(
        corpus.split(settings["split"]),
        segments=settings["segments"],
        scored=settings["scored"],
        longest=max(settings["lengths"]),
    )


def fit(
    model: Decoder, corpus: Corpus, cell: Cell, context: CellContext, **own: float
) -> dict[str, Any]:
    """Train a model; its curve on training text and on held-out text, step by step.

    Args:
        model: trained in place.
        corpus: its training text, and its validation text for the curve.
        cell, context: seed, settings and folder.
        own: of :class:`~pjrope.training.TrainConfig`, beside the settings: the rate and the like.
    """
    settings = context.settings
    held_out = evaluation_windows(
        corpus.validation,
        segments=settings["watched"],
        scored=settings["length"] // 2,
        longest=settings["length"],
    ).windows(settings["length"])[0]
    config = TrainConfig(length=settings["length"], **{**settings["training"], **own})
    rows = train(
        model,
        corpus.train,
        config,
        seed=cell.seed,
        out=context.workdir,
        progress=context.progress,
        watch=lambda net: float(token_losses(net, held_out).double().mean()),
    ).rows
    return {
        "steps": [row["step"] for row in rows],
        "train_losses": [_short(row["loss"]) for row in rows],
        "held_out_losses": [_short(row["watched"]) for row in rows],
        "held_out": _short(rows[-1]["watched"]),
        "tokens": config.steps * config.batch * config.length,
        "train_tokens": len(corpus.train),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def loss_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of :func:`~pjrope.training.evaluate`, with the standard error over its segments."""
    return {
        "length": row["length"],
        "loss": row["loss"],
        "segment_error": _error(row["segments"]),
        "segments": [_short(x) for x in row["segments"]],
        "positions": [b["to"] for b in row["buckets"]],
        "by_position": [_short(b["loss"]) for b in row["buckets"]],
    }


def _error(values: Sequence[float]) -> float:
    spread = float(torch.tensor(values, dtype=torch.float64).std())
    return _short(spread / math.sqrt(len(values)))


def _lines(
    corpus: Corpus, windows: EvaluationWindows, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Counted lines know one length; they are scored once and told at each."""
    at, vocab = windows.positions(max(settings["lengths"])), corpus.vocab_size
    rows = []
    for method, count in zip(LINES, (unigram_losses, bigram_losses), strict=True):
        losses: Tensor = count(corpus.train, windows.tokens, at, vocab)
        segments = losses.view(settings["segments"], -1).mean(1).tolist()
        row = {
            "method": method,
            "kind": "loss",
            "loss": float(losses.mean()),
            "segment_error": _error(segments),
            "segments": [_short(x) for x in segments],
        }
        rows += [row | {"length": n} for n in settings["lengths"]]
    return rows


@torch.no_grad()
def bias_rows(model: Decoder, length: int) -> list[dict[str, Any]]:
    """The learned bias of each layer and head at some lags; nothing where none learns."""
    lags = [d for d in SHOWN_LAGS if d < length]
    kernels = kernels_by_layer(model)
    slopes = learned_slopes(kernel for _, kernel in kernels)
    rows: list[dict[str, Any]] = []
    for layer, kernel in kernels:
        parameter = next(kernel.parameters(), None)
        bias = (
            None if parameter is None else kernel.lag_bias(torch.tensor(lags).to(parameter.device))
        )
        for head, values in enumerate([] if bias is None else bias.tolist()):
            found = {"layer": layer, "head": head, "lags": lags}
            rows.append(found | {"bias": [_short(x) for x in values]})
    if slopes:
        rows = [row | {"slope": _short(slopes[row["layer"]][row["head"]])} for row in rows]
    return rows


def _short(x: float) -> float:
    return float(f"{x:.5g}")


TABLES = (
    Table(
        "Loss at the end of the context, nats per byte",
        value="loss",
        columns="length",
        where={"kind": "loss"},
        smallest_effect=0.01,
    ),
    Table(
        "Standard error over the scored segments, nats per byte",
        value="segment_error",
        columns="length",
        where={"kind": "loss"},
    ),
    Table(
        "Loss on held-out text at the end of training, windows of L",
        value="held_out",
        where={"kind": "training"},
    ),
)
