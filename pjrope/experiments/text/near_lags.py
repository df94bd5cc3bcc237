"""Grids ``near_lags``: what language wants beside recency, to 64 times the training length.

ALiBi alone cannot tell the last few tokens apart by more than its slopes. Beside it stand a table of
near lags, T5's buckets, RoPE, a light cone, a convolution ahead of attention and others, each trained on
the same batches from the same backbone and scored on the same bytes. Grid ``near_lags`` holds the
methods that the claim compares, ``near_lags/rivals`` the rest; both use the same seeds and settings, so
their rows are paired across the two, and share no cell.

All methods learn at the rate 1e-2 in the book preset, and for 2,000 steps, half of what this model
takes to flatten out at a constant rate; the paper preset has 4,000.
"""

from __future__ import annotations

from ..engine.spec import Experiment, Preset
from .near_claims import near_lag_claims
from .study import SMOKE_SETTINGS, TABLES, book_settings, cells, corpus_card, run_cell

METHODS = ("alibi", "alibi_t5", "rope_alibi", "alibi_table8")
RIVALS = (
    "alibi_lc",
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
            seeds=(0, 1, 2, 3, 4),
            settings=SETTINGS | {"training": SETTINGS["training"] | {"steps": 4000}},
            cost="not run yet: twice the book's; the length at which curves of this model are flat",
        ),
    }


NEAR_LAGS = Experiment(
    name="near_lags",
    question=(
        "Does language want the last few tokens told apart, beside recency, and does it still help "
        "at 64 times the training length?"
    ),
    claims=(),
    presets=_presets("about 4 core-minutes a cell, 20 cells"),
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
    presets=_presets("about 4 core-minutes a cell, 50 cells"),
    cells=lambda preset, seeds: cells(RIVALS, seeds),
    run_cell=run_cell,
    baseline="rope",
    tables=TABLES,
    data=corpus_card,
)
