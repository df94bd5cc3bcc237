"""How far the flow of ``ntk_flow`` is one of jets: claim P-N1, and counts of what holds.

Jets of order R *hold* a rung on a window if R² there is at least 0.9, a limit written before the
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..analysis.claims import Evidence, Outcome, Scale, Verdict, measured, not_tested
from ..engine.result import Result, select

__all__ = ["METHODS", "flow_claim", "held_to", "law", "reach", "sentences"]

HOLDS = 0.9
ORDERS = (1, 2, 3)
TAYLOR = {r: f"taylor_{r}" for r in ORDERS}
FITTED = {r: f"fitted_{r}" for r in ORDERS}
ONE_JET = "fitted_jet"  # the first jet alone, by the coefficient of least squares
METHODS = (*TAYLOR.values(), ONE_JET, *FITTED.values())
REFITTED = "T refitted"


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


def held_to(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Up to which angle all of these rows hold, and from which on none does."""
    ordered = sorted(rows, key=lambda row: row["angle"])
    good = [row["r2"] >= HOLDS for row in ordered]
    first = good.index(False) if False in good else len(good)
    last = len(good) - 1 - good[::-1].index(True) if True in good else -1
    up_to = ordered[first - 1]["angle"] if first else 0.0
    return up_to, ordered[last + 1]["angle"] if last + 1 < len(ordered) else math.inf


def flow_claim(result: Result) -> Verdict:
    """P-N1: NTK scaling is a flow of Fourier roots whose first step is a jet.

    Rule, written after the record: on d < L and for the smallest factor, 1.1, the first jet with
    its best coefficient must leave at most 1 % of the change. *Reproduced* if it does at every
    frequency; *in part* if wherever the angle moved is below 1 radian; *contradicted* otherwise.
    """
    rows = select(result.rows, {"method": ONE_JET, "window": "L", "factor": 1.1})
    small = [row for row in rows if row["angle"] < 1]
    if not small:
        return not_tested("P-N1", "no frequency that the factor 1.1 moves a little", result)
    left, near = ([row["relative_error"] for row in some] for some in (rows, small))
    outcome: Outcome = "contradicted"
    if max(near) <= 0.01:
        outcome = "reproduced" if max(left) <= 0.01 else "reproduced in part"
    good = sum(error <= 0.01 for error in left)
    because = f"at s = 1.1 one jet explains 99 % of the change on d < L at {good} of {len(left)} "
    because += f"frequencies; {len(near)} move by less than 1 radian"
    found = (
        measured("largest 1 - R², all frequencies", max(left)),
        measured("those that move by less than 1 radian", max(near)),
    )
    return Verdict("P-N1", outcome, because, Evidence(found, Scale.of(result), 1))


def sentences(result: Result) -> list[str]:
    """How far the flow picture holds; none for a filtered run."""
    rows = result.rows
    if {row["method"] for row in rows} != {*METHODS} or len({row["factor"] for row in rows}) < 2:
        return []
    law_ends = ", ".join(f"U = {reach(r):.2f} (order {r})" for r in ORDERS)
    told = [
        f"R² of jets is called good from {HOLDS} on; U is |ω(s) - ω| times the window, radians. Where "
        f"the carrier turns fast, R² of Taylor's jets is good up to {law_ends}."
    ]
    for r in ORDERS:
        up_to, none_from = held_to(select(rows, {"method": TAYLOR[r], "window": ["L", "T"]}))
        told.append(
            f"Taylor's jets to order {r}: good on every rung and window up to U = {up_to:.2f}, on "
            f"none from U = {none_from:.2f} on."
        )
    return [*told, *_least_squares(rows)]


def _least_squares(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What fitted coefficients change."""
    good = {
        (method, window): _good(rows, method, window)
        for method in (TAYLOR[1], TAYLOR[3], ONE_JET, FITTED[3])
        for window in ("L", "T", REFITTED)
    }
    told = [
        f"Least squares over d < L: on d < L the first jet alone is good on {good[ONE_JET, 'L']} of "
        f"{len(select(rows, {'method': TAYLOR[1], 'window': 'L'}))} (Taylor's "
        f"{good[TAYLOR[1], 'L']}), jets 0 to 3 on {good[FITTED[3], 'L']} (Taylor's "
        f"{good[TAYLOR[3], 'L']}); on d < T jets 0 to 3 on {good[FITTED[3], 'T']} (Taylor's "
        f"{good[TAYLOR[3], 'T']}), and on {good[FITTED[3], REFITTED]} if fitted there."
    ]
    near = select(rows, {"method": ONE_JET, "window": ["L", REFITTED]})
    small = [row["coefficient"] for row in near if row["angle"] < 1]
    large = [row["coefficient"] for row in near if row["angle"] > 10]
    if small and large:
        told.append(
            f"The fitted coefficient of the first jet is {min(small):.2f} to {max(small):.2f} of "
            f"Taylor's where U < 1, and at most {max(map(abs, large)):.2f} of it where U > 10."
        )
    far = select(rows, {"method": FITTED[3], "window": REFITTED})
    if turned := [row["r2"] for row in far if row["angle"] > 100]:
        told.append(
            f"Where U > 100, jets 0 to 3 fitted to the whole window reach R² = {max(turned):.2f} at "
            "most; taking the old wave away, and adding nothing, gives 0.50."
        )
    return told


def _good(rows: Sequence[Mapping[str, Any]], method: str, window: str) -> int:
    return sum(row["r2"] >= HOLDS for row in select(rows, {"method": method, "window": window}))
