"""What rows of adaptive_spectrum name, whether that is the teacher's, and where it is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....kernels.pj import SECTORS
from ...analysis.words import listed
from ..teachers import TEACHERS

__all__ = [
    *("FITTED", "Right", "Row", "by_gate", "by_mass", "by_rms", "by_spectrum", "by_worth"),
    *("fitted", "has_order", "misses", "order_is_right", "rest", "sector_far", "sector_is_right"),
    "split",
]

FITTED = 0.9  # R² on d < 4L; below it a kernel holds another function than the teacher's

Row = Mapping[str, Any]
Right = Callable[[Row], bool]


def by_gate(row: Row) -> bool:
    return sector_is_right("gate")(row)


def by_rms(row: Row) -> bool:
    return sector_is_right("rms")(row)


def by_mass(row: Row) -> bool:
    return order_is_right("mass")(row)


def by_worth(row: Row) -> bool:
    return order_is_right("loo")(row)


def by_spectrum(row: Row) -> bool:
    return order_is_right("energy")(row) and by_worth(row)


def sector_is_right(diagnostic: str) -> Right:
    return lambda row: row[f"sector_by_{diagnostic}"] == TEACHERS[row["target"]].sector


def order_is_right(diagnostic: str) -> Right:
    return lambda row: row[f"order_by_{diagnostic}"] == TEACHERS[row["target"]].order


def has_order(row: Row) -> bool:
    return TEACHERS[row["target"]].order is not None


def fitted(row: Row) -> bool:
    """Whether training arrived at the teacher's function, beyond the lags it saw too."""
    return row["eval_r2"] >= FITTED


def sector_far(row: Row) -> str:
    """The sector of the largest rms on d < 4L; the row's own name goes by d < L."""
    return max(SECTORS, key=lambda sector: row[f"rms_{sector}_far"])


def rest(row: Row) -> float:
    """What the most useful other order is worth, in units of the teacher's order."""
    order = TEACHERS[row["target"]].order
    others = [row[f"loo_{r}"] for r in range(4) if r != order]
    return max(others) / row[f"loo_{order}"] if row[f"loo_{order}"] > 0 else math.inf


def split(rows: Sequence[Row], right: Right) -> str:
    """The runs that fail: those that hold the teacher's function, and those that do not."""
    if all(map(right, rows)):
        return "none"
    wrongly = misses(rows, lambda row: right(row) or not fitted(row))
    short = misses(rows, lambda row: right(row) or fitted(row))
    return f"among the fitted {wrongly}; among the others, of R² below {FITTED} on d < 4L, {short}"


def misses(rows: Sequence[Row], right: Right, teachers: bool = True) -> str:
    """Where the runs that fail started, by teacher: "phase (from lc 3x)"."""
    found: dict[str, dict[str, int]] = {}
    several = len({row["cycles"] for row in rows}) > 1
    for row in rows:
        if not right(row):
            name = f"{row['target']} at {row['cycles']:g} turns" if several else row["target"]
            by = found.setdefault(name, {})
            by[row["method"]] = by.get(row["method"], 0) + 1
    starts = {t: "from " + listed(f"{m} {n}x" for m, n in by.items()) for t, by in found.items()}
    each = [f"{t} ({words})" if teachers or several else words for t, words in starts.items()]
    return "; ".join(each) or ("none" if teachers else "in no run")
