"""Byte language models that differ in nothing but their position kernel.

Grid ``baselines``: no position, RoPE, RoPE stretched by dynamic NTK scaling, ALiBi, RoPE with
ALiBi, and learned affine recency, trained at one length and scored far beyond it on the same bytes.

Grid ``long``: four of them, trained alike, read at 128 times their training length as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...data import Corpus, evaluation_windows, load_or_stand_in
from ...data.batches import EvaluationWindows
from ...diagnostics import kernels_by_layer
from ...models import Decoder, DecoderConfig
from ...training import TrainConfig, evaluate, train
from ..engine.spec import Cell, CellContext, CellResult, Experiment, Preset, Table
from .methods import learned_slopes, make_kernel, mixers

# Methods that share a training: the first is trained, the others only read its weights anew.
TRAININGS: tuple[tuple[str, ...], ...] = (
    ("none",),
    ("rope", "rope_ntk"),
    ("alibi",),
    ("rope_alibi",),
    ("affine",),
)
LONG_TRAININGS = (("none",), ("rope",), ("alibi",), ("rope_alibi",))


def byte_config(settings: Mapping[str, Any], vocab: int) -> dict[str, Any]:
    """Shape of the protocol's byte model, all but its kernel."""
    shape = {name: settings[name] for name in ("width", "layers", "heads", "length")}
    form = {"mlp_ratio": 2, "norm": "layer", "tied": False, "bias": True}
    return {"vocab": vocab} | shape | form


def make_model(method: str, settings: Mapping[str, Any], vocab: int, seed: int) -> Decoder:
    """The byte model of a method; backbones of equal seeds are equal bit for bit."""
    heads, width = settings["heads"], settings["width"]
    kernel = make_kernel(method, width // heads, heads, settings["length"])
    config = DecoderConfig(**byte_config(settings, vocab), kernel=kernel.spec, **mixers(method))
    return Decoder(config, seed=seed)


def corpus_of(preset: Preset) -> Corpus:
    return load_or_stand_in(preset.settings["corpus"])


def card_of(corpus: Corpus) -> list[dict[str, Any]]:
    return [{"name": corpus.name, "sha256": corpus.sha256, "stand_in": corpus.stand_in}]


def grid(trainings: Sequence[Sequence[str]], seeds: Sequence[int]) -> list[Cell]:
    return [Cell({"method": list(m), "seed": seed}) for seed in seeds for m in trainings]


def trained_model(
    method: str, seed: int, context: CellContext, corpus: Corpus
) -> tuple[Decoder, float]:
    """The model of a method after its training, and the last training loss."""
    settings = context.settings
    own = settings.get("own_training", {}).get(method, {})
    model = make_model(method, settings, corpus.vocab_size, seed).to(context.device)
    training = train(
        model,
        corpus.train,
        TrainConfig(length=settings["length"], **{**settings["training"], **own}),
        seed=seed,
        out=context.workdir,
        progress=context.progress,
    )
    return model, training.rows[-1]["loss"]


def _windows(corpus: Corpus, chosen: Mapping[str, Any]) -> EvaluationWindows:
    return evaluation_windows(
        corpus.validation,
        segments=chosen["segments"],
        scored=chosen["scored"],
        longest=max(chosen["lengths"]),
    )


def run_cell(
    cell: Cell, context: CellContext, parts: Mapping[str, Mapping[str, Any]] | None = None
) -> CellResult:
    """Train once, read by every method of the cell.

    Args:
        cell: its "method" lists the methods.
        context: its settings hold the model, the training and, without ``parts``, what is scored.
        parts: name → lengths, segments and scored bytes; the name becomes the row's "windows".
    """
    settings, methods = context.settings, cell.key["method"]
    corpus = corpus_of(context.preset)
    scored = [({"windows": n}, p) for n, p in parts.items()] if parts else [({}, settings)]
    windows = [_windows(corpus, part) for _, part in scored]
    model, train_loss = trained_model(methods[0], cell.seed, context, corpus)
    rows = []
    for method in methods:
        reader = make_model(method, settings, corpus.vocab_size, cell.seed).to(context.device)
        reader.load_state_dict(model.state_dict())
        constant = {
            "method": method,
            "seed": cell.seed,
            "train_loss": train_loss,
            "slopes": learned_slopes(kernel for _, kernel in kernels_by_layer(reader)),
        }
        for (name, part), cut in zip(scored, windows, strict=True):
            found = evaluate(reader, cut, lengths=part["lengths"])
            rows += [constant | name | row for row in found]
    return CellResult(rows, data=card_of(corpus))


def _run_long_cell(cell: Cell, context: CellContext) -> CellResult:
    return run_cell(cell, context, {"many": context.settings, "far": context.settings["far"]})


def loss_table(title: str, value: str, **where: str) -> Table:
    return Table(title, value=value, columns="length", where=where, smallest_effect=0.01)


def full_settings(length: int, lengths: list[int]) -> dict[str, Any]:
    """The byte model of the protocol on Tiny Shakespeare, trained at ``length``."""
    return {
        "corpus": "tiny_shakespeare",
        "width": 96,
        "layers": 2,
        "heads": 4,
        "length": length,
        "lengths": lengths,
        "segments": 16,
        "scored": 512,
        "training": {"steps": 1000, "batch": 16, "warmup": 50, "final_lr": 0.1},
    }


SMOKE: dict[str, Any] = {
    "corpus": "toy_language",
    "width": 32,
    "layers": 1,
    "heads": 2,
    "length": 64,
    "lengths": [64, 128, 256, 512],
    "segments": 16,
    "scored": 128,
    "training": {"steps": 240, "batch": 8, "lr": 1e-2, "warmup": 10, "final_lr": 0.1},
}

BASELINES = Experiment(
    name="byte_lm/baselines",
    question=(
        "Trained at one length, which position method still predicts bytes when it may look "
        "further back than it ever did in training?"
    ),
    claims=("P-L3", "P-L4", "P-L5"),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=SMOKE,
            cost="4 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2, 3, 4),
            settings=full_settings(256, [256, 512, 1024, 2048, 4096, 8192]),
            cost="about 80 core-minutes",
        ),
        "paper": Preset(
            "paper",
            seeds=(0, 1, 2, 3, 4),
            settings=full_settings(1024, [1024, 2048, 4096, 8192, 16384, 32768]),
            cost="not run yet; a night on two cores or a GPU",
        ),
    },
    cells=lambda preset, seeds: grid(TRAININGS, seeds),
    run_cell=run_cell,
    baseline="rope",
    tables=(
        loss_table("Loss at the end of the context, nats per byte", "loss"),
        Table("Loss over all positions, nats per byte", value="loss_all", columns="length"),
    ),
    data=lambda preset: card_of(corpus_of(preset)),
)

LONG = Experiment(
    name="byte_lm/long",
    question=(
        "Does a position method that holds at 32 times its training length still hold at 128 times?"
    ),
    claims=("P-L3", "P-L4"),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=SMOKE | {"far": {"lengths": [64, 512, 2048], "segments": 2, "scored": 256}},
            cost="5 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2),
            settings=full_settings(256, [256, 512, 1024, 2048, 4096, 8192])
            | {"far": {"lengths": [256, 8192, 32768], "segments": 2, "scored": 4096}},
            cost="about 30 core-minutes",
        ),
    },
    cells=lambda preset, seeds: grid(LONG_TRAININGS, seeds),
    run_cell=_run_long_cell,
    baseline="rope",
    tables=(
        loss_table("Loss at the end of the context, nats per byte", "loss", windows="many"),
        loss_table(
            "The same on fewer, longer segments with room before them", "loss", windows="far"
        ),
    ),
    data=lambda preset: card_of(corpus_of(preset)),
)
