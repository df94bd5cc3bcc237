"""Grids ``byte_lm/rates`` and ``byte_lm/tuned``: a learning rate for each method, then the methods at theirs.

Methods that learn at different speeds cannot be compared at one rate and one budget. ``rates`` gives
every method the same three, on a seed of its own and the validation split; ``tuned`` trains each at
its best for 4,000 steps with a decayed rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.statistics import summary
from ..engine.result import Result, select
from ..engine.spec import Cell, Experiment, Preset, Table
from .claims import lengths_of, loss_gap
from .study import SMOKE_SETTINGS, TABLES, book_settings, cells, corpus_card, run_cell

METHODS = (
    "alibi",
    "alibi_t5",
    "rope",
    "rope_alibi",
    "alibi_table8",
    "alibi_lc",
    "affine_spread",
    "affine",
)
TRIED = (3e-3, 1e-2, 3e-2)
CHOICE_SEED = 100


def best_rates(result: Result | Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The rate of the least held-out loss at the end of training, method by method."""
    rows = select(result.rows if isinstance(result, Result) else result, {"kind": "training"})
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["held_out"] is not None:
            found.setdefault(row["method"], []).append((row["held_out"], row["rate"]))
    return {method: min(pairs)[1] for method, pairs in found.items()}


def choices(result: Result) -> list[str]:
    """Say which rate each method takes.

    The rule, written before the run: the one of the three whose loss on the validation split is least
    at the end of training; a rate at either end of the three is named, since the best may lie beyond.
    """
    rates = best_rates(result)
    told = [
        f"{method} {rate:g}" + (" (the end of what was tried)" if rate != TRIED[1] else "")
        for method, rate in rates.items()
    ]
    return [f"Rates by held-out loss: {', '.join(told)}."] if told else []


def tuned_words(result: Result) -> list[str]:
    """Say how each method stands to ALiBi at the training length and at the longest context.

    The rule, written before the run: a difference is better or worse if its whole 95 % interval lies
    beyond 0 and its mean is at least 0.01 nats per byte. P-M6 on text (PJ-rotary and RoPE are good at L
    and collapse far out) is read off the same lines.
    """
    rows = select(result.rows, {"kind": "loss"})
    names = [m for m in METHODS if m != "alibi" and select(rows, {"method": m})]
    if not names or not select(rows, {"method": "alibi"}) or len({r["seed"] for r in rows}) < 2:
        return []
    ends = (lengths_of(rows)[0], lengths_of(rows)[-1])
    return [
        f"{' and '.join(loss_gap(rows, name, 'alibi', n).text() for n in ends)}." for name in names
    ]


def flattening(result: Result) -> list[str]:
    """Say how much the held-out loss fell over the last fifth of training, worst method first."""
    fell: dict[str, list[float]] = {}
    for row in select(result.rows, {"kind": "training"}):
        curve = row["held_out_losses"]
        fell.setdefault(row["method"], []).append(curve[-1 - len(curve) // 5] - curve[-1])
    means = sorted(((summary(x).mean or 0.0, m) for m, x in fell.items()), reverse=True)
    if not means:
        return []
    return [
        "Held-out loss fell over the last fifth of training by "
        f"{', '.join(f'{x:.3f} ({m})' for x, m in means)}."
    ]


def _rate_cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell({"method": m, "rate": rate, "seed": seed})
        for seed in seeds
        for m in METHODS
        for rate in TRIED
    ]


_SMOKE_STEPS = SMOKE_SETTINGS["training"] | {"steps": 20, "log_every": 10}

RATES_GRID = Experiment(
    name="byte_lm/rates",
    question="Which of three learning rates serves each position method best?",
    claims=(),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(CHOICE_SEED,),
            settings=SMOKE_SETTINGS | {"training": _SMOKE_STEPS},
            cost="6 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(CHOICE_SEED,),
            settings=book_settings("tiny_shakespeare", "validation", 2000),
            cost="not run yet: 24 cells of about 4 core-minutes",
        ),
    },
    cells=_rate_cells,
    run_cell=run_cell,
    tables=(
        Table(
            "Loss on held-out text at the end of training, windows of L",
            value="held_out",
            columns="rate",
            where={"kind": "training"},
        ),
    ),
    data=corpus_card,
    sentences=choices,
)

TUNED = Experiment(
    name="byte_lm/tuned",
    question=(
        "Trained until their curves are flat, each at its own rate, how do position methods compare "
        "at the training length and at 64 times it?"
    ),
    claims=(),
    presets={
        "smoke": Preset("smoke", seeds=(0,), settings=SMOKE_SETTINGS, cost="6 core-seconds"),
        "book": Preset(
            "book",
            seeds=(0, 1, 2, 3, 4),
            settings=book_settings("tiny_shakespeare", "validation", 4000),
            cost="not run yet: 40 cells of about 7 core-minutes",
        ),
    },
    cells=lambda preset, seeds: cells(METHODS, seeds),
    run_cell=run_cell,
    baseline="alibi",
    tables=TABLES,
    data=corpus_card,
    sentences=lambda result: [*tuned_words(result), *flattening(result)],
)
