"""How far a call reaches, and whether its kernel's numbers stay in range there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..conventions import wide
from ..kernels.base import PositionKernel
from ..kernels.growth import FURTHEST
from ..positions.lags import lags

if TYPE_CHECKING:
    from .problem import Problem

# Powers below it leave parameters a factor of 1e10 in fp32, beside the room for content.
HARMLESS = 1e24


def harmless(kernel: PositionKernel) -> float:
    """Tokens up to which nothing is read to know that a kernel's numbers stay in fp32."""
    if kernel.degree == 0:
        return math.inf
    return HARMLESS ** (1 / kernel.degree) / kernel.steepness


def may_overflow(kernel: PositionKernel) -> bool:
    """True if some distance is not :func:`harmless`."""
    return harmless(kernel) < FURTHEST


def overflows(kernel: PositionKernel, distance: int, number: torch.dtype) -> bool:
    """True if the kernel's numbers may leave a number type at this distance.

    Args:
        kernel: of the call.
        distance: largest lag, or position for a kernel that is not relative, tokens.
        number: type in which biases and grown channels are computed.
    """
    near = distance <= harmless(kernel)
    return not near and not kernel.largest(float(distance)) <= torch.finfo(number).max


def check_overflow(kernel: PositionKernel, distance: int, number: torch.dtype) -> None:
    """Raise where a kernel :func:`overflows`."""
    if not overflows(kernel, distance, number):
        return
    raise ValueError(
        f"{type(kernel).__name__} leaves {number} at {kernel.overflow_at(number)} tokens, this call "
        f"reaches {distance}: use a lower order, smaller amplitudes or shear, a larger length, "
        "damping, or fp64 inputs"
    )


def largest_lag(q_pos: Tensor, k_pos: Tensor) -> int:
    """Largest distance between a query and a key of the same row, tokens.

    Args:
        q_pos: ``(Q,)`` or ``(B, Q)``.
        k_pos: ``(K,)`` or ``(B, K)``.
    """
    behind, ahead = q_pos.amax(-1) - k_pos.amin(-1), k_pos.amax(-1) - q_pos.amin(-1)
    return int(torch.maximum(behind, ahead).max())


def largest_position(q_pos: Tensor, k_pos: Tensor) -> int:
    """Largest distance of a query or key from position 0, tokens."""
    return int(torch.maximum(q_pos.abs().max(), k_pos.abs().max()))


def check_distance(problem: Problem) -> None:
    """Raise where the kernel would leave the number type at a distance that the call reaches."""
    kernel, positions, number = problem.kernel, (problem.q_pos, problem.k_pos), wide(problem.q)
    if problem.plain:
        distance = max(problem.queries, problem.keys) - 1
    elif not kernel.claims.relative:
        distance = largest_position(*positions)
    else:
        distance = largest_lag(*positions)
        if problem.masked and overflows(kernel, distance, number):
            distance = largest_visible(problem)
    check_overflow(kernel, distance, number)


def largest_visible(problem: Problem) -> int:
    """Largest lag of a pair that may attend: hidden ones may be any, and are read pair by pair."""
    most = 0
    for start, stop, keys in problem.blocks():
        d = lags(problem.q_pos[..., start:stop], problem.k_pos[..., :keys]).abs()
        kept = problem.kept(start, stop, keys)
        if kept is not None and kept.ndim == 4:
            kept = kept.any(1)
        most = max(most, int(d.max() if kept is None else torch.where(kept, d, 0).max()))
    return most
