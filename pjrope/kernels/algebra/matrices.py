"""Hankel and Toeplitz matrices of a function of the lag, and their rank."""

from __future__ import annotations

import torch
from torch import Tensor

from ._samples import all_finite, exact, one_function, tolerance


def hankel(values: Tensor) -> Tensor:
    """``H_ij = f(i + j)``, as square as the samples allow.

    Args:
        values: ``(n,)``, f at the lags 0 ... n-1.

    Returns:
        ``((n + 1) // 2, n + 1 - (n + 1) // 2)``.
    """
    one_function(values)
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
    one_function(values)
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
    sizes = torch.linalg.svdvals(exact(all_finite(matrix, "matrix")))
    tol = tolerance(matrix, 1e-10) if tol is None else tol
    return int((sizes > tol * sizes[0]).sum()) if len(sizes) and sizes[0] > 0 else 0
