"""Grid ``music_lm``: which position method suits piano music, at L and far beyond it.

Six trainings on MAESTRO's event tokens, at equal steps and equal data: ALiBi, ALiBi with a table of
near lags (the plain control), the light cone with recency, the union, RoPE with recency (read by NTK
scaling too), and ALiBi over the lag in time instead of in tokens. A seventh starts the union from equal
gates. The unions are read for their sectors beside their start, and for the loss with one left out.

Grid ``music_lm/rivals`` adds five methods of the papers, on the same seeds and settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..engine.spec import Experiment, Preset, Table
from .claims import RULES
from .motif_claims import rotary_collapses
from .study import BOOK, SMOKE, corpus_card, grid, run_cell
from .words import music_words

RIVALS = (("affine",), ("fj",), ("rope",), ("pj_rotary",), ("alibi_lc",))
MAESTRO = {"name": "maestro", "order": "shortest", "count": 128, "held_out": 32}
MUSICNET = {
    f"musicnet_{letter}": {
        "name": "musicnet",
        "order": "random",
        "count": 64,
        "held_out": 16,
        "seed": seed,
    }
    for letter, seed in (("a", 29), ("b", 37))
}
STAND_IN = {"maestro": {"name": "motif_short", "bars": 600}}


def _settings(base: Mapping[str, Any], corpora: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {**base, "corpora": corpora, **more}


def _table(
    title: str,
    value: str,
    columns: str | Sequence[str],
    smallest: float | None = None,
    **where: Any,
) -> Table:
    return Table(title, value=value, columns=columns, where=where, smallest_effect=smallest)


SMOKE_PRESET = Preset(
    "smoke",
    seeds=(0,),
    settings=_settings(
        SMOKE,
        STAND_IN,
        other_splits={"validation": [64, 256]},
        left_out_at=[64],
        samples={"methods": ["alibi"], "seed": 0, "tokens": 32, "spans": [1, 4]},
    ),
    cost="6 core-seconds",
)
BOOK_SETTINGS = _settings(
    BOOK,
    {"maestro": MAESTRO},
    other_splits={"validation": [256, 4096], "train": [256, 4096]},
    left_out_at=[256, 1024],
    samples={
        "methods": ["alibi_table8", "rope_affine", "lc_affine"],
        "seed": 0,
        "tokens": 192,
        "spans": [1, 32],
    },
)
PRESETS = {
    "smoke": SMOKE_PRESET,
    "book": Preset(
        "book",
        seeds=(0, 1, 2),
        settings=BOOK_SETTINGS,
        cost="about 4 core-minutes a cell, 24 cells",
    ),
    "paper": Preset(
        "paper",
        seeds=(0, 1, 2, 3, 4),
        settings=_settings(
            BOOK | {"length": 512, "lengths": [512, 2048, 8192, 16384]},
            {"maestro": MAESTRO, **MUSICNET},
            training={**BOOK["training"], "steps": 8000, "batch": 32, "log_every": 400},
            other_splits={"validation": [512, 8192], "train": [512, 8192]},
            left_out_at=[512, 4096],
        ),
        cost="not run yet: a night on a GPU",
    ),
}
TABLES = (
    _table(
        "Loss at the end of the context, test split, nats per token",
        "loss",
        ("corpus", "length"),
        0.01,
        kind="loss",
        split="test",
    ),
    _table(
        "Standard error over the scored segments, nats per token",
        "segment_error",
        ("corpus", "length"),
        kind="loss",
        split="test",
    ),
    _table(
        "Loss on all splits, nats per token", "loss", ("corpus", "split", "length"), kind="loss"
    ),
    _table("Loss on held-out music at the end of training", "held_out", "corpus", kind="training"),
    _table(
        "Gate of each sector, layer 1",
        "gate",
        ("corpus", "sector", "length"),
        kind="sectors",
        sector=["fj", "affine", "lc"],
        layer=1,
        sector_order=[None],
    ),
    _table(
        "Loss with a part left out minus the loss, nats per token",
        "change",
        ("corpus", "left_out", "length"),
        kind="left_out",
    ),
)

MUSIC_LM = Experiment(
    name="music_lm",
    question=(
        "Which position method suits piano music in event tokens, at its training length and far "
        "beyond it, and do higher orders or time in seconds help?"
    ),
    claims=("P-M1", "P-M2", "P-M3", "P-M4"),
    presets=PRESETS,
    cells=lambda preset, seeds: grid(preset, seeds),
    run_cell=run_cell,
    baseline="alibi",
    tables=TABLES,
    data=corpus_card,
    sentences=music_words,
    verdicts=RULES,
)

RIVALS_GRID = Experiment(
    name="music_lm/rivals",
    question="How do the papers' other methods stand on piano music, and does PJ-rotary collapse?",
    claims=("P-M6",),
    presets=PRESETS
    | {
        "book": Preset(
            "book",
            seeds=(0, 1, 2),
            settings=BOOK_SETTINGS,
            cost="not run yet: about 4 core-minutes a cell, 15 cells",
        )
    },
    cells=lambda preset, seeds: grid(preset, seeds, RIVALS, lines=False),
    run_cell=run_cell,
    baseline="rope",
    tables=TABLES[:4],
    data=corpus_card,
    verdicts={"P-M6": rotary_collapses},
)
