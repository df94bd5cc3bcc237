"""Least squares of columns to a lag function, and what rules read from the fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..analysis.claims import Evidence, Finding, Scale, Verdict, measured, not_tested
from ..engine.result import Result

__all__ = [
    *("HELD", "NEAR", "Fits", "described", "error_of", "format_error", "judged"),
    *("normal_fit", "qr_fit", "span_name"),
]

HELD, NEAR = (
    1e-9,
    1e-2,
)  # relative errors: below the first a teacher is held, above the second missed


def qr_fit(columns: Tensor, values: Tensor, ridge: float) -> Tensor:
    """Minimize ``|A w - y|^2 + ridge |w|^2`` by QR of A with ``sqrt(ridge) I`` below it.

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


def span_name(span: int) -> str:
    """L, 2L, 4L, 8L: how far a teacher is asked for."""
    return "L" if span == 1 else f"{span}L"


def format_error(error: float) -> str:
    """A relative error with two digits: 5.1e-10, 0.19, 14, 1,400."""
    return f"{error:,.0f}" if 10 <= error < 1e6 else f"{error:.2g}"


class Fits:
    """Rows by teacher, basis, span and solver; all frequencies of one are asked together.

    A filtered run lacks some; asking for one of those raises KeyError.

    Args:
        result: rows with target, method, span and relative_error, and solver where there are several.
        far: the span that is meant where none is given.
        solver: the solver that is meant where none is given; "" for rows that name none.
    """

    def __init__(self, result: Result, far: str = "8L", solver: str = "") -> None:
        self.far, self.solver, self.result = far, solver, result
        self._rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in result.rows:
            key = (row["target"], row["method"], row["span"], row.get("solver", ""))
            self._rows.setdefault(key, []).append(row)

    def errors(
        self,
        target: str,
        method: str,
        span: str = "",
        solver: str = "",
        field: str = "relative_error",
    ) -> list[float]:
        """A field at each frequency; by default the mean squared error over the variance."""
        key = (target, method, span or self.far, solver or self.solver)
        return [row[field] for row in self._rows[key]]

    def error(self, target: str, method: str, span: str = "", solver: str = "") -> float:
        """The largest relative error over the frequencies."""
        return max(self.errors(target, method, span, solver))

    def finding(self, target: str, method: str, span: str = "", solver: str = "") -> Finding:
        """The largest relative error, named."""
        name = f"{method} on {target} at {span or self.far}"
        return error_of(
            f"{name}, {solver}" if solver else name, self.error(target, method, span, solver)
        )

    def evidence(self, *findings: Finding) -> Evidence:
        """Findings with the scale of the run; nothing is random, so there is one seed."""
        return Evidence(findings, Scale.of(self.result), 1)

    def held(self, target: str, methods: Iterable[str]) -> list[str]:
        """Bases whose error is below 1e-9 at every frequency."""
        return [m for m in methods if self.error(target, m) < HELD]

    def near(self, target: str, methods: Iterable[str]) -> list[str]:
        """Bases whose error is below 1 % at every frequency."""
        return [m for m in methods if self.error(target, m) < NEAR]

    def missed(self, target: str, methods: Iterable[str]) -> list[str]:
        """Bases whose error is above 1 % at every frequency."""
        return [m for m in methods if min(self.errors(target, m)) > NEAR]

    def ranking(
        self, target: str, methods: Sequence[str], span: str = "", solver: str = ""
    ) -> list[str]:
        """The bases, that of the lowest error first."""
        return sorted(methods, key=lambda m: self.error(target, m, span, solver))

    def smallest(self, target: str, methods: Sequence[str]) -> str:
        """The smallest basis that holds the teacher, with its columns; ties are all named."""
        size = {
            m: self.errors(target, m, "L", field="columns")[0] for m in self.held(target, methods)
        }
        if not size:
            return "none"
        least = min(size.values())
        return f"{' and '.join(m for m in size if size[m] == least)} ({least})"


def error_of(name: str, error: float) -> Finding:
    """A relative error as a finding."""
    return measured(name, error, 1, "scientific")


def judged(
    claim: str, rule: Callable[[Fits], Verdict], far: str = "8L", solver: str = ""
) -> Callable[[Result], Verdict]:
    """A rule on fits as a rule on a result; "not tested" where rows are missing."""

    def judge(result: Result) -> Verdict:
        try:
            return rule(Fits(result, far, solver))
        except KeyError as error:
            return not_tested(claim, f"no fit {error}, the run is filtered", result)

    return judge


def described(
    describe: Callable[[Fits], list[str]], far: str = "8L", solver: str = ""
) -> Callable[[Result], list[str]]:
    """Sentences on fits as sentences on a result; none where rows are missing."""

    def sentences(result: Result) -> list[str]:
        try:
            return describe(Fits(result, far, solver))
        except KeyError:
            return []

    return sentences
