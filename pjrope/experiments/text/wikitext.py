"""Grid ``wikitext_bytes``: Jordan-RoPE's claims on text, with the twins that the papers lack.

Each Jordan method has a twin on the same frequencies and damping whose shear is none (η ≡ 0), with and
without ALiBi; larger shears are held, so that the treatment is applied whatever training wants. The
bytes are those of WikiText-2 as tokens; choices were made before, claims are read on the test split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...data import load_or_stand_in
from ...diagnostics import kernels_by_layer
from ...kernels import ALiBi, JordanRoPE, PositionKernel, RoPE
from ...models import Decoder, DecoderConfig
from ...training import evaluate
from ..engine.spec import Cell, CellContext, CellResult, Experiment, Preset, Table
from .byte_lm import byte_config, card_of
from .study import SMOKE_SETTINGS, TABLES, book_settings, corpus_card, fit, loss_row, scored_windows
from .wikitext_claims import RULES

# Damping c and shear of the Jordan blocks; None is RoPE on its whole ladder.
BLOCKS: Mapping[str, tuple[float, float] | None] = {
    "rope": None,
    "rope_trunc": (0.0, 0.0),
    "damped": (1.0, 0.0),
    "jordan": (1.0, 0.01),
    "jordan_held20": (1.0, 0.2),
    "jordan_held100": (1.0, 1.0),
    "damped150": (1.5, 0.0),
    "jordan150": (1.5, 0.01),
}
METHODS = (
    "rope",
    "rope_trunc",
    "damped",
    "jordan",
    "jordan_held20",
    "jordan_held100",
    "rope_alibi",
    "rope_trunc_alibi",
    "damped150_alibi",
    "jordan150_alibi",
)
RATE = 3e-3


def make_kernel(method: str, head_dim: int, heads: int, length: int) -> PositionKernel:
    """The position kernel of a method of this grid.

    Raises:
        ValueError: an unknown method.
    """
    name = method.removesuffix("_alibi")
    if name not in BLOCKS:
        raise ValueError(f"method {method!r}: there are {', '.join(METHODS)}")
    block = BLOCKS[name]
    kernel: PositionKernel = RoPE(head_dim)
    if block is not None:
        kernel = JordanRoPE(head_dim, heads, length, gamma=block[0], eta=block[1])
    return kernel + ALiBi(heads) if method.endswith("_alibi") else kernel


def make_model(method: str, settings: Mapping[str, Any], vocab: int, seed: int) -> Decoder:
    """The byte model of a method, its shear held where the name says so."""
    heads = settings["heads"]
    kernel = make_kernel(method, settings["width"] // heads, heads, settings["length"])
    model = Decoder(DecoderConfig(**byte_config(settings, vocab), kernel=kernel.spec), seed=seed)
    if "held" in method:
        for _, found in kernels_by_layer(model):
            found.freeze("eta")
    return model


def learned(model: Decoder) -> list[dict[str, Any]]:
    """Mean size of the shear and of the damping in each layer, at the end of training."""
    rows = []
    for layer, kernel in kernels_by_layer(model):
        for part in kernel.modules():
            if isinstance(part, JordanRoPE):
                eta, gamma = part.eta, part.gamma
                rows.append(
                    {
                        "layer": layer,
                        "shear": 0.0 if eta is None else float(eta.detach().abs().mean()),
                        "damping": 0.0 if gamma is None else float(gamma.detach().mean()),
                    }
                )
    return rows


def run_cell(cell: Cell, context: CellContext) -> CellResult:
    """Rows of kind "loss" by length, "training", and "shear" by layer."""
    settings, method = context.settings, cell.key["method"]
    corpus = load_or_stand_in(settings["corpus"])
    model = make_model(method, settings, corpus.vocab_size, cell.seed).to(context.device)
    curve = fit(model, corpus, cell, context, lr=cell.key["rate"])
    windows = scored_windows(corpus, settings)
    kinds = {
        "loss": [loss_row(r) for r in evaluate(model, windows, lengths=settings["lengths"])],
        "training": [curve],
        "shear": learned(model),
    }
    constant = {"method": method, "seed": cell.seed, "rate": cell.key["rate"]}
    rows = [constant | {"kind": kind} | row for kind, of in kinds.items() for row in of]
    return CellResult(rows, data=card_of(corpus))


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [Cell({"method": m, "rate": RATE, "seed": s}) for s in seeds for m in METHODS]


def _settings(steps: int, length: int, corpus: str) -> dict[str, Any]:
    shape = {"width": 128, "layers": 3, "length": length}
    lengths = {"lengths": [length, 4 * length, 16 * length, 32 * length]}
    return book_settings(corpus, "test", steps) | shape | lengths


EXPERIMENT = Experiment(
    name="wikitext_bytes",
    question=(
        "Does the shear of a Jordan block help on text, beside damping and ALiBi that are matched?"
    ),
    claims=("J-K6", "J-K7"),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=SMOKE_SETTINGS
            | {"training": SMOKE_SETTINGS["training"] | {"steps": 16, "log_every": 8}},
            cost="6 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2, 3, 4),
            settings=_settings(2000, 256, "wikitext_2"),
            cost="not run yet: 50 cells of about 12 core-minutes",
        ),
        "paper": Preset(
            "paper",
            seeds=(0, 1, 2),
            settings=_settings(20_000, 512, "wikitext_103_raw_rows"),
            cost="not run yet; a GPU",
        ),
    },
    cells=_cells,
    run_cell=run_cell,
    baseline="rope_alibi",
    tables=(
        *TABLES,
        Table(
            "Mean modulus of the shear",
            value="shear",
            columns="layer",
            where={"kind": "shear"},
        ),
    ),
    verdicts=RULES,
    data=corpus_card,
)
