"""Checks of a cache: what does not continue it is named, with what is needed."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels.base import PositionKernel
from . import pages
from .overflow import check_overflow, largest_lag, largest_position


def check_new(k: Tensor, v: Tensor, pos: Tensor) -> None:
    """Raise unless new keys, values and positions fit each other and carry no gradient."""
    batch, _, new = k.shape[:3]
    if v.shape[:3] != k.shape[:3] or v.dtype != k.dtype:
        raise ValueError(
            f"k is {k.dtype} {tuple(k.shape)} and v {v.dtype} {tuple(v.shape)}: dtype, batch, "
            "heads and tokens must agree"
        )
    if pos.shape not in ((new,), (batch, new)):
        raise ValueError(
            f"pos has shape {tuple(pos.shape)}, ({new},) or ({batch}, {new}) is needed"
        )
    if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
        raise ValueError("a KVCache carries no gradients: decode under torch.no_grad()")


def check_room(held: int, new: int, most: int | None) -> None:
    """Raise where new tokens would be more than a cache may hold."""
    if most is not None and held + new > most:
        raise ValueError(
            f"{held} tokens cached and {new} new exceed max_length={most}: make a larger KVCache"
        )


def check_like(v: Tensor, pos: Tensor, values: Tensor, positions: Tensor) -> None:
    """Raise unless new tokens are like those held in all but their number."""
    held = (*values.shape[:2], values.shape[3], values.dtype, positions.ndim)
    if held != (*v.shape[:2], v.shape[3], v.dtype, pos.ndim):
        raise ValueError(
            f"v is {v.dtype} {tuple(v.shape)} at positions {tuple(pos.shape)}, the cache holds "
            f"{values.dtype} {tuple(values.shape)} at {tuple(positions.shape)}: only "
            "the number of tokens may change"
        )


def check_reach(kernel: PositionKernel, shift: Tensor) -> None:
    """Raise where a key would be rotated further from its page's origin than is precise."""
    if not shift.numel():
        return
    furthest, reach = int(shift.abs().max()), kernel.reach(torch.float32)
    if furthest > reach:
        raise ValueError(
            f"positions jump by {furthest} tokens within a page of {pages.PAGE}, and this "
            f"{type(kernel).__name__} reaches {int(reach)} from one origin: let positions "
            "run on, or call attend() on the whole sequence"
        )


def check_apart(
    kernel: PositionKernel, pos: Tensor, run_on: int | None, number: torch.dtype
) -> None:
    """Raise where the kernel would leave the number type at the distances of these tokens.

    Args:
        kernel: of the cache.
        pos: ``(n,)`` or ``(B, n)``, all tokens held and new.
        run_on: the position behind them if they run on without a break: nothing is read then.
        number: type in which biases and grown channels are computed.
    """
    total = pos.shape[-1]
    if not total or not kernel.growth.asks:
        return
    if run_on is None:
        apart = largest_lag if kernel.claims.relative else largest_position
        distance = apart(pos, pos)
    else:
        first, last = run_on - total, run_on - 1
        distance = last - first if kernel.claims.relative else max(abs(first), abs(last))
    check_overflow(kernel, distance, number)


def check_rows(rows: Tensor, batch: int) -> None:
    """Raise unless ``rows`` are indices of rows of a batch."""
    if rows.ndim != 1 or rows.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"rows are {rows.dtype} {tuple(rows.shape)}, (n,) int64 is needed")
    if rows.numel() and not (int(rows.min()) >= 0 and int(rows.max()) < batch):
        raise ValueError(f"rows are {rows.tolist()}, the cache holds rows 0 to {batch - 1}")


def same_kernel(one: PositionKernel, other: PositionKernel) -> bool:
    """True if two kernels do the same: one object, or equal specs and values."""
    if one is other:
        return True
    if one.spec != other.spec:
        return False
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(
        x.shape == y.shape and torch.equal(x.cpu(), y.cpu())
        for x, y in zip(mine.values(), theirs.values(), strict=True)
    )
