"""The mathematics of finite rank: what a kernel that folds is, as functions of the lag that one can run.

Write E for the shift of a sequence, ``(E f)(d) = f(d + 1)``. The sequences that ``E - z`` kills are
the multiples of ``z^d``, a character; those that ``(E - z)^m`` kills are ``z^d`` times a polynomial
of degree below m, jets at the root z of multiplicity m. RoPE is a pair of simple roots on the unit
circle, ALiBi the double root 1, a Jordan block or a Fourier jet a pair of roots of its order.

A function with roots z_1 ... z_k of multiplicities m_1 ... m_k fills a Hankel matrix ``f(i + j)`` of
rank ``m_1 + ... + m_k``, no matter how large (Kronecker), and only such functions split into
``phi_q(i) . phi_k(j)`` with that many channels, which is what ``fold`` does. A light cone has no such
polynomial: its rank grows with the matrix.

Everything is computed in fp64 and complex128 on single functions: this is for reading, checking and
recovering kernels, not for attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._values import check_count
from .characteristic import SAME, Root, merge_roots

if TYPE_CHECKING:
    from .base import PositionKernel

__all__ = [
    "Root",
    "roots",
    "merge_roots",
    "shift",
    "difference",
    "jets_basis",
    "characteristic_polynomial",
    "residual",
    "solves",
    "hankel",
    "toeplitz_block",
    "rank",
    "prony",
    "fit_jets",
]


def roots(kernel: PositionKernel) -> list[list[Root]] | None:
    """The characteristic roots of a kernel's lag functions, head by head.

    These are the functions of the lag that the kernel makes: its bias, and what multiplies products
    of channels where it acts on them. The constant q . k of a kernel that only adds a bias is not
    among them.

    Args:
        kernel: with a finite rank or not.

    Returns:
        a list a head (query heads of a bias, key heads of an action, one list where any number of
        heads shares it), or None for a kernel that is not relative or not of finite rank. Roots and
        multiplicities are those of generic amplitudes: one that is 0 may need fewer.

    Example: ``roots(ALiBi(2))`` is ``[[Root(1, 2)], [Root(1, 2)]]``.
    """
    return kernel.roots()


# Operators ---------------------------------------------------------------------------------------


def shift(values: Tensor, steps: int = 1) -> Tensor:
    """``(E^s f)(d) = f(d + s)``, on as many lags as the samples still hold.

    Args:
        values: ``(..., n)``, f at the lags 0 ... n-1.
        steps: s >= 0.

    Returns:
        ``(..., n - s)``.
    """
    if not 0 <= steps <= values.shape[-1]:
        raise ValueError(f"steps is {steps}, {values.shape[-1]} samples shift by 0 to that many")
    return values[..., steps:]


def difference(values: Tensor, root: complex, power: int = 1) -> Tensor:
    """``((E - z)^p f)(d)``; for p = 1, ``f(d + 1) - z f(d)``.

    One application takes ``d^r z^d`` to a polynomial of degree r - 1 times ``z^d``; on
    ``C(d, r) z^d`` it is exact descent, ``(E - z) C(d, r) z^d = z C(d, r - 1) z^d``.

    Args:
        values: ``(..., n)``, f at the lags 0 ... n-1.
        root: z.
        power: p >= 0.

    Returns:
        ``(..., n - p)``, complex if z is.
    """
    check_count("power", power, least=0)
    real = isinstance(root, int | float)
    values = _exact(values) if real else _exact(values).to(torch.complex128)
    for _ in range(power):
        values = shift(values) - root * values[..., :-1]
    return values


def jets_basis(roots: Sequence[Root], lags: Tensor) -> Tensor:
    """The functions ``C(d, r) z^d``, r below each multiplicity: a basis of all that has these roots.

    Binomials rather than powers of d, as ``E - z`` steps down them exactly; the span is the same.

    Args:
        roots: distinct.
        lags: ``(n,)`` tokens, >= 0.

    Returns:
        ``(n, sum of multiplicities)`` complex128, root by root, rising r.

    Raises:
        ValueError: a root that stands twice.
    """
    return _basis(_distinct(roots), lags)


def _distinct(roots: Sequence[Root]) -> Sequence[Root]:
    if len(merge_roots(roots)) < len(roots):
        raise ValueError(
            f"roots are {[r.value for r in roots]}, some of them equal: merge_roots(roots) gives "
            "each once, with the multiplicity that it needs"
        )
    return roots


def _basis(roots: Sequence[Root], lags: Tensor) -> Tensor:
    d = lags.to(torch.float64)
    columns = []
    for root in roots:
        z = torch.tensor(root.value, dtype=torch.complex128, device=d.device)
        column = torch.polar(z.abs() ** d, z.angle() * d)
        for r in range(root.multiplicity):
            if r:
                column = column * (d - (r - 1)) / r
            columns.append(column)
    if not columns:
        return torch.zeros(len(d), 0, dtype=torch.complex128, device=d.device)
    return torch.stack(columns, dim=-1)


def characteristic_polynomial(roots: Sequence[Root]) -> Tensor:
    """Coefficients of ``prod_k (E - z_k)^{m_k}``, highest power first: the shortest recurrence.

    Returns:
        ``(rank + 1,)`` complex128 with leading 1: ``[1, -2, 1]`` for the double root 1 of ALiBi.
    """
    coefficients = torch.ones(1, dtype=torch.complex128)
    for root in roots:
        for _ in range(root.multiplicity):
            longer = torch.zeros(len(coefficients) + 1, dtype=torch.complex128)
            longer[:-1] += coefficients
            longer[1:] -= root.value * coefficients
            coefficients = longer
    return coefficients


def residual(values: Tensor, roots: Sequence[Root]) -> Tensor:
    """What the difference equation leaves of f, ``prod_k (E - z_k)^{m_k} f``.

    Args:
        values: ``(..., n)``, f at the lags 0 ... n-1, n above the sum of multiplicities.
        roots: of the equation.

    Returns:
        ``(..., n - rank)`` complex128; zero, up to rounding, if f has no other roots.
    """
    order = sum(root.multiplicity for root in roots)
    if values.shape[-1] <= order:
        raise ValueError(
            f"{values.shape[-1]} samples, an equation of order {order} needs {order + 1}"
        )
    for root in roots:
        values = difference(values, complex(root.value), root.multiplicity)
    return values.to(torch.complex128)


def solves(values: Tensor, roots: Sequence[Root], tol: float = 1e-9) -> bool:
    """True if :func:`residual` is below ``tol`` of the terms that cancel in it.

    Args:
        values: ``(..., n)``, f at the lags 0 ... n-1.
        roots: of the equation.
        tol: share of ``sum_k |p_k| max |f|``, p the characteristic polynomial.

    Limits: roots near one another cancel almost anything smooth; the test is sharp where the terms
    of the equation are not much larger than f changes over the order of the equation.
    """
    terms = characteristic_polynomial(roots).abs().sum() * values.abs().max()
    return bool(residual(values, roots).abs().max() <= tol * terms)


# Matrices ----------------------------------------------------------------------------------------


def hankel(values: Tensor) -> Tensor:
    """``H_ij = f(i + j)``, as square as the samples allow.

    Args:
        values: ``(n,)``, f at the lags 0 ... n-1.

    Returns:
        ``((n + 1) // 2, n + 1 - (n + 1) // 2)``.
    """
    _one_function(values)
    rows = (len(values) + 1) // 2
    columns = len(values) + 1 - rows
    device = values.device
    return values[torch.arange(rows, device=device)[:, None] + torch.arange(columns, device=device)]


def toeplitz_block(values: Tensor) -> Tensor:
    """``T_ij = f(i - j)``, i in the later half of the tokens and j in the earlier: all of the past.

    Causal attention never sees the other corners, where ``|i - j|`` is bent at 0, so it is this
    block whose rank says how many channels a bias needs. Read with the keys in reverse order it is
    the Hankel matrix of ``f(1), f(2), ...``.

    Args:
        values: ``(n,)``, f at the lags 0 ... n-1 of n tokens, n even.

    Returns:
        ``(n/2, n/2)``.
    """
    _one_function(values)
    if len(values) < 2 or len(values) % 2:
        raise ValueError(f"{len(values)} samples: an even number of tokens has two halves")
    return hankel(values[1:]).flip(-1)


def rank(matrix: Tensor, tol: float | None = None) -> int:
    """Singular values above ``tol`` of the largest; 0 for a matrix of zeros.

    Args:
        matrix: ``(rows, columns)``.
        tol: no unit; None takes 1e-10, and 2e-6 for fp32, whose rounding a smaller one counts as
            rank. In fp64 nothing below 1e-14 is more than rounding.

    Raises:
        ValueError: another number of dimensions than two, or an entry that is not finite.

    Limits: numbers that were rounded to fp32 and widened again look like fp64: give ``tol``.
    """
    if matrix.ndim != 2:
        raise ValueError(f"matrix has shape {tuple(matrix.shape)}, (rows, columns) is needed")
    sizes = torch.linalg.svdvals(_exact(_all_finite(matrix, "matrix")))
    tol = _tolerance(matrix, 1e-10) if tol is None else tol
    return int((sizes > tol * sizes[0]).sum()) if len(sizes) and sizes[0] > 0 else 0


# Recovery ----------------------------------------------------------------------------------------


_rank_of = rank  # where an argument takes the name


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
    tol = _tolerance(values, 1e-9) if tol is None else tol
    values = _exact(_all_finite(_one_function(values), "values"))
    matrix = hankel(values)
    size = _rank_of(matrix, tol) if rank is None else check_count("rank", rank, least=0)
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
    return _fit(_all_finite(_one_function(values), "values"), _distinct(roots))


def _fit(values: Tensor, roots: Sequence[Root]) -> tuple[Tensor, float]:
    basis = _basis(roots, torch.arange(len(values), device=values.device))
    target = _exact(values).to(torch.complex128)
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


def _tolerance(values: Tensor, least: float) -> float:
    """``least``, or what the rounding of a narrower number type takes."""
    inexact = values.is_floating_point() or values.is_complex()
    return max(least, 16 * torch.finfo(values.dtype).eps) if inexact else least


def _one_function(values: Tensor) -> Tensor:
    if values.ndim != 1:
        raise ValueError(
            f"values have shape {tuple(values.shape)}, the samples (n,) of one function are needed"
        )
    return values


def _all_finite(values: Tensor, name: str) -> Tensor:
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"{name} holds NaN or infinity: finite numbers are needed")
    return values


def _exact(values: Tensor) -> Tensor:
    """In fp64 or complex128, no gradient."""
    wide = torch.complex128 if values.is_complex() else torch.float64
    return values.detach().to(wide)
