"""Which lag functions lie in the span of which position kernels, found by least squares alone.

Two grids: `fixed_kernel` (eight teachers, fifteen bases and a control, to 8 L) and
`fixed_kernel/grape` (GRAPE's special cases beside jets, to 32 L). At L = 1024 both are the paper's
own size and take seconds, so there is no preset "paper" beside "book".
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..engine.grids import SCIENTIFIC, cells_over, tables_of
from ..engine.plain_json import significant
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .fixed_kernel_claims import (
    CONTROL,
    PAPER,
    RULES,
    grape_claim,
    grape_sentences,
    kernel_sentences,
)
from .least_squares import described, judged, qr_fit, span_name
from .spans import GRAPE, Lags, design
from .teachers import TEACHERS

__all__ = ["EXPERIMENT", "GRAPE_GRID", "METHODS", "TARGETS", "fitted_errors"]

TARGETS = (
    *("phase", "linear", "first_jet", "second_jet", "third_jet"),
    *("recency_weak_jet", "lc_core", "lc_affine"),
)
METHODS = (*PAPER, CONTROL)
GRAPE_TARGETS = ("phase", "recency", "jet_1", "jet_2", "lc_core")
SHOWN = 17  # the protocol's table has this many turns in L
GRAPE_METHODS = (*GRAPE, "jets_1", "jets_2", "lightcone")


def fitted_errors(
    method: str, target: str, length: int, cycles: float, longest: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Fit one basis to one teacher on d < L, by QR and without a ridge.

    Args:
        method, target: names in `BASES` and `TEACHERS`.
        length: L, tokens.
        cycles: turns of the frequency in L tokens.
        longest: how many lags are asked for, at least L.
        dtype: of every step.

    Returns:
        error ``(longest,)``, teacher ``(longest,)``, and the columns of the fit
        ``(L, 1 + columns)``, standardised.
    """
    lags = Lags(torch.arange(longest).to(dtype), length, cycles)
    columns, values = design(method, lags, length), TEACHERS[target].values(lags)
    weights = qr_fit(columns[:length], values[:length], 0.0)
    return columns @ weights - values, values, columns[:length]


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    length, spans = context.settings["length"], context.settings["spans"]
    method, target = cell.key["method"], cell.key["target"]
    arguments = (method, target, length, cell.key["cycles"], length * max(spans))
    error, values, columns = fitted_errors(*arguments, torch.float64)
    narrow, _, _ = fitted_errors(*arguments, torch.float32)
    rows = []
    for span in spans:
        here = slice(span * length)
        variance = float(values[here].var(correction=0))
        relative = float(error[here].square().mean()) / variance
        row = {name: cell.key[name] for name in ("method", "target", "cycles", "seed")}
        row |= {"span": span_name(span), "relative_error": significant(relative)}
        row["r2"] = round(1 - relative, 6)
        row["fp32"] = significant(float(narrow[here].double().square().mean()) / variance)
        if span == 1:
            row |= {"columns": columns.shape[1] - 1}
            row |= {"condition": significant(float(torch.linalg.cond(columns)))}
        rows.append(row)
    return rows


def _presets(spans: list[int], cycles: list[int], cost: str) -> dict[str, Preset]:
    small = {"length": 64, "cycles": [17], "spans": spans}
    whole = {"length": 1024, "cycles": cycles, "spans": spans}
    return {
        "smoke": Preset("smoke", (0,), small, "1 core-second"),
        "book": Preset("book", (0,), whole, cost),
    }


def _tables(longest: str) -> tuple[Table, ...]:
    numbers = {"columns": "target", **SCIENTIFIC}
    far, phase = {"span": longest, "cycles": SHOWN}, {"target": "phase", "span": "L"}
    return tables_of(
        *(
            (
                f"R² of each basis on d < {span}, fitted on d < L, {SHOWN} turns in L",
                "r2",
                {"columns": "target", "where": {"span": span, "cycles": SHOWN}},
            )
            for span in ("L", longest)
        ),
        (
            "Relative error (mean squared error over the teacher's variance) on "
            f"d < {longest}, {SHOWN} turns in L",
            "relative_error",
            numbers,
        ),
        (f"The same in fp32, on d < {longest}", "fp32", numbers),
        (
            "Condition number of the standardised columns and the constant on d < L, by turns in L",
            "condition",
            {"columns": "cycles", "where": phase, "digits": 1},
        ),
        ("Columns beside the constant", "columns", {"where": {**far, **phase}, "digits": 0}),
        where=far,
    )


EXPERIMENT = Experiment(
    name="fixed_kernel",
    question="Which phases, jets, distances and light cones lie in the span of which kernel, on the "
    "lags it was fitted on and on eight times as many?",
    claims=("P-K1", "P-K2", "P-K3", "P-K4"),
    presets=_presets([1, 2, 4, 8], [17, 5, 61], "3 core-seconds"),
    cells=cells_over(cycles="cycles", target=TARGETS, method=METHODS),
    run_cell=_run_cell,
    tables=_tables("8L"),
    sentences=described(kernel_sentences),
    verdicts={claim: judged(claim, rule) for claim, rule in RULES.items()},
    deterministic=True,
)

GRAPE_GRID = Experiment(
    name="fixed_kernel/grape",
    question="Do GRAPE's special cases, RoPE and ALiBi and their sum, hold what jets hold?",
    claims=("P-X1",),
    presets=_presets([1, 4, 32], [17], "1 core-second"),
    cells=cells_over(cycles="cycles", target=GRAPE_TARGETS, method=GRAPE_METHODS),
    run_cell=_run_cell,
    tables=_tables("32L"),
    sentences=described(grape_sentences, "32L"),
    verdicts={"P-X1": judged("P-X1", grape_claim, "32L")},
    deterministic=True,
)
