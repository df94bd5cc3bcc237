"""Is NTK scaling a flow of Fourier roots: does moving a frequency equal adding its jets?

NTK scaling by s moves each rung of RoPE's ladder from w to w(s). What that adds to a logit is

    Delta(d) = Re zeta (e^{i w(s) d} - e^{i w d}) = Re zeta e^{i w d} (e^{i u} - 1),  u = dw d,

and its Taylor series in the step dw = w(s) - w is made of jets: i dw d e^{i w d} is the first. The
jets of order 1, 2, 3 are compared with Delta on d < L and on d < T = s L, with Taylor's
coefficients and with those of least squares. Real and imaginary zeta are pooled, so that squares
are those of complex numbers and no accident of phase is left.

The rules of the sentences were written before the numbers: jets of order R *hold* a rung on a
window if R² there is at least 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...positions.extensions import NTK
from ...positions.frequencies import geometric
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from ..engine.store import Result, select

__all__ = ["EXPERIMENT", "METHODS", "approximations", "law", "reach", "steps"]

HOLDS = 0.9
ORDERS = (1, 2, 3)
TAYLOR = {r: f"taylor_{r}" for r in ORDERS}
FITTED = {r: f"fitted_{r}" for r in ORDERS}
ONE_JET = "fitted_jet"  # the first jet alone, by the coefficient of least squares
METHODS = (*TAYLOR.values(), ONE_JET, *FITTED.values())
REFITTED = "T refitted"


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


def law(order: int, angle: float, points: int = 2000) -> float:
    """R² of Taylor's jets where the carrier turns fast: it depends on U = |dw| times window alone.

    ``1 - int_0^U |e^{iu} - sum_{r <= R} (iu)^r / r!|^2 du / int_0^U |e^{iu} - 1|^2 du``; the mean
    of Delta then vanishes, and what is left knows neither frequency nor length.

    Args:
        order: R.
        angle: U, radians.
        points: of the midpoint rule.
    """
    u = (torch.arange(points).double() + 0.5) * angle / points
    wave = torch.polar(torch.ones_like(u), u)
    series = torch.stack([(1j * u) ** r / math.factorial(r) for r in range(order + 1)]).sum(0)
    rest, whole = (wave - series).abs().square().sum(), (wave - 1).abs().square().sum()
    return 1 - float(rest / whole)


def reach(order: int, level: float = HOLDS) -> float:
    """The angle U, radians, up to which :func:`law` stays at the level or above it."""
    low, high = 1e-3, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if law(order, middle) >= level else (low, middle)
    return low


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
            row |= {"window": window, "angle": float(f"{abs(step) * end:.5g}")}
            error = relative_error(made[method][:end], delta[:end])
            row |= {"r2": float(f"{1 - error:.5g}"), "relative_error": float(f"{error:.3g}")}
            if method == ONE_JET:
                row["coefficient"] = float(f"{coefficient:.4g}")
            rows.append(row)
    return rows


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    """Every rung but the fastest, which NTK scaling leaves where it is."""
    return [
        Cell({"factor": factor, "rung": rung, "method": list(METHODS), "seed": seed})
        for factor in preset.settings["factors"]
        for rung in range(1, preset.settings["head_dim"] // 2)
        for seed in seeds
    ]


def held_to(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Up to which angle all of these rows hold, and from which on none does."""
    ordered = sorted(rows, key=lambda row: row["angle"])
    good = [row["r2"] >= HOLDS for row in ordered]
    first = good.index(False) if False in good else len(good)
    last = len(good) - 1 - good[::-1].index(True) if True in good else -1
    up_to = ordered[first - 1]["angle"] if first else 0.0
    return up_to, ordered[last + 1]["angle"] if last + 1 < len(ordered) else math.inf


def sentences(result: Result) -> list[str]:
    """How far the flow picture holds; none for a filtered run."""
    rows = result.rows
    factors = list(dict.fromkeys(row["factor"] for row in rows))
    if {row["method"] for row in rows} != {*METHODS} or len(factors) < 2:
        return []
    told = [
        f"R² of jets is called good from {HOLDS} on; U is |ω(s) - ω| times the window, radians. Where "
        "the carrier turns fast, R² of Taylor's jets depends on U alone and is good up to "
        + ", ".join(f"U = {reach(r):.2f} (order {r})" for r in ORDERS)
        + "."
    ]
    for r in ORDERS:
        up_to, none_from = held_to(select(rows, {"method": TAYLOR[r], "window": ["L", "T"]}))
        told.append(
            f"Taylor's jets to order {r}: good on every rung and window up to U = {up_to:.2f}, on "
            f"none from U = {none_from:.2f} on."
        )
    for factor in factors:
        here = select(rows, {"factor": factor})
        rungs = len({row["rung"] for row in here})
        counts = [
            f"{_good(here, TAYLOR[r], 'L')} on d < L and {_good(here, TAYLOR[r], 'T')} on d < T for "
            f"order {r}"
            for r in (1, 3)
        ]
        told.append(f"s = {factor:g}: of {rungs} rungs that move, good on {'; '.join(counts)}.")
    counted = {
        (method, window): _good(rows, method, window)
        for method in (TAYLOR[1], TAYLOR[3], ONE_JET, FITTED[3])
        for window in ("L", "T", REFITTED)
    }
    whole = len(select(rows, {"method": TAYLOR[1], "window": "L"}))
    told.append(
        f"Least squares over d < L: on d < L the first jet alone is good on {counted[ONE_JET, 'L']} "
        f"of {whole} (Taylor's {counted[TAYLOR[1], 'L']}), jets 0 to 3 on {counted[FITTED[3], 'L']} "
        f"(Taylor's {counted[TAYLOR[3], 'L']}); on d < T jets 0 to 3 on {counted[FITTED[3], 'T']} "
        f"(Taylor's {counted[TAYLOR[3], 'T']}), and on {counted[FITTED[3], REFITTED]} if fitted there."
    )
    near = select(rows, {"method": ONE_JET, "window": ["L", REFITTED]})
    small = [row["coefficient"] for row in near if row["angle"] < 1]
    large = [row["coefficient"] for row in near if row["angle"] > 10]
    if small and large:
        told.append(
            "The fitted coefficient of the first jet is "
            f"{min(small):.2f} to {max(small):.2f} of Taylor's where U < 1, and at most "
            f"{max(map(abs, large)):.2f} of it where U > 10."
        )
    turned = [
        row["r2"]
        for row in select(rows, {"method": FITTED[3], "window": REFITTED})
        if row["angle"] > 100
    ]
    if turned:
        told.append(
            "Where U > 100, jets 0 to 3 fitted to the whole window reach R² = "
            f"{max(turned):.2f} at most; taking the old wave away, and adding nothing, gives 0.50."
        )
    return told


def _good(rows: Sequence[Mapping[str, Any]], method: str, window: str) -> int:
    return sum(row["r2"] >= HOLDS for row in select(rows, {"method": method, "window": window}))


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


_FACTORS = {"factors": [1.1, 2, 8, 64]}

EXPERIMENT = Experiment(
    name="ntk_flow",
    question="Is NTK scaling a flow of Fourier roots: up to which step are the jets of a frequency "
    "as good as moving it?",
    claims=("P-N1",),
    presets={
        "smoke": Preset("smoke", (0,), {"head_dim": 16, "length": 64, **_FACTORS}, "1 core-second"),
        "book": Preset(
            "book", (0,), {"head_dim": 32, "length": 1024, **_FACTORS}, "3 core-seconds"
        ),
        "paper": Preset(
            "paper", (0,), {"head_dim": 128, "length": 1024, **_FACTORS}, "20 core-seconds"
        ),
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
    deterministic=True,
)
