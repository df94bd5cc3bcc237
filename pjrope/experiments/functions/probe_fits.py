"""What the three probes share: least squares, cells, rows, presets, tables and sentences.

A basis is fitted to a target on ``d < L`` and asked for the same target on ``d < 2 L, 4 L, 8 L``.
The result is least squares in fp64 by QR, with three ridges. The reference's way, fp32 normal
equations with ridge 1e-4, is one more solver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..engine.spec import Cell, CellContext, Experiment, ExperimentError, Preset, Table
from ..engine.store import Result
from .probes import BASES, TARGETS, Lags, design

__all__ = ["Fits", "fit_errors", "lags_of", "normal_fit", "probe", "qr_fit", "said", "settings"]

RIDGES = {"QR": 0.0, "QR 1e-10": 1e-10, "QR 1e-4": 1e-4}
REFERENCE, REFERENCE_RIDGE = "reference", 1e-4
PAPER_RIDGE = "QR 1e-4"  # the reference's least squares problem, solved without its rounding


def qr_fit(columns: Tensor, values: Tensor, ridge: float) -> Tensor:
    """Minimise ``|A w - y|^2 + ridge |w|^2`` by QR of A with ``sqrt(ridge) I`` below it.

    Args:
        columns: A, ``(n, p)``; of full column rank if ridge is 0.
        values: y, ``(n,)``.
        ridge: at least 0.

    Returns:
        w, ``(p,)``.
    """
    if ridge:
        below = ridge**0.5 * torch.eye(columns.shape[1]).to(columns)
        columns = torch.cat([columns, below])
        values = torch.cat([values, values.new_zeros(len(below))])
    q, r = torch.linalg.qr(columns)
    return torch.linalg.solve_triangular(r, (q.T @ values)[:, None], upper=True)[:, 0]


def normal_fit(columns: Tensor, values: Tensor, ridge: float) -> Tensor:
    """Solve ``(A^T A + ridge I) w = A^T y``, which squares the condition number of A."""
    gram = columns.T @ columns + ridge * torch.eye(columns.shape[1]).to(columns)
    return torch.linalg.solve(gram, columns.T @ values)


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
            relative = mse / variance
            numbers = {"mse": mse, "r2": 1 - relative, "relative_error": relative}
            row: dict[str, Any] = {"method": method, "target": target, "seed": cell.seed}
            row |= {"length": length, "span": span_name(span), "solver": solver}
            row |= {"ridge": RIDGES.get(solver, REFERENCE_RIDGE), "columns": columns.shape[1]}
            # Further digits are the rounding of one machine.
            row |= {
                name: float(f"{number:.6g}")
                for name, number in {**numbers, "condition": condition}.items()
            }
            rows.append(row)
    return rows


def span_name(span: int) -> str:
    """L, 2L, 4L, 8L: how far the target is asked for."""
    return "L" if span == 1 else f"{span}L"


def settings(
    length: int, head_dim: int, frequencies: int, index: int, index2: int, spans: Sequence[int]
) -> dict[str, Any]:
    """Settings of a preset; damping 0.1024/L is the reference's 1e-4 a token at L = 1024."""
    return {
        **{"length": length, "head_dim": head_dim, "frequencies": frequencies},
        **{"index": index, "index2": index2, "spans": list(spans)},
        **{"damping": 0.1024, "scaled": 0.1, "split": 0.1},
    }


class Fits:
    """Rows of a probe by target, method, span and solver.

    A filtered run lacks some; asking for one of those raises KeyError.
    """

    def __init__(self, result: Result) -> None:
        names = ("target", "method", "span", "solver")
        self._rows = {tuple(row[n] for n in names): row for row in result.rows}

    def error(self, target: str, method: str, span: str = "8L", solver: str = PAPER_RIDGE) -> float:
        """Relative error: mean squared error over the variance of the target."""
        return self._rows[target, method, span, solver]["relative_error"]

    def ranking(
        self, target: str, methods: Sequence[str], span: str = "8L", solver: str = PAPER_RIDGE
    ) -> list[str]:
        """The methods, that of the lowest error first."""
        return sorted(methods, key=lambda m: self.error(target, m, span, solver))


def said(error: float) -> str:
    """A relative error with two digits: 5.1e-10, 0.19, 14, 1,400."""
    return f"{error:,.0f}" if 10 <= error < 1e6 else f"{error:.2g}"


def probe(
    name: str,
    question: str,
    claim: str,
    presets: Sequence[Preset],
    targets: Sequence[str],
    methods: Sequence[str],
    shown: Sequence[str],
    rule: Callable[[Fits], list[str]],
) -> Experiment:
    """A probe: every basis on every target.

    Args:
        name, question, claim: as in `Experiment`.
        presets: their settings come from `settings`.
        targets, methods: names in `TARGETS` and `BASES`.
        shown: methods of the first table, which stands in the README.
        rule: fits → sentences; a KeyError (a filtered run) gives none.
    """
    if unknown := [*({*targets} - TARGETS.keys()), *({*methods, *shown} - BASES.keys())]:
        raise ExperimentError(f"{name}: {unknown[0]!r} is neither a target nor a basis")

    def cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
        return [
            Cell({"target": target, "method": method, "seed": seed})
            for target in targets
            for method in methods
            for seed in seeds
        ]

    def sentences(result: Result) -> list[str]:
        try:
            return rule(Fits(result))
        except KeyError:
            return []

    return Experiment(
        name=name,
        question=question,
        claims=(claim,),
        presets={preset.name: preset for preset in presets},
        cells=cells,
        run_cell=_run_cell,
        tables=_tables(targets, shown),
        sentences=sentences,
        deterministic=True,
    )


def _tables(targets: Sequence[str], shown: Sequence[str]) -> tuple[Table, ...]:
    numbers: dict[str, Any] = {"digits": 1, "form": "scientific"}
    near = {"solver": PAPER_RIDGE, "span": "L"}
    return (
        Table(
            "Relative error (mean squared error over the target's variance) on d < 8L, fitted on "
            "d < L by QR in fp64 with ridge 1e-4",
            "relative_error",
            columns="target",
            where={"solver": PAPER_RIDGE, "span": "8L", "method": list(shown)},
            **numbers,
        ),
        *(
            Table(
                f"Mean squared error on {target}, {TARGETS[target].formula} (QR: fp64, no ridge "
                "where the columns have full rank, or the ridge named; reference: fp32 normal "
                "equations, ridge 1e-4)",
                "mse",
                columns=("span", "solver"),
                where={"target": target, "span": ["L", "8L"]},
                **numbers,
            )
            for target in targets
        ),
        Table("Columns of each basis", "columns", where={**near, "target": targets[0]}, digits=0),
        Table(
            "Condition number of the columns on d < L",
            "condition",
            columns="target",
            where=near,
            **numbers,
        ),
    )
