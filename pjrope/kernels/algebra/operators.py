"""Shift and difference operators, and the jets that their powers kill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._values import check_count
from ..characteristic import Root, merge_roots
from ._samples import exact

if TYPE_CHECKING:
    from ..base import PositionKernel


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
    values = exact(values) if real else exact(values).to(torch.complex128)
    for _ in range(power):
        values = shift(values) - root * values[..., :-1]
    return values


def jets_basis(roots: Sequence[Root], lags: Tensor) -> Tensor:
    """The functions ``C(d, r) z^d``, r below each multiplicity: a basis of all that has these roots.

    At the root 0 they are ``C(d, r) z^{d-r}`` in the limit, 1 at d = r and 0 elsewhere.

    Binomials rather than powers of d, as ``E - z`` steps down them exactly; the span is the same.

    Args:
        roots: distinct.
        lags: ``(n,)`` tokens, >= 0.

    Returns:
        ``(n, sum of multiplicities)`` complex128, root by root, rising r.

    Raises:
        ValueError: a root that stands twice.
    """
    return basis_of(distinct(roots), lags)


def distinct(roots: Sequence[Root]) -> Sequence[Root]:
    if len(merge_roots(roots)) < len(roots):
        raise ValueError(
            f"roots are {[r.value for r in roots]}, some of them equal: merge_roots(roots) gives "
            "each once, with the multiplicity that it needs"
        )
    return roots


def basis_of(roots: Sequence[Root], lags: Tensor) -> Tensor:
    d = lags.to(torch.float64)
    columns = []
    for root in roots:
        z = torch.tensor(root.value, dtype=torch.complex128, device=d.device)
        if root.value == 0:
            columns += [(d == r).to(z.dtype) for r in range(root.multiplicity)]
            continue
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
