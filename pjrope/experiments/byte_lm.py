"""Byte language models that differ in nothing but their position kernel.

Grid ``baselines``: no position, RoPE, RoPE stretched by dynamic NTK scaling, ALiBi, RoPE with
ALiBi, and learned affine recency, trained at one length and scored far beyond it on the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..data import Corpus, evaluation_windows, load_or_stand_in
from ..kernels import Affine, ALiBi, NoPE, PositionKernel, RoPE
from ..models import Decoder, DecoderConfig
from ..positions import NTK
from ..training import TrainConfig, evaluate, train
from .spec import Cell, CellContext, CellResult, Experiment, Preset, Table

# Methods that share a training: the first is trained, the others only read its weights anew.
TRAININGS: tuple[tuple[str, ...], ...] = (
    ("none",),
    ("rope", "rope_ntk"),
    ("alibi",),
    ("rope_alibi",),
    ("affine",),
)


def make_kernel(method: str, head_dim: int, heads: int, length: int) -> PositionKernel:
    """The position kernel of a method.

    Args:
        method: one of the names in ``TRAININGS``.
        head_dim: D.
        heads: H.
        length: training length L, tokens.
    """
    makers = {
        "none": NoPE,
        "rope": lambda: RoPE(head_dim),
        "rope_ntk": lambda: RoPE(head_dim, extension=NTK(length=length)),
        "alibi": lambda: ALiBi(heads),
        "rope_alibi": lambda: RoPE(head_dim) + ALiBi(heads),
        "affine": lambda: Affine(heads, length),
    }
    return makers[method]()


def make_model(method: str, settings: Mapping[str, Any], vocab: int, seed: int) -> Decoder:
    """The byte model of a method; backbones of equal seeds are equal bit for bit."""
    heads, width = settings["heads"], settings["width"]
    kernel = make_kernel(method, width // heads, heads, settings["length"])
    config = DecoderConfig(
        vocab=vocab,
        width=width,
        layers=settings["layers"],
        heads=heads,
        length=settings["length"],
        mlp_ratio=2,
        norm="layer",
        tied=False,
        bias=True,
        kernel=kernel.spec,
    )
    return Decoder(config, seed=seed)


def _corpus(preset: Preset) -> Corpus:
    return load_or_stand_in(preset.settings["corpus"])


def _card(corpus: Corpus) -> list[dict[str, Any]]:
    return [{"name": corpus.name, "sha256": corpus.sha256, "stand_in": corpus.stand_in}]


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [Cell({"method": list(m), "seed": seed}) for seed in seeds for m in TRAININGS]


def _slopes(model: Decoder) -> list[list[float]] | None:
    """Learned affine slopes by layer and head, nats per L tokens; None without such a kernel."""
    kernels = [block.attention.kernel for block in model.blocks]
    if not isinstance(kernels[0], Affine):
        return None
    return [kernel.slope.detach().tolist() for kernel in kernels]


def _run_cell(cell: Cell, context: CellContext) -> CellResult:
    settings, methods = context.settings, cell.key["method"]
    corpus = _corpus(context.preset)
    windows = evaluation_windows(
        corpus.validation,
        segments=settings["segments"],
        scored=settings["scored"],
        longest=max(settings["lengths"]),
    )
    model = make_model(methods[0], settings, corpus.vocab_size, cell.seed).to(context.device)
    training = train(
        model,
        corpus.train,
        TrainConfig(length=settings["length"], **settings["training"]),
        seed=cell.seed,
        out=context.workdir,
        progress=context.progress,
    )
    rows = []
    for method in methods:
        reader = make_model(method, settings, corpus.vocab_size, cell.seed).to(context.device)
        reader.load_state_dict(model.state_dict())
        constant = {
            "method": method,
            "seed": cell.seed,
            "train_loss": training.rows[-1]["loss"],
            "slopes": _slopes(reader),
        }
        rows += [constant | row for row in evaluate(reader, windows, lengths=settings["lengths"])]
    return CellResult(rows, data=_card(corpus))


def _table(title: str, value: str) -> Table:
    return Table(title, value=value, columns="length", smallest_effect=0.01)


def _full_settings(length: int, lengths: list[int]) -> dict[str, Any]:
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
            settings={
                "corpus": "toy_language",
                "width": 32,
                "layers": 1,
                "heads": 2,
                "length": 64,
                "lengths": [64, 128, 256, 512],
                "segments": 16,
                "scored": 128,
                "training": {"steps": 240, "batch": 8, "lr": 1e-2, "warmup": 10, "final_lr": 0.1},
            },
            cost="4 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2, 3, 4),
            settings=_full_settings(256, [256, 512, 1024, 2048, 4096, 8192]),
            cost="about 80 core-minutes",
        ),
        "paper": Preset(
            "paper",
            seeds=(0, 1, 2, 3, 4),
            settings=_full_settings(1024, [1024, 2048, 4096, 8192, 16384, 32768]),
            cost="not run yet; a night on two cores or a GPU",
        ),
    },
    cells=_cells,
    run_cell=_run_cell,
    baseline="rope",
    tables=(
        _table("Loss at the end of the context, nats per byte", "loss"),
        Table("Loss over all positions, nats per byte", value="loss_all", columns="length"),
    ),
    data=lambda preset: _card(_corpus(preset)),
)
