"""Grid ``byte_lm/stretched``: RoPE and RoPE with recency, and how stretching lets the same weights read far.

Each is trained once. At every length T the same weights are read as they are, with positions or
frequencies stretched by the factor T/L (PI, NTK, YaRN), and by dynamic NTK, which takes its factor from
the call. Grid ``byte_lm/horizon`` reads more methods to 32,768 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...data import load_or_stand_in
from ...kernels import Affine, PositionKernel, RoPE
from ...kernels.alibi import alibi_slopes
from ...models import Decoder, DecoderConfig
from ...positions import NTK, PI, YaRN
from ...training import evaluate
from ..analysis.claims import Evidence, Scale, Verdict, holm, not_tested, undecided
from ..engine.result import Result, select
from ..engine.spec import Cell, CellContext, CellResult, Experiment, Preset
from .byte_lm import SMOKE, byte_config, card_of, corpus_of, full_settings, grid, loss_table
from .byte_lm import run_cell as run_trainings
from .claims import lengths_of, loss_change, loss_gap
from .study import (
    RATE,
    SMOKE_SETTINGS,
    TABLES,
    book_settings,
    corpus_card,
    fit,
    loss_row,
    scored_windows,
)

BASES = ("rope", "rope_affine")
EXTENSIONS: Mapping[str, Callable[[float, int], Any]] = {
    "": lambda factor, length: None,
    "_pi": lambda factor, length: PI(factor),
    "_ntk": lambda factor, length: NTK(factor),
    "_yarn": lambda factor, length: YaRN(factor, length),
    "_dynamic": lambda factor, length: NTK(length=length),
}
TESTED = ("_pi", "_ntk", "_yarn")


def make_reader(
    base: str, extension: str, factor: float, settings: Mapping[str, Any], vocab: int, seed: int
) -> Decoder:
    """The byte model of a base whose rotation is stretched; its parameters are those of the base."""
    heads, length = settings["heads"], settings["length"]
    stretch = EXTENSIONS[extension](factor, length) if factor > 1 else None
    kernel: PositionKernel = RoPE(settings["width"] // heads, extension=stretch)
    if base == "rope_affine":
        kernel = kernel + Affine(heads, length, slope=alibi_slopes(heads) * length)
    return Decoder(DecoderConfig(**byte_config(settings, vocab), kernel=kernel.spec), seed=seed)


def run_cell(cell: Cell, context: CellContext) -> CellResult:
    """Train a base; a row of kind "loss" for each way to read it and each length, and its curve."""
    settings, base = context.settings, cell.key["method"]
    corpus = load_or_stand_in(settings["corpus"])
    windows, vocab = scored_windows(corpus, settings), corpus.vocab_size
    model = make_reader(base, "", 1.0, settings, vocab, cell.seed).to(context.device)
    constant = {"seed": cell.seed, "rate": cell.key["rate"]}
    curve = fit(model, corpus, cell, context, lr=cell.key["rate"])
    rows: list[dict[str, Any]] = [constant | {"method": base, "kind": "training"} | curve]
    for extension in EXTENSIONS:
        for length in settings["lengths"]:
            factor = length / settings["length"]
            reader = make_reader(base, extension, factor, settings, vocab, cell.seed)
            reader.load_state_dict(model.state_dict())
            (found,) = evaluate(reader.to(context.device), windows, lengths=[length])
            named = {"method": base + extension, "kind": "loss"}
            rows.append(constant | named | loss_row(found))
    return CellResult(rows, data=card_of(corpus))


def stretching_helps(result: Result) -> Verdict:
    """P-L4: RoPE rises with length, PI, NTK and YaRN each rise less.

    The rule, written before the run: *reproduced* if RoPE's loss rises from the shortest to the longest
    context and each extension at the factor T/L is better there, by Holm's rule over the four; *in
    part* if some are, or at the second length only; *undecided* if the rise is open; else *not at this
    scale*.
    """
    rows = select(result.rows, {"kind": "loss"})
    methods = {row["method"] for row in rows}
    if not {"rope", *(f"rope{e}" for e in TESTED)} <= methods:
        return not_tested("P-L4", "a way to stretch is missing", result)
    if len({row["seed"] for row in rows}) < 2 or len(lengths_of(rows)) < 2:
        return not_tested("P-L4", "it takes two seeds and two lengths", result)
    lengths = lengths_of(rows)
    rise, *far = holm(
        [
            loss_change(rows, "rope", lengths),
            *(loss_gap(rows, f"rope{e}", "rope", lengths[-1]) for e in TESTED),
        ]
    )
    near = holm(loss_gap(rows, f"rope{e}", "rope", lengths[1]) for e in TESTED)
    seeds = min(f.summary.n for f in (rise, *far))
    evidence = Evidence((rise, *far, *near), Scale.of(result), seeds)
    if rise.word in ("unresolved", "one seed", "not finite"):
        return undecided("P-L4", [rise], evidence)
    better = [f for f in far if f.word == "better"]
    if rise.word == "worse" and len(better) == len(far):
        return Verdict("P-L4", "reproduced", "RoPE rises and all three rise less", evidence)
    if rise.word == "worse" and (better or any(f.word == "better" for f in near)):
        names = ", ".join(f.name.split(" ")[0] for f in better) or "none at the longest context"
        return Verdict("P-L4", "reproduced in part", f"RoPE rises; below it: {names}", evidence)
    because = "RoPE does not rise" if rise.word != "worse" else "no extension is below it"
    return Verdict("P-L4", "not at this scale", because, evidence)


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [Cell({"method": m, "rate": RATE, "seed": s}) for s in seeds for m in BASES]


STRETCHED = Experiment(
    name="byte_lm/stretched",
    question="How far does stretching positions or frequencies let RoPE read beyond its training?",
    claims=("P-L4",),
    presets={
        "smoke": Preset("smoke", seeds=(0,), settings=SMOKE_SETTINGS, cost="5 core-seconds"),
        "book": Preset(
            "book",
            seeds=(0, 1, 2, 3, 4),
            settings=book_settings("wikitext_2", "test", 4000),
            cost="about 7 core-minutes a cell, 10 cells",
        ),
    },
    cells=_cells,
    run_cell=run_cell,
    baseline="rope",
    tables=TABLES,
    verdicts={"P-L4": stretching_helps},
    data=corpus_card,
)

HORIZON_TRAININGS = (
    ("affine",),
    ("affine_spread",),
    ("rope_affine", "rope_ntk_affine"),
    ("full",),
    ("alibi_table8",),
)
_FAR = {"far": {"lengths": [256, 8192, 32768], "segments": 2, "scored": 4096}}

HORIZON = Experiment(
    name="byte_lm/horizon",
    question="Which of five more methods still holds at 128 times its training length?",
    claims=(),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=SMOKE
            | {"training": SMOKE["training"] | {"steps": 40}}
            | {"far": {"lengths": [64, 512, 2048], "segments": 2, "scored": 256}},
            cost="6 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2),
            settings=full_settings(256, [256, 512, 1024, 2048, 4096, 8192]) | _FAR,
            cost="not run yet: 15 cells of about 4 core-minutes",
        ),
    },
    cells=lambda preset, seeds: grid(HORIZON_TRAININGS, seeds),
    run_cell=lambda cell, context: run_trainings(
        cell, context, {"many": context.settings, "far": context.settings["far"]}
    ),
    tables=(
        loss_table("Loss at the end of the context, nats per byte", "loss", windows="many"),
        loss_table("The same on fewer, longer segments", "loss", windows="far"),
    ),
    data=lambda preset: card_of(corpus_of(preset)),
)
