"""The mathematics of finite rank: what a kernel that folds is, as functions of the lag that one can run.

Write E for the shift of a sequence, ``(E f)(d) = f(d + 1)``. The sequences that ``E - z`` kills are
the multiples of ``z^d``, a character; those that ``(E - z)^m`` kills are ``z^d`` times a polynomial
of degree below m, jets at the root z of multiplicity m. RoPE is a pair of simple roots on the unit
circle, ALiBi the double root 1, a Jordan block or a Fourier jet a pair of roots of its order.

A function with roots z_1 ... z_k of multiplicities m_1 ... m_k fills a Hankel matrix ``f(i + j)`` of
rank ``m_1 + ... + m_k``, no matter how large (Kronecker), and only such functions split into
``phi_q(i) . phi_k(j)`` with that many channels, which is what ``fold`` does. A light cone has no such
polynomial: its rank grows with the matrix.

The root 0 stands apart. A function with ``E^n f = 0`` vanishes from lag n on: a table of near lags. Its
Hankel rank is n, but the shift is singular on it, so it has no channel action and no fold.

Everything is computed in fp64 and complex128 on single functions: this is for reading, checking and
recovering kernels, not for attention.
"""

from ..characteristic import Root, merge_roots
from .matrices import hankel, rank, toeplitz_block
from .operators import (
    characteristic_polynomial,
    difference,
    jets_basis,
    residual,
    roots,
    shift,
    solves,
)
from .recovery import fit_jets, prony

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
