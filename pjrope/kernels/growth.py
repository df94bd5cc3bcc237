"""How large a kernel's numbers can get by a distance, so that it can say where they leave a type."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

ROOM = 4096.0  # what an action multiplies: products of channels up to this count as content
FURTHEST = 2**63 - 1  # tokens: the largest position there is


def steepness(length: float, *sizes: float) -> float:
    """What one token may count for in a power of the distance: 1 at least.

    Args:
        length: L, tokens.
        sizes: constants and initial values that multiply a power of ``d/L``.
    """
    return max(1.0, 1 / length) * max(1.0, *(abs(size) for size in sizes))


def numbers(values: Tensor) -> Tensor:
    """Values in fp64 on the CPU; on the meta device there are none to read."""
    values = values.detach()
    return values if values.is_meta else values.cpu().double()


def jet_bound(amplitudes: Tensor, damping: Tensor | None, x: float) -> float:
    """Upper bound over rows and ``0 <= u <= x`` of ``sum_r |a_r| u^r/r! e^{-c u}``.

    Each term is taken at its own peak ``u = r/c``, or at x before it.

    Args:
        amplitudes: ``(..., R+1)``.
        damping: ``(...)`` c >= 0, or None.
        x: >= 0.

    Returns:
        infinity too where an amplitude or a damping is no finite number.
    """
    if amplitudes.is_meta:
        return 0.0
    a = numbers(amplitudes).abs()
    r = torch.arange(a.shape[-1], dtype=torch.float64, device="cpu")
    c = torch.zeros(1, dtype=torch.float64, device="cpu")
    if damping is not None:
        c = numbers(damping)[..., None]
    if not (bool(a.isfinite().all()) and bool(c.isfinite().all())):
        return math.inf
    u = torch.where(c > 0, r / c, math.inf).clamp(max=x)  # before its peak a term still grows
    logs = torch.xlogy(r, u) - torch.lgamma(r + 1) - c * u  # a power itself could overflow
    terms = torch.where(a > 0, (a.log() + logs).exp(), 0.0)
    return float(terms.sum(-1).max())


def first_beyond(largest: Callable[[float], float], most: float) -> int | None:
    """The first distance at which a growing bound exceeds ``most``, or None if none does.

    Args:
        largest: distance in tokens → bound, not falling.
        most: largest number allowed.
    """
    if largest(float(FURTHEST)) <= most:
        return None
    low, high = -1, FURTHEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if largest(float(middle)) <= most else (low, middle)
    return high
