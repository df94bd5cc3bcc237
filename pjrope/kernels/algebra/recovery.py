"""Roots and amplitudes of a function from its samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._values import check_count
from ..characteristic import SAME, Root
from ._samples import all_finite, exact, one_function, tolerance
from .matrices import hankel
from .matrices import rank as rank_of
from .operators import basis_of, distinct


def prony(values: Tensor, rank: int | None = None, tol: float | None = None) -> list[Root]:
    """Roots and multiplicities of a function from its samples.

    ESPRIT: the leading left singular vectors of the Hankel matrix span the functions with these
    roots, one shift maps that span to itself, and the eigenvalues of the map are the roots. A root of
    multiplicity m comes back as m eigenvalues around it; groups of them are replaced by a multiple
    root at their mean as long as the jets still fit the samples.

    Args:
        values: ``(n,)``, f at the lags 0 ... n-1, n at least twice the rank.
        rank: sum of multiplicities; None reads it from the Hankel matrix.
        tol: for the rank, and for the fit of merged roots, as shares of the largest; None takes
            1e-9, and 2e-6 for samples in fp32.

    Returns:
        roots by falling modulus, then by rising ``|arg|``; an empty list for f = 0.

    Raises:
        ValueError: fewer samples than twice the rank, a negative rank, samples that are not finite
            or not in a row; a root 0, as of a jump between the first samples and the rest, which
            no jet has.

    Limits: exact samples, or noise well below ``tol``. Roots closer than about one over the number
    of samples, and jets whose amplitude is below ``tol``, cannot be told apart; multiplicities
    above 4 are mostly lost to rounding. Samples that were rounded to fp32 and widened again
    look like fp64: without a ``tol`` above 1e-6 their rounding is read as roots. A function without roots gets the roots of its best fit:
    look at the rank first.

    Reference: Prony (1795); Roy and Kailath, ESPRIT (1989). Chapter: ch-union.
    """
    tol = tolerance(values, 1e-9) if tol is None else tol
    values = exact(all_finite(one_function(values), "values"))
    matrix = hankel(values)
    size = rank_of(matrix, tol) if rank is None else check_count("rank", rank, least=0)
    if size == 0:
        return []
    if 2 * size > len(values):
        raise ValueError(f"{len(values)} samples for rank {size}: at least {2 * size} are needed")
    span = torch.linalg.svd(matrix).U[:, :size]
    one_shift = _least_squares(span[:-1], span[1:])
    if torch.linalg.svdvals(one_shift)[-1] <= SAME:
        raise ValueError(
            "values have a root 0: the first samples do not follow the recurrence of the rest; "
            "leave them out, as in prony(values[1:])"
        )
    simple = torch.linalg.eigvals(one_shift)
    return _in_order(_coarsest(values, simple.tolist(), tol))


def fit_jets(values: Tensor, roots: Sequence[Root]) -> tuple[Tensor, float]:
    """Amplitudes of the jets that fit the samples best, and how well they do.

    Args:
        values: ``(n,)``, f at the lags 0 ... n-1.
        roots: distinct.

    Returns:
        ``(sum of multiplicities,)`` complex128 amplitudes of :func:`jets_basis`; the largest
        error, as a share of the largest sample (0 where all samples are).

    Raises:
        ValueError: a root that stands twice, samples that are not finite or not in a row.
    """
    return _fit(all_finite(one_function(values), "values"), distinct(roots))


def _fit(values: Tensor, roots: Sequence[Root]) -> tuple[Tensor, float]:
    basis = basis_of(roots, torch.arange(len(values), device=values.device))
    target = exact(values).to(torch.complex128)
    size = basis.abs().amax(0)
    amplitudes = _least_squares(basis / size, target[:, None])[:, 0] / size
    error, largest = (basis @ amplitudes - target).abs().max(), float(target.abs().max())
    return amplitudes, float(error) / (largest or 1.0)


def _coarsest(values: Tensor, simple: list[complex], tol: float) -> list[Root]:
    """The fewest groups of near roots, each replaced by a multiple one, whose jets fit as well."""
    best = [Root(z) for z in simple]
    bound = max(tol, 2 * _fit(values, best)[1])
    gaps = sorted({abs(a - b) for n, a in enumerate(simple) for b in simple[:n]})
    for gap in gaps:  # mirror images are equally far but for rounding: they join in one step
        groups = _linked(simple, gap * (1 + 1e-6))
        merged = [Root(sum(group) / len(group), len(group)) for group in groups]
        if len(merged) < len(best) and _fit(values, merged)[1] <= bound:
            best = merged
    return best


def _linked(points: list[complex], gap: float) -> list[list[complex]]:
    """Groups of points that chains of steps no longer than ``gap`` connect."""
    groups: list[list[complex]] = []
    for point in points:
        near = [g for g in groups if any(abs(point - other) <= gap for other in g)]
        groups = [g for g in groups if g not in near]
        groups.append([point, *(other for g in near for other in g)])
    return groups


def _in_order(roots: list[Root]) -> list[Root]:
    def key(root: Root) -> tuple[float, float, bool]:
        z = torch.tensor(root.value)
        return -round(float(z.abs()), 9), round(float(z.angle().abs()), 9), root.value.imag > 0

    return sorted(roots, key=key)


def _least_squares(columns: Tensor, target: Tensor) -> Tensor:
    # Torch's default on a CPU, gelsy, takes its pivots from memory that nobody has filled, so that
    # fits of nearly equal columns fail by chance. Elsewhere there is no choice.
    driver = "gelsd" if columns.device.type == "cpu" else None
    return torch.linalg.lstsq(columns, target, driver=driver).solution
