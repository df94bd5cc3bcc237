"""Grid ``byte_lm/extrapolation``: recency fixed, recency learned, and both beside RoPE.

ALiBi's slopes are fixed and differ from head to head by powers of two. The papers' affine sector
learns its slopes, but all heads start at the same gentle one. Two controls take the difference
apart: slopes that learn from ALiBi's own, and slopes that start together but learn ten times as
fast. The models are those of ``byte_lm/baselines``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..engine.result import Result
from ..engine.spec import Experiment, Preset, Table
from .byte_lm import SMOKE, card_of, corpus_of, full_settings, grid, loss_table, run_cell
from .claims import best_far_out, enough, lengths_of, loss_gap, recency_is_flat, rope_rises

TRAININGS = (
    ("none",),
    ("rope", "rope_ntk"),
    ("alibi",),
    ("affine",),
    ("affine_fast",),
    ("affine_spread",),
    ("rope_affine", "rope_ntk_affine"),
    ("rope_affine_spread", "rope_ntk_affine_spread"),
)
BASELINE = "alibi"
OWN_TRAINING = {"own_training": {"affine_fast": {"position_lr": 10.0}}}
ALL = tuple(method for group in TRAININGS for method in group)


def learned_slopes_cost(result: Result | Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what learned slopes cost against ALiBi's at the training length.

    Args:
        result: rows of ``byte_lm/extrapolation``.

    Returns:
        One sentence; none where methods or a second seed are missing.
    """
    rows = result.rows if isinstance(result, Result) else result
    if not set(ALL) <= {row["method"] for row in rows} or len({row["seed"] for row in rows}) < 2:
        return []
    length = lengths_of(rows)[0]
    learned = ("affine", "affine_fast", "affine_spread")
    said = [loss_gap(rows, method, BASELINE, length).text() for method in learned]
    return [f"Learned slopes against ALiBi's: {'; '.join(said)}."]


EXPERIMENT = Experiment(
    name="byte_lm/extrapolation",
    question=(
        "Recency fixed or learned, alone or beside RoPE: what does it cost near, and what does it "
        "save far out?"
    ),
    claims=("P-L3", "P-L4", "P-L5"),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=SMOKE | {"training": SMOKE["training"] | {"steps": 80}} | OWN_TRAINING,
            cost="5 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2, 3, 4),
            settings=full_settings(256, [256, 512, 1024, 2048, 4096, 8192]) | OWN_TRAINING,
            cost="about two core-hours",
        ),
        "paper": Preset(
            "paper",
            seeds=(0, 1, 2, 3, 4),
            settings=full_settings(1024, [1024, 2048, 4096, 8192, 16384, 32768]) | OWN_TRAINING,
            cost="not run yet; a night on two cores or a GPU",
        ),
    },
    cells=lambda preset, seeds: grid(TRAININGS, seeds),
    run_cell=run_cell,
    baseline=BASELINE,
    tables=(
        loss_table("Loss at the end of the context, nats per byte", "loss"),
        Table("Loss over all positions, nats per byte", value="loss_all", columns="length"),
    ),
    sentences=learned_slopes_cost,
    verdicts={
        "P-L3": enough(best_far_out, "P-L3", *ALL),
        "P-L4": enough(rope_rises, "P-L4", "rope", "rope_ntk"),
        "P-L5": enough(recency_is_flat, "P-L5", "affine"),
    },
    data=lambda preset: card_of(corpus_of(preset)),
)
