"""How far a call reaches, and whether its kernel's numbers stay in range there."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels.base import PositionKernel
from ..positions.lags import lags
from .blocks import Block
from .masks import Masks

ROWS = 512  # queries whose lags are read at once


def check_overflow(kernel: PositionKernel, distance: int, number: torch.dtype) -> None:
    """Raise where the kernel's numbers may leave a number type at this distance.

    Args:
        kernel: of the call.
        distance: largest lag, or position for a kernel that is not relative, tokens.
        number: type in which biases and grown channels are computed.
    """
    growth = kernel.growth
    if growth.overflows(distance, number):
        raise ValueError(
            f"{type(kernel).__name__} leaves {number} at {growth.overflow_at(number)} tokens, this "
            f"call reaches {distance}: use a lower order, smaller amplitudes or shear, a larger "
            "length, damping, or fp64 inputs"
        )


def check_distance(
    kernel: PositionKernel,
    q_pos: Tensor,
    k_pos: Tensor,
    masks: Masks,
    number: torch.dtype,
    default_positions: bool = False,
) -> None:
    """Raise where the kernel would leave the number type at a distance that the call reaches.

    Args:
        kernel: of the call.
        q_pos: ``(Q,)`` or ``(B, Q)``, tokens.
        k_pos: ``(K,)`` or ``(B, K)``, tokens.
        masks: which pairs may attend.
        number: type in which biases and grown channels are computed.
        default_positions: positions are 0 … K-1, so that nothing needs to be read.
    """
    if torch.compiler.is_compiling() or not kernel.growth.asks:
        return
    if default_positions:
        distance = max(masks.queries, masks.keys) - 1
    elif not kernel.claims.relative:
        distance = largest_position(q_pos, k_pos)
    else:
        distance = largest_lag(q_pos, k_pos)
        if masks.masked and kernel.growth.overflows(distance, number):
            distance = largest_visible(q_pos, k_pos, masks)
    check_overflow(kernel, distance, number)


def check_finite(
    kernel: PositionKernel,
    values: Tensor,
    at: Tensor,
    q_pos: Tensor,
    k_pos: Tensor,
    masks: Masks,
) -> None:
    """Raise if a bias of unknown growth is not finite at a lag that a call reaches.

    Args:
        kernel: of the call.
        values: ``(H, n)`` its bias.
        at: ``(n,)`` the lags it is for, tokens.
        q_pos, k_pos, masks: as for :func:`check_distance`.
    """
    if torch.compiler.is_compiling() or values.is_meta or not kernel.unknown_growth():
        return
    first = first_infinite(values, at)
    if first is not None and first <= largest_visible(q_pos, k_pos, masks):
        raise ValueError(infinite_bias(kernel, first, values.dtype))


def first_infinite(values: Tensor, at: Tensor) -> int | None:
    """The smallest lag at which a bias is inf or nan in some head, or None."""
    finite = values.detach().isfinite().all(0)
    return None if bool(finite.all()) else int(at[~finite].abs().min())


def infinite_bias(kernel: PositionKernel, lag: int, number: torch.dtype) -> str:
    """The error of a bias that is not finite."""
    return (
        f"the bias of {' and '.join(kernel.unknown_growth())} is not finite in {number} at lag {lag}, "
        "which this call reaches: bound it, use fp64 inputs, or hide keys with keep"
    )


def largest_lag(q_pos: Tensor, k_pos: Tensor) -> int:
    """Largest distance between a query and a key of the same row, tokens.

    Args:
        q_pos: ``(Q,)`` or ``(B, Q)``.
        k_pos: ``(K,)`` or ``(B, K)``.
    """
    if not (q_pos.numel() and k_pos.numel()):
        return 0
    behind, ahead = q_pos.amax(-1) - k_pos.amin(-1), k_pos.amax(-1) - q_pos.amin(-1)
    return int(torch.maximum(behind, ahead).max())


def largest_position(q_pos: Tensor, k_pos: Tensor) -> int:
    """Largest distance of a query or key from position 0, tokens."""
    return max((int(pos.abs().max()) for pos in (q_pos, k_pos) if pos.numel()), default=0)


def largest_visible(q_pos: Tensor, k_pos: Tensor, masks: Masks) -> int:
    """Largest lag of a pair that may attend: hidden ones may be any, and are read pair by pair."""
    most = 0
    for start in range(0, masks.queries, ROWS):
        stop = min(masks.queries, start + ROWS)
        block = Block(start, stop, *masks.seen(start, stop))
        d = lags(q_pos[..., start:stop], k_pos[..., block.low : block.high]).abs()
        if not d.numel():
            continue
        kept = masks.of(block, d.device)
        if kept is not None and kept.ndim == 4:
            kept = kept.any(1)
        most = max(most, int(d.max() if kept is None else torch.where(kept, d, 0).max()))
    return most
