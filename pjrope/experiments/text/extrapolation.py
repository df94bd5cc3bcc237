"""Grid ``byte_lm/extrapolation``: recency fixed, recency learned, and both beside RoPE.

ALiBi's slopes are fixed and differ from head to head by powers of two. The papers' affine sector
learns its slopes, but all heads start at the same gentle one. Two controls take the difference
apart: slopes that learn from ALiBi's own, and slopes that start together but learn ten times as
fast. The models are those of ``byte_lm/baselines``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.words import listed
from ..engine.spec import Experiment, Preset, Table
from ..engine.store import Result
from .byte_lm import SMOKE, card_of, corpus_of, full_settings, grid, loss_table, run_cell
from .byte_losses import Losses

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
# What the papers compare; the controls that start at ALiBi's slopes are ours.
PUBLISHED = ("none", "rope", "rope_ntk", "affine", "rope_affine", "rope_ntk_affine")


def extrapolation_claims(result: Result | Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what the grid decides of P-L3, P-L4 and P-L5, and what keeps learned slopes back.

    The rules, fixed before the run; a difference counts if it is at least 0.01 nats per byte and
    its 95 % interval leaves out 0.

    - P-L3 (NTK-scaled RoPE with affine recency is best far out): *reproduced* if it beats all
      other published methods at the longest context; *with a caveat* if so, but ALiBi or a control
      is not beaten; else *not reproduced*.
    - P-L4 (RoPE rises with length, NTK scaling less): *reproduced* if RoPE's loss rises from the
      shortest to the longest context and NTK's is below RoPE's at the longest; *with a caveat* if
      the latter holds at twice the training length only.
    - P-L5 (affine recency is flat): *reproduced* if the interval of the change of ``affine`` from
      the shortest to the longest context lies within 0.01, *not reproduced* if its loss rises;
      where it falls or nothing is resolved, that is said.

    Args:
        result: rows of ``byte_lm/extrapolation``.

    Returns:
        Sentences; from one seed or one length a single one that claims nothing.
    """
    rows = result.rows if isinstance(result, Result) else result
    losses = Losses(rows)
    if not {m for group in TRAININGS for m in group} <= set(losses.methods):
        return []
    if len({row["seed"] for row in rows}) < 2 or len(losses.lengths) < 2:
        return ["Claims P-L3, P-L4, P-L5: not tested; they take two seeds and two lengths."]
    return [_far(losses), _rise(losses), _flat(losses), *_slopes(losses)]


def _far(losses: Losses) -> str:
    ours, length = "rope_ntk_affine", losses.lengths[-1]
    words = {m: losses.against(ours, m, length) for m in losses.methods if m != ours}
    beaten = {m for m, (word, _) in words.items() if word == "better"}
    others = {m for m in PUBLISHED if m != ours}
    if beaten >= set(words):
        word = "reproduced"
    else:
        word = "reproduced with a caveat" if beaten >= others else "not reproduced"
    left = [f"{m} ({words[m][1]})" for m in words if m not in beaten]
    tail = f"it does not beat {listed(left)}" if left else "it beats every other method"
    return (
        f"P-L3, {word}: at {length:,} bytes {ours} costs {losses.said(ours, length)} nats per byte; "
        f"{tail}."
    )


def _rise(losses: Losses) -> str:
    twice, last = losses.lengths[1], losses.lengths[-1]
    rises, by = losses.growth("rope")
    far, far_gap = losses.against("rope_ntk", "rope", last)
    near, near_gap = losses.against("rope_ntk", "rope", twice)
    word = "not reproduced"
    if rises == "worse" and "better" in (far, near):
        word = "reproduced" if far == "better" else "reproduced with a caveat"
    return (
        f"P-L4, {word}: RoPE changes by {by} from {losses.lengths[0]:,} to {last:,} bytes; NTK "
        f"scaling against it: {near_gap} at {twice:,}, {far_gap} at {last:,}."
    )


def _flat(losses: Losses) -> str:
    flat, by = losses.growth("affine")
    word = {
        "equal within the smallest effect": "reproduced",
        "worse": "not reproduced",
        "better": "reproduced with a caveat: longer contexts help",
    }.get(flat, "not decided")
    return (
        f"P-L5, {word}: affine recency changes by {by} from {losses.lengths[0]:,} to "
        f"{losses.lengths[-1]:,} bytes."
    )


def _slopes(losses: Losses) -> list[str]:
    length = losses.lengths[0]
    said = [
        f"{m} {gap}: {word}"
        for m in ("affine", "affine_fast", "affine_spread")
        for word, gap in [losses.against(m, BASELINE, length)]
    ]
    return [f"Learned slopes against ALiBi's at {length:,} bytes: {'; '.join(said)}."]


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
    sentences=extrapolation_claims,
    data=lambda preset: card_of(corpus_of(preset)),
)
