"""Grids ``near_lags``: what language wants beside recency, to 64 times the training length.

ALiBi alone cannot tell the last few tokens apart by more than its slopes. Beside it stand a table of
near lags, T5's buckets, RoPE, a light cone, a convolution ahead of attention and others, each trained on
the same batches from the same backbone and scored on the same bytes. Grid ``near_lags`` holds the
methods that the claim compares, ``near_lags/rivals`` the rest; both use the same seeds and settings, so
their rows are paired across the two, and share no cell.

All methods learn at the rate 1e-2, which an earlier trial on this corpus found better than 3e-3 for four of
them; the order of the methods did not depend on it. That trial used seed 0, which is one of those reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..engine.spec import Cell, Experiment, Preset
from .near_claims import confirmed, near_lag_claims, rivals_words
from .study import SMOKE_SETTINGS, TABLES, book_settings, cells, corpus_card, run_cell

METHODS = ("alibi", "rope_alibi", "alibi_t5", "alibi_table8", "alibi_lc")
RIVALS = (
    "rope",
    "alibi_conv",
    "alibi_shift",
    "alibi_straight",
    "rope_alibi_table8",
    "affine_spread_table8",
    "alibi_cosines",
    "alibi_table4",
    "alibi_table16",
)
SETTINGS = book_settings("wikitext_2", "test")


def _presets(cost: str) -> dict[str, Preset]:
    return {
        "smoke": Preset("smoke", seeds=(0,), settings=SMOKE_SETTINGS, cost="6 core-seconds"),
        "book": Preset("book", seeds=(0, 1, 2, 3, 4), settings=SETTINGS, cost=cost),
        "paper": Preset(
            "paper",
            seeds=tuple(range(10)),
            settings=book_settings("wikitext_2", "test", 20_000),
            cost="not run yet: a night on a GPU",
        ),
    }


NEAR_LAGS = Experiment(
    name="near_lags",
    question=(
        "Does language want the last few tokens told apart, beside recency, and does it still help "
        "at 64 times the training length?"
    ),
    claims=(),
    presets=_presets("about 7 core-minutes a cell, 25 cells"),
    cells=lambda preset, seeds: cells(METHODS, seeds),
    run_cell=run_cell,
    baseline="alibi",
    tables=TABLES,
    data=corpus_card,
    sentences=near_lag_claims,
)

RIVAL_GRID = Experiment(
    name="near_lags/rivals",
    question=(
        "Which other ways of telling the last few tokens apart do as well as a near-lag table: "
        "convolutions, token shift, waves, RoPE?"
    ),
    claims=(),
    presets=_presets("about 7 core-minutes a cell, 40 cells"),
    cells=lambda preset, seeds: cells(RIVALS, seeds),
    run_cell=run_cell,
    baseline="rope",
    tables=TABLES,
    data=corpus_card,
    sentences=rivals_words,
)


def _with_corpus(columns: str | Sequence[str] | None) -> list[str]:
    return ["corpus", columns] if isinstance(columns, str) else ["corpus"]


CORPORA = ("wikitext_2", "war_and_peace")
CONFIRM_SETTINGS = {
    k: v for k, v in book_settings("wikitext_2", "validation", 4000).items() if k != "corpus"
} | {"corpora": list(CORPORA)}


def _confirm_cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    corpora = preset.settings["corpora"]
    return [c for name in corpora for c in cells(METHODS, seeds, corpus=name)]


CONFIRM = Experiment(
    name="near_lags/confirm",
    question="Does what near_lags found hold on fresh seeds and on a second corpus?",
    claims=(),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(10,),
            settings={k: v for k, v in SMOKE_SETTINGS.items() if k != "corpus"}
            | {"corpora": ["toy_language"]},
            cost="5 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=tuple(range(10, 20)),
            settings=CONFIRM_SETTINGS,
            cost="not run yet: 80 cells of about 7 core-minutes",
        ),
    },
    cells=_confirm_cells,
    run_cell=run_cell,
    baseline="alibi",
    tables=tuple(replace(t, columns=_with_corpus(t.columns)) for t in TABLES),
    data=corpus_card,
    sentences=confirmed,
)

WIDE_SETTINGS = book_settings("wikitext_2", "test", 4000) | {"width": 192, "layers": 4}

WIDE = Experiment(
    name="near_lags/wide",
    question="Does a near-lag bias still help a model that is twice as wide and twice as deep?",
    claims=(),
    presets={
        "smoke": Preset("smoke", seeds=(0,), settings=SMOKE_SETTINGS, cost="5 core-seconds"),
        "book": Preset(
            "book",
            seeds=(0, 1),
            settings=WIDE_SETTINGS,
            cost="not run yet: 8 cells of about 20 core-minutes",
        ),
    },
    # A wider model takes a lower rate: the step of AdamW is per parameter, their number grew.
    cells=lambda preset, seeds: [
        Cell(dict(c.key) | ({"rate": 3e-3} if "rate" in c.key else {}))
        for c in cells(METHODS, seeds)
    ],
    run_cell=run_cell,
    baseline="alibi",
    tables=TABLES,
    data=corpus_card,
    sentences=near_lag_claims,
)
