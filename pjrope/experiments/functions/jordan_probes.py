"""Which basis holds which lag function, on and beyond the lags it was fitted on? Three probes.

A basis is fitted to a target on ``d < L`` and asked for the same target on ``d < 2 L, 4 L, 8 L``.
The result is least squares in fp64 by QR, with three ridges. The reference's way, fp32 normal
equations with ridge 1e-4, is one more solver. `kernel_probes` has a phase, a distance and their
product, `structured_probes` drifts, seasons, envelopes and spacings of motifs, `jet_probes` powers
of the distance times a phase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..analysis.claims import Verdict
from ..engine.grids import SCIENTIFIC, cells_over, tables_of
from ..engine.plain_json import significant
from ..engine.spec import Cell, CellContext, Experiment, ExperimentError, Preset, Table
from . import jordan_claims as rules
from .jordan_claims import BOUNDED, CONTROLS, JETS, ORDERS, PAPER, SCALED, SPLIT, STRUCTURES
from .least_squares import Fits, described, judged, normal_fit, qr_fit, span_name
from .spans import BASES, Lags, design
from .teachers import TEACHERS

__all__ = ["JETS_GRID", "KERNELS", "STRUCTURED", "TARGETS", "fit_errors", "lags_of", "probe"]

RIDGES = {"QR": 0.0, "QR 1e-10": 1e-10, "QR 1e-4": 1e-4}
REFERENCE, REFERENCE_RIDGE = "reference", 1e-4
PAPER_RIDGE = "QR 1e-4"  # the reference's least squares problem, solved without its rounding
TARGETS = {**TEACHERS, "linear": TEACHERS["recency"]}  # here "linear" falls


def lags_of(settings: Mapping[str, Any], target: str, dtype: torch.dtype, device: str) -> Lags:
    """The lags up to the longest span, with gamma L matched to the target."""
    own = {k: v for k, v in settings.items() if k != "spans"}
    count = settings["length"] * max(settings["spans"])
    lags = Lags(torch.arange(count, device=device).to(dtype), **own)
    return replace(lags, matched=TARGETS[target].damping(lags))


def fit_errors(
    settings: Mapping[str, Any], method: str, target: str, device: str = "cpu"
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Fit one basis to one target by every solver.

    Returns:
        solver → error on each lag ``(n,)``, the target on each lag in fp64 ``(n,)``, and the
        columns on the fitted lags in fp64 ``(L, columns)``. Without a ridge, columns that are
        short of full rank have no solution worth the name: "QR" is then left out.
    """
    length = settings["length"]

    def made(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        lags = lags_of(settings, target, dtype, device)
        return design(method, lags), TARGETS[target].values(lags)

    columns, values = made(torch.float64)
    full_rank = bool(torch.linalg.matrix_rank(columns[:length]) == columns.shape[1])
    errors = {
        solver: columns @ qr_fit(columns[:length], values[:length], ridge) - values
        for solver, ridge in RIDGES.items()
        if ridge or full_rank
    }
    narrow, same = made(torch.float32)
    weights = normal_fit(narrow[:length], same[:length], REFERENCE_RIDGE)
    errors[REFERENCE] = narrow @ weights - same
    return errors, values, columns[:length]


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, method, target = context.settings, cell.key["method"], cell.key["target"]
    errors, values, columns = fit_errors(settings, method, target, context.device)
    condition = float(torch.linalg.cond(columns))
    rows = []
    for span in settings["spans"]:
        length = span * settings["length"]
        variance = float(values[:length].var(correction=0))
        for solver, error in errors.items():
            mse = float(error[:length].double().square().mean())
            numbers = {"mse": mse, "r2": 1 - mse / variance, "relative_error": mse / variance}
            row: dict[str, Any] = {"method": method, "target": target, "seed": cell.seed}
            row |= {"length": length, "span": span_name(span), "solver": solver}
            row |= {"ridge": RIDGES.get(solver, REFERENCE_RIDGE), "columns": columns.shape[1]}
            numbers["condition"] = condition
            rows.append(row | {name: significant(number) for name, number in numbers.items()})
    return rows


def settings(
    length: int, head_dim: int, frequencies: int, index: int, index2: int, spans: Sequence[int]
) -> dict[str, Any]:
    """Settings of a preset; damping 0.1024/L is the reference's 1e-4 a token at L = 1024."""
    return {
        **{"length": length, "head_dim": head_dim, "frequencies": frequencies},
        **{"index": index, "index2": index2, "spans": list(spans)},
        **{"damping": 0.1024, "scaled": 0.1, "split": 0.1},
    }


def _presets(head_dim: int, small: tuple[int, int, int], costs: Sequence[str]) -> dict[str, Preset]:
    sizes = {
        "smoke": settings(64, 32, *small, [1, 2, 4, 8]),
        "book": settings(1024, head_dim, 16, 3, 5, [1, 2, 4, 8]),
        "paper": settings(1024, head_dim, 16, 3, 5, [1, 2, 4, 8, 64]),
    }
    return {
        name: Preset(name, (0,), size, cost)
        for (name, size), cost in zip(sizes.items(), costs, strict=True)
    }


def probe(
    name: str,
    question: str,
    claim: str,
    presets: Mapping[str, Preset],
    targets: Sequence[str],
    methods: Sequence[str],
    shown: Sequence[str],
    rule: Callable[[Fits], Verdict],
    describe: Callable[[Fits], list[str]],
) -> Experiment:
    """A probe: every basis on every target.

    Args:
        name, question, claim, presets: as in `Experiment`.
        targets, methods: names in `TARGETS` and `BASES`.
        shown: methods of the first table, which stands in the README.
        rule: fits → verdict on the claim.
        describe: fits → sentences.
    """
    if unknown := [*({*targets} - TARGETS.keys()), *({*methods, *shown} - BASES.keys())]:
        raise ExperimentError(f"{name}: {unknown[0]!r} is neither a target nor a basis")

    return Experiment(
        name=name,
        question=question,
        claims=(claim,),
        presets=presets,
        cells=cells_over(target=targets, method=methods),
        run_cell=_run_cell,
        tables=_tables(targets, shown),
        sentences=described(describe, solver=PAPER_RIDGE),
        verdicts={claim: judged(claim, rule, solver=PAPER_RIDGE)},
        deterministic=True,
    )


def _tables(targets: Sequence[str], shown: Sequence[str]) -> tuple[Table, ...]:
    near = {"solver": PAPER_RIDGE, "span": "L"}
    far = {"solver": PAPER_RIDGE, "span": "8L", "method": list(shown)}
    both = {"span": ["L", "8L"]}
    return tables_of(
        (
            "Relative error (mean squared error over the target's variance) on d < 8L, fitted on "
            "d < L by QR in fp64 with ridge 1e-4",
            "relative_error",
            {"columns": "target", "where": far},
        ),
        *(
            (
                f"Mean squared error on {target}, {TARGETS[target].formula} (QR: fp64, no ridge "
                "where the columns have full rank, or the ridge named; reference: fp32 normal "
                "equations, ridge 1e-4)",
                "mse",
                {"columns": ("span", "solver"), "where": {"target": target, **both}},
            )
            for target in targets
        ),
        (
            "Columns of each basis",
            "columns",
            {"where": {**near, "target": targets[0]}, "digits": 0, "form": "fixed"},
        ),
        (
            "Condition number of the columns on d < L",
            "condition",
            {"columns": "target", "where": near},
        ),
        **SCIENTIFIC,
    )


_COUPLED: dict[str, Any] = {
    "presets": _presets(64, (4, 2, 3), ("1 core-second", "1 core-second", "10 core-seconds")),
    "methods": (*PAPER, *CONTROLS),
    "shown": (
        *("rope", "rope_alibi", "rope_fine2", "rope_split2", "direct_sum"),
        *("jordan_bounded", "jordan_exact", "jordan_matched"),
    ),
}

KERNELS = probe(
    name="kernel_probes",
    question="Which basis of lag functions holds a phase, a distance and their product, and keeps "
    "them to eight times the lags it was fitted on?",
    claim="J-K1",
    targets=("phase", "linear", "mixed"),
    rule=rules.product_claim,
    describe=rules.product_sentences,
    **_COUPLED,
)

STRUCTURED = probe(
    name="structured_probes",
    question="Does the coupled basis also hold a drifting phase, a growing season, an envelope and "
    "the spacing of motifs?",
    claim="J-K2",
    targets=STRUCTURES,
    rule=rules.structure_claim,
    describe=rules.structure_sentences,
    **_COUPLED,
)

JETS_GRID = probe(
    name="jet_probes",
    question="Does a chain of order m hold d^r cos ωd for every r below m, and for no other?",
    claim="J-K3",
    presets=_presets(96, (3, 1, 2), ("1 core-second", "3 core-seconds", "20 core-seconds")),
    targets=(*JETS, "scaled_jet_2", "scaled_jet_3"),
    methods=(
        *("rope", "rope_alibi", "rope_full", "rope_fine2", "rope_fine3", "rope_fine4"),
        *(*SPLIT.values(), "direct_sum", "direct_sum_powers", *BOUNDED, *SCALED.values()),
        *("jordan_undamped", "jordan_undamped_m3", "jordan_undamped_m4"),
        *("jordan_matched", "jordan_matched_m3", "jordan_matched_m4"),
    ),
    shown=("rope", "rope_split4", *BOUNDED[1:], "jordan_scaled_m4", *tuple(ORDERS.values())[1:]),
    rule=rules.hierarchy_claim,
    describe=rules.hierarchy_sentences,
)
