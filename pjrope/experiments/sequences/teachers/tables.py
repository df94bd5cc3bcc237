"""Tables of the teachers' grids; each holds all factors at their defaults but the one it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...analysis.claims import SMALLEST_EFFECT
from ...engine.spec import Table
from .judging import HELD, JETS
from .language import TEACHERS
from .methods import SECTORS

_SECTORS = {"fj": "the Fourier jets", "affine": "recency", "lc": "the light cone"}
_JET_METHODS = ["fj", "fj_affine", "lc_affine", "full"]
_LEARNERS = ["none", "affine", *_JET_METHODS]
_LEADS = {
    "gate_lead": "sector by gate",
    "sector_lead": "sector by its function",
    "mass_lead": "order by mass",
    "order_lead": "order by its function",
}
_LENGTHS = {1: "the training length L", 2: "2 L", 4: "4 L"}


def _table(
    title: str,
    value: str,
    rows: str = "method",
    columns: Any = "task",
    baseline: Any = None,
    **where: Any,
) -> Table:
    shown = {rows, columns} if isinstance(columns, str) else {rows, *columns}
    held = {name: default for name, default in HELD.items() if name not in shown}
    compared = baseline is not None or (value, rows) == ("accuracy", "method")
    return Table(
        title,
        value,
        rows,
        columns,
        {**held, **where},
        better="higher",
        smallest_effect=SMALLEST_EFFECT["accuracy"] if compared else None,
        baseline=baseline,
    )


def accuracy(columns: Any = "task", **where: Any) -> tuple[Table, ...]:
    """Accuracy by method at 1, 2 and 4 times the training length."""
    return tuple(
        _table(f"Accuracy at {name} (chance 0.5)", "accuracy", columns=columns, times=t, **where)
        for t, name in _LENGTHS.items()
    )


def standard_error() -> Table:
    """Of one seed's accuracy at the training length, from the size of the exam."""
    title = "Standard error of one seed's accuracy at L"
    return _table(title, "standard_error", times=1, method=_LEARNERS)


def sectors() -> tuple[Table, ...]:
    """Gates by method, and the size of what they let through."""
    titles = {
        "gate": "Gate of {}, mean of heads",
        "rms": "Size of {} in the logit: centered rms over lags below L, nats, mean of heads",
    }
    return tuple(
        _table(
            title.format(name),
            f"{value}_{sector}",
            times=1,
            method=[method for method in _LEARNERS if sector in SECTORS.get(method, ())],
        )
        for value, title in titles.items()
        for sector, name in _SECTORS.items()
    )


def leads(teachers: Sequence[str], suffix: str = "", **where: Any) -> tuple[Table, ...]:
    """How far the right sector and order lead in `full`, before and after, by where gates start.

    Args:
        teachers: those without an order are left out where orders are shown.
        suffix: of the titles, such as what ``where`` holds.
        where: factors that are not at their defaults.
    """
    ordered = [teacher for teacher in teachers if TEACHERS[teacher].order is not None]
    return tuple(
        _table(
            f"Lead of the right {what} in `full`{when}{suffix}",
            f"{value}{time}",
            rows="gates",
            method="full",
            times=1,
            teacher=ordered if what.startswith("order") else list(teachers),
            **where,
        )
        for value, what in _LEADS.items()
        for time, when in (("_start", ", before training"), ("", ", after training"))
    )


def by_factor(
    factor: str, what: str, methods: Sequence[str], baseline: Any = None, **where: Any
) -> tuple[Table, ...]:
    """Accuracy of each method by the values of one factor, and differences to one of them."""
    return tuple(
        _table(
            f"Accuracy of `{m}` by {what}",
            "accuracy",
            rows=factor,
            columns=("task", "times"),
            baseline=baseline,
            method=m,
            **where,
        )
        for m in methods
    )


def orders() -> tuple[Table, ...]:
    """Masses of the orders of the jets, before and after."""
    return tuple(
        _table(
            f"Mass of order {r}{when}, signed jets, mean of heads",
            f"mass_{r}{suffix}",
            times=1,
            teacher=list(JETS),
            method=["fj", "full"],
        )
        for r in range(4)
        for suffix, when in (("_start", " before training"), ("", " after training"))
    )


def support() -> Table:
    return _table(
        "Lags that the teacher's weights reach",
        "support",
        rows="length",
        columns="sharpness",
        method="majority",
    )


def by_slope(methods: Sequence[str]) -> tuple[Table, ...]:
    """Accuracy at the training length by initial slope and sharpness."""
    return tuple(
        _table(
            f"Accuracy of `{m}` at L by initial slope (nats per L tokens)",
            "accuracy",
            rows="slope",
            columns="sharpness",
            method=m,
            times=1,
        )
        for m in methods
    )
