"""Grid ``your_model/extension``: a trained RoPE model made to read further, five ways at one price.

A byte model in the form of Llama (RMSNorm, no biases, RoPE) is trained at L. Copies of it are tuned with
the same few steps on longer windows: as it is, with its rotation stretched (PI, NTK, YaRN), and with
recency, or recency and a light cone, attached beside the rotation. Each is then read beyond the windows of the
tuning. What is stretched is read twice: by the factor it was tuned with, and, beyond those windows, by the
factor that the context asks for (``pi_wider`` and so on).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...data import Corpus, load_or_stand_in
from ...kernels import Affine, LightCone, PositionKernel, RoPE
from ...models import Decoder, DecoderConfig
from ...positions import NTK, PI, YaRN
from ...training import evaluate, token_losses
from ..engine.spec import Cell, CellContext, CellResult, Experiment, Preset, Table
from .byte_lm import card_of
from .extension_rules import extension_words
from .study import (
    DECAYED,
    RATE,
    SMOKE_SETTINGS,
    TABLES,
    corpus_card,
    fit,
    loss_row,
    scored_windows,
)

STRETCHES: Mapping[str, Callable[[float, int], Any]] = {
    "pi": lambda factor, length: PI(factor),
    "ntk": lambda factor, length: NTK(factor),
    "yarn": lambda factor, length: YaRN(factor, length),
}
ATTACHED = ("recency", "recency_lc")
TUNED = ("continued", *STRETCHES, *ATTACHED)
# One trial with a seed of its own, 300 steps of training and 20 of tuning, had recency start at 2 nats per L;
# at 4 L it held the loss less well than at L, so here it starts at 4. The other ways have no such number.
SLOPE = 4.0
POSITION_LR = 10.0  # few steps must move few parameters, so these learn ten times as fast


def make_kernel(method: str, factor: float, settings: Mapping[str, Any]) -> PositionKernel:
    """The kernel of a way to extend, of the whole-model shape in the settings.

    Args:
        method: "trained" or one of ``TUNED``.
        factor: of the stretched ones.
        settings: of the preset; its length is L.
    """
    heads, length = settings["heads"], settings["length"]
    stretch = STRETCHES[method](factor, length) if method in STRETCHES and factor > 1 else None
    kernel: PositionKernel = RoPE(settings["width"] // heads, extension=stretch)
    if method in ATTACHED:
        kernel = kernel + Affine(heads, length, slope=SLOPE)
    if method == "recency_lc":
        kernel = kernel + LightCone(heads, length, max_order=3)
    return kernel


def make_model(
    method: str, factor: float, settings: Mapping[str, Any], vocab: int, seed: int
) -> Decoder:
    """The byte model of a way to extend."""
    config = DecoderConfig(
        vocab=vocab,
        width=settings["width"],
        layers=settings["layers"],
        heads=settings["heads"],
        length=settings["length"],
        mlp_ratio=2,
        tied=False,
        kernel=make_kernel(method, factor, settings).spec,
    )
    return Decoder(config, seed=seed)


def copy_weights(model: Decoder, source: nn.Module) -> Decoder:
    """Give a model the weights of another; a kernel that the other lacks keeps its own.

    Raises:
        ValueError: the models differ in more than their kernels.
    """
    own = model.state_dict()
    given = source.state_dict()
    lacking = [k for k in own if k not in given and ".kernel." not in k]
    if lacking:
        raise ValueError(f"{lacking[0]} is missing in the source: both need the same backbone")
    # A rotation beside a bias is the first part of a sum, and its frequencies are fixed by the spec.
    model.load_state_dict({k: given.get(k, own[k]) for k in own})
    return model


def run_cell(cell: Cell, context: CellContext) -> CellResult:
    """Rows of kind "loss", "recall" and "training" for every way, on one seed."""
    settings = context.settings
    corpus = load_or_stand_in(settings["corpus"])
    windows = scored_windows(corpus, settings)
    planted = recall_windows(corpus.split(settings["split"]), settings)
    rows: list[dict[str, Any]] = []
    for method, model, curve in _models(corpus, cell, context):
        constant = {"method": method, "seed": cell.seed}
        rows.append(constant | {"kind": "training"} | curve)
        found = {n: evaluate(model, windows, lengths=[n])[0] for n in settings["lengths"]}
        rows += [constant | {"kind": "loss"} | loss_row(row) for row in found.values()]
        scored = settings["recall"]["phrase"] // 2
        rows += [constant | {"kind": "recall"} | row for row in recall_rows(model, planted, scored)]
        if method not in STRETCHES:
            continue
        for length in [n for n in settings["lengths"] if n > settings["tuned_length"]]:
            reader = make_model(
                method, length / settings["length"], settings, corpus.vocab_size, cell.seed
            )
            reader = copy_weights(reader, model).to(context.device)
            found[length] = evaluate(reader, windows, lengths=[length])[0]
        wider = constant | {"method": f"{method}_wider", "kind": "loss"}
        rows += [wider | loss_row(row) for row in found.values()]
    return CellResult(rows, data=card_of(corpus))


def _models(
    corpus: Corpus, cell: Cell, context: CellContext
) -> Iterator[tuple[str, Decoder, dict[str, Any]]]:
    """The model as trained at L, and each of its tuned copies: name, model, curve of the training."""
    settings, vocab = context.settings, corpus.vocab_size
    trained = make_model("trained", 1.0, settings, vocab, cell.seed).to(context.device)
    place = replace(context, workdir=context.workdir / "trained")
    yield "trained", trained, fit(trained, corpus, cell, place, lr=RATE)
    tuning = dict(settings) | {"length": settings["tuned_length"], "training": settings["tuning"]}
    preset = replace(context.preset, settings=tuning)
    for method in TUNED:
        model = make_model(
            method, settings["tuned_length"] / settings["length"], settings, vocab, cell.seed
        )
        copy_weights(model, trained).to(context.device)
        place = replace(context, workdir=context.workdir / method, preset=preset)
        yield method, model, fit(model, corpus, cell, place, position_lr=POSITION_LR)


def recall_windows(text: Tensor, settings: Mapping[str, Any]) -> dict[int, Tensor]:
    """Windows that end with a phrase from elsewhere in the text, which stood d bytes earlier as well.

    Args:
        text: ``(n,)`` bytes.
        settings: lengths (the last is the context), recall: distances, windows, phrase.

    Returns:
        distance, 0 for windows without the earlier copy, to ``(windows, T + 1)``.
    """
    length, recall = max(settings["lengths"]), settings["recall"]
    count, phrase = recall["windows"], recall["phrase"]
    gap = (len(text) - length - 1) // count
    starts = torch.arange(count) * gap
    # Phrases come from the middle of another window's place, so that no context holds them by itself.
    sources = (starts + len(text) // 2 + length) % (len(text) - phrase)
    base = text[starts[:, None] + torch.arange(length + 1)].long()
    copied = text[sources[:, None] + torch.arange(phrase)].long()
    end = length + 1 - phrase
    base[:, end:] = copied
    found = {0: base}
    for distance in recall["distances"]:
        window = base.clone()
        window[:, end - distance : end - distance + phrase] = copied
        found[distance] = window
    return found


def recall_rows(
    model: nn.Module, planted: Mapping[int, Tensor], scored: int
) -> list[dict[str, Any]]:
    """How much an earlier copy helps to predict the last ``scored`` bytes of a phrase, nats per byte."""
    losses = {d: token_losses(model, w)[:, -scored:].double().mean() for d, w in planted.items()}
    return [
        {"distance": d, "gain": float(f"{float(losses[0] - loss):.5g}")}
        for d, loss in losses.items()
        if d
    ]


SMOKE: dict[str, Any] = SMOKE_SETTINGS | {
    "lengths": [64, 128, 256],
    "segments": 4,
    "tuned_length": 128,
    "tuning": DECAYED | {"steps": 4, "batch": 4, "lr": 1e-3, "warmup": 1, "log_every": 4},
    "recall": {"distances": [32, 128], "windows": 2, "phrase": 16},
}
BOOK: dict[str, Any] = {
    "corpus": "wikitext_2",
    "split": "test",
    "width": 96,
    "layers": 2,
    "heads": 4,
    "length": 256,
    "lengths": [256, 512, 1024, 2048, 4096],
    "segments": 16,
    "scored": 512,
    "watched": 16,
    "training": DECAYED | {"steps": 1200, "batch": 16, "warmup": 60, "log_every": 120},
    "tuned_length": 1024,
    "tuning": DECAYED | {"steps": 60, "batch": 4, "lr": 1e-3, "warmup": 6, "log_every": 20},
    "recall": {"distances": [128, 512, 1024, 3584], "windows": 6, "phrase": 64},
}

EXPERIMENT = Experiment(
    name="your_model/extension",
    question=(
        "A trained RoPE model is to read further. What is best bought with a few tuning steps: a "
        "stretched rotation, or a bias beside it?"
    ),
    claims=(),
    presets={
        "smoke": Preset("smoke", seeds=(0,), settings=SMOKE, cost="5 core-seconds"),
        "book": Preset(
            "book", seeds=(0, 1, 2), settings=BOOK, cost="3 cells, planned 10 core-minutes each"
        ),
    },
    cells=lambda preset, seeds: [Cell({"method": ["trained", *TUNED], "seed": s}) for s in seeds],
    run_cell=run_cell,
    baseline="continued",
    tables=(
        TABLES[0],
        Table(
            "What an earlier copy of a phrase is worth, by its distance, nats per byte",
            value="gain",
            columns="distance",
            where={"kind": "recall"},
            better="higher",
        ),
    ),
    data=corpus_card,
    sentences=extension_words,
)
