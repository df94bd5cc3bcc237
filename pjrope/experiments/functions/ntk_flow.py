"""Is NTK scaling a flow of Fourier roots: does moving a frequency equal adding its jets?

NTK scaling by s moves each rung of RoPE's ladder from w to w(s). What that adds to a logit is

    Delta(d) = Re zeta (e^{i w(s) d} - e^{i w d}) = Re zeta e^{i w d} (e^{i u} - 1),  u = dw d,

and its Taylor series in the step dw = w(s) - w is made of jets: i dw d e^{i w d} is the first. The
jets of order 1, 2, 3 are compared with Delta on d < L and on d < T = s L, with Taylor's
coefficients and with those of least squares. Real and imaginary zeta are pooled, so that squares
are those of complex numbers and no accident of phase is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ...positions.extensions import NTK
from ...positions.frequencies import geometric
from ..engine.plain_json import significant
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .ntk_flow_claims import (
    FITTED,
    METHODS,
    ONE_JET,
    ORDERS,
    REFITTED,
    TAYLOR,
    flow_claim,
    sentences,
)

__all__ = ["EXPERIMENT", "approximations", "relative_error", "steps"]


def steps(head_dim: int, factor: float) -> tuple[Tensor, Tensor]:
    """RoPE's ladder and how far NTK scaling moves each rung.

    Args:
        head_dim: D.
        factor: s >= 1.

    Returns:
        omega and omega(s) - omega, ``(D/2,)`` fp64, radians per token.
    """
    omega = geometric(head_dim)
    return omega, NTK(scale=factor).frequencies(omega, factor, head_dim) - omega


def approximations(
    omega: float, step: float, lags: Tensor, fitted: int
) -> tuple[Tensor, dict[str, Tensor], float]:
    """Delta with zeta = 1, before its real part is taken, and the jets in its place.

    ``taylor_R`` has the jets 1 … R with Taylor's coefficients, ``fitted_jet`` the first jet alone
    and ``fitted_R`` the jets 0 … R with complex coefficients of least squares.

    Args:
        omega: frequency before, radians per token.
        step: how far it moves, radians per token.
        lags: ``(n,)`` fp64 tokens.
        fitted: least squares sees the first so many.

    Returns:
        Delta ``(n,)``; method → ``(n,)``; the fitted coefficient of the first jet over Taylor's.
    """
    wave = torch.polar(torch.ones_like(lags), omega * lags)
    delta = torch.polar(torch.ones_like(lags), (omega + step) * lags) - wave
    angle = step * lags
    jets = [wave * (1j * angle) ** r / math.factorial(r) for r in (0, *ORDERS)]
    made = {TAYLOR[r]: torch.stack(jets[1 : r + 1]).sum(0) for r in ORDERS}
    made[ONE_JET], coefficients = _fit(jets[1:2], delta, fitted)
    for r in ORDERS:
        made[FITTED[r]], _ = _fit(jets[: r + 1], delta, fitted)
    return delta, made, float(coefficients[0].real)


def _fit(columns: Sequence[Tensor], values: Tensor, fitted: int) -> tuple[Tensor, Tensor]:
    """Least squares of the first so many values, continued to all, and its coefficients."""
    design = torch.stack(list(columns), 1)
    size = torch.linalg.vector_norm(design[:fitted], dim=0)
    # By singular values: jets of a rung that hardly turns in the window are nearly dependent.
    solution = torch.linalg.lstsq(
        design[:fitted] / size, values[:fitted, None], rcond=1e-12, driver="gelsd"
    ).solution[:, 0]
    return design @ (solution / size), solution / size


def relative_error(made: Tensor, values: Tensor) -> float:
    """``1 - R² = |error|^2 / |values - their mean|^2`` of complex values."""
    rest = (made - values).abs().square().sum()
    return float(rest / (values - values.mean()).abs().square().sum())


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, factor, rung = context.settings, cell.key["factor"], cell.key["rung"]
    length = settings["length"]
    longest = round(factor * length)
    ladder, moved = steps(settings["head_dim"], factor)
    omega, step = float(ladder[rung]), float(moved[rung])
    lags = torch.arange(longest).double()
    delta, short, ratio = approximations(omega, step, lags, length)
    _, whole, whole_ratio = approximations(omega, step, lags, longest)
    rows = []
    for window, end, made, coefficient in (
        ("L", length, short, ratio),
        ("T", longest, short, ratio),
        (REFITTED, longest, whole, whole_ratio),
    ):
        for method in METHODS:
            if window == REFITTED and method in TAYLOR.values():
                continue  # nothing is fitted
            row = {"method": method, "factor": factor, "rung": rung, "seed": cell.seed}
            error = relative_error(made[method][:end], delta[:end])
            row |= {"window": window, "angle": significant(abs(step) * end, 5)}
            row |= {"r2": significant(1 - error, 5), "relative_error": significant(error, 3)}
            if method == ONE_JET:
                row["coefficient"] = significant(coefficient, 4)
            rows.append(row)
    return rows


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    """Every rung but the fastest, which NTK scaling leaves where it is."""
    rungs = range(1, preset.settings["head_dim"] // 2)
    return [
        Cell({"factor": factor, "rung": rung, "method": list(METHODS), "seed": seed})
        for factor, rung, seed in product(preset.settings["factors"], rungs, seeds)
    ]


def _table(title: str, method: str, value: str = "relative_error", **form: Any) -> Table:
    windows = ["L", "T"] if method in TAYLOR.values() else ["L", "T", REFITTED]
    return Table(
        title,
        value,
        rows="rung",
        columns=("factor", "window"),
        where={"method": method, "window": windows},
        **(form or {"digits": 1, "form": "scientific"}),
    )


FACTORS = [1.1, 2, 8, 64]

EXPERIMENT = Experiment(
    name="ntk_flow",
    question="Is NTK scaling a flow of Fourier roots: up to which step are the jets of a frequency "
    "as good as moving it?",
    claims=("P-N1",),
    presets={
        name: Preset(name, (0,), {"head_dim": dim, "length": length, "factors": FACTORS}, cost)
        for name, dim, length, cost in (
            ("smoke", 16, 64, "1 core-second"),
            ("book", 32, 1024, "3 core-seconds"),
            ("paper", 128, 1024, "20 core-seconds"),
        )
    },
    cells=_cells,
    run_cell=_run_cell,
    tables=(
        _table(
            "Angle U by which a rung has moved at the end of the window, radians, by s and window",
            TAYLOR[1],
            "angle",
            digits=2,
        ),
        *(
            _table(f"1 - R² of Taylor's jets to order {r}, by s and window", TAYLOR[r])
            for r in ORDERS
        ),
        _table("1 - R² of the first jet with a fitted coefficient, by s and window", ONE_JET),
        _table("1 - R² of jets 0 to 3, fitted, by s and window", FITTED[3]),
    ),
    sentences=sentences,
    verdicts={"P-N1": flow_claim},
    deterministic=True,
)
