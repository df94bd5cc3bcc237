"""Grid ``music_motif``: music whose bars return at known distances, against the same bars shuffled.

Half of the bars repeat one that stood 4, 8 or 16 bars before; all of these distances fit into the
training length. The shuffled corpus has the same bars, so what a model gains on the structured one it
gains from the returns. Test loss is also told by the distance of a bar's return.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from ...data.batches import EvaluationWindows
from ...data.music import FORMS, MusicCorpus, motif_bars
from ...models import Decoder
from ...training import token_losses
from ..engine.spec import Cell, CellContext, CellResult, Experiment, Preset, Table
from ..text.lines import bigram_losses
from .motif_claims import returns_help
from .study import BOOK, LINES, SMOKE, corpus_card, grid, load_corpus, run_cell, windows_of
from .words import motif_words

TRAININGS = (("alibi",), ("alibi_table8",), ("lc_affine",), ("rope_affine", "rope_ntk_affine"))
FORM = FORMS["short"]
TEST = 2  # the piece of a generated corpus that is its test split


def _corpora(bars: int) -> dict[str, Any]:
    names = {"structured": "motif_short", "shuffled": "motif_short_shuffled"}
    return {which: {"name": name, "bars": bars} for which, name in names.items()}


def lag_of_tokens(bars: int, count: int) -> torch.Tensor:
    """The distance of the return that each test token belongs to, in bars.

    Args:
        bars: of the training split; the test split has a third.
        count: tokens of the test split.

    Returns:
        ``(count,)`` int64; 0 in a new bar.
    """
    _, lags = motif_bars(FORM, bars // 3, seed=0, part=TEST)
    by_token = torch.from_numpy(lags).repeat_interleave(FORM.tokens)
    return torch.cat([by_token[:1], by_token])[
        :count
    ]  # the start token stands before the first bar


def return_rows(
    model: Decoder, windows: EvaluationWindows, music: MusicCorpus, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Test loss of scored tokens by the distance of their bar's return; nothing on shuffled music."""
    if "shuffled" in music.name:
        return []
    rows = []
    for length in settings["lengths"]:
        tokens, first = windows.windows(length)
        losses = token_losses(model, tokens)[:, first:].double()
        at = windows.positions(length)
        rows += _by_lag(losses, at, length, len(music.test), settings)
    return rows


def line_rows(
    windows: EvaluationWindows, music: MusicCorpus, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The same of the bigram line, which looks one token back: how hard the bars are in themselves."""
    rows = []
    for length in settings["lengths"]:
        at = windows.positions(length)
        losses = bigram_losses(music.train.tokens, windows.tokens, at, music.vocab_size)
        rows += _by_lag(losses, at, length, len(music.test), settings)
    return [{"method": "bigram"} | row for row in rows]


def _by_lag(
    losses: torch.Tensor, at: torch.Tensor, length: int, count: int, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    own = lag_of_tokens(settings["corpora"]["structured"]["bars"], count)[at]
    rows = []
    for lag in (0, *FORM.lags):
        found = losses[own == lag]
        loss = float(f"{float(found.mean()):.5g}") if len(found) else None
        row = {"kind": "returns", "length": length, "lag": lag, "tokens": len(found)}
        rows.append(row | {"loss": loss})
    return rows


def run_motif_cell(cell: Cell, context: CellContext) -> CellResult:
    """As :func:`.study.run_cell`, with rows of kind "returns"."""
    found = run_cell(cell, context, return_rows)
    if tuple(cell.key["method"]) != LINES or cell.key["corpus"] != "structured":
        return found
    settings = context.settings
    music = load_corpus(settings["corpora"]["structured"])
    constant = {"corpus": "structured", "seed": cell.seed}
    rows = line_rows(windows_of(music, settings)["test"], music, settings)
    return CellResult([*found.rows, *(constant | row for row in rows)], data=found.data)


def _settings(base: Mapping[str, Any], bars: int, **more: Any) -> dict[str, Any]:
    return {**base, "corpora": _corpora(bars), **more}


EXPERIMENT = Experiment(
    name="music_motif",
    question=(
        "Do models gain from bars that return at distances they can see, and which position method "
        "sees them?"
    ),
    claims=("P-M5",),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=_settings(SMOKE, 600, left_out_at=[64]),
            cost="6 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2),
            settings=_settings(
                BOOK | {"lengths": [256, 1024, 4096], "segments": 32, "scored": 1024},
                42_000,
                left_out_at=[256],
                samples={
                    "methods": ["alibi_table8", "rope_affine"],
                    "seed": 0,
                    "tokens": 192,
                    "spans": [1, 16],
                },
            ),
            cost="about 4 core-minutes a cell, 30 cells",
        ),
        "paper": Preset(
            "paper",
            seeds=(0, 1, 2, 3, 4),
            settings=_settings(
                BOOK | {"training": {**BOOK["training"], "steps": 8000, "batch": 32}},
                120_000,
                left_out_at=[256],
            ),
            cost="not run yet: an hour on a GPU",
        ),
    },
    cells=partial(grid, trainings=TRAININGS),
    run_cell=run_motif_cell,
    baseline="alibi",
    tables=(
        Table(
            "Loss at the end of the context, nats per token",
            value="loss",
            columns=("corpus", "length"),
            where={"kind": "loss", "split": "test"},
            smallest_effect=0.01,
        ),
        Table(
            "Loss by the distance of a bar's return, in bars, nats per token (0: a new bar)",
            value="loss",
            columns=("length", "lag"),
            where={"kind": "returns"},
        ),
        Table(
            "Loss on held-out music at the end of training",
            value="held_out",
            columns="corpus",
            where={"kind": "training"},
        ),
    ),
    data=corpus_card,
    sentences=motif_words,
    verdicts={"P-M5": returns_help},
)
