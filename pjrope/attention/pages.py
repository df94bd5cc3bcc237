"""Room of a cache, in pages whose keys share an origin, and the scores of keys stored by page."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..conventions import wide
from ..kernels.base import PositionKernel
from .overflow import first_infinite, infinite_bias

PAGE = 256  # keys that share an origin


def storage_mode(kernel: PositionKernel | None) -> str:
    """How a cache stores keys of a kernel: "rotated", "paged" or "raw"."""
    if kernel is None or not kernel.rotates or kernel.scored:
        return "raw"
    claims = kernel.claims
    if not (claims.relative and claims.length_free):
        return "raw"
    if kernel.any_origin:
        return "rotated"
    return "paged" if kernel.reach(torch.float32) >= PAGE else "raw"


def page_origins(pos: Tensor, start: int, stop: int) -> Tensor:
    """Origin of each token in the index range: the first position of its page."""
    return pos[..., torch.arange(start, stop, device=pos.device) // PAGE * PAGE]


def next_position(following: int | None, length: int, pos: Tensor) -> int | None:
    """The position behind new tokens if they run on from those held, else None.

    Args:
        following: the position behind the tokens held; None once they did not run on.
        length: tokens held.
        pos: ``(n,)`` or ``(B, n)`` of the new ones, all that is read.
    """
    if following is None or pos.ndim > 1:
        return None
    start = int(pos[0]) if length == 0 and len(pos) else following
    run = torch.arange(start, start + len(pos), device=pos.device)
    return start + len(pos) if torch.equal(pos, run) else None


def grown(held: Tensor | None, new: Tensor, length: int, axis: int) -> Tensor:
    """``held`` with ``new`` written behind ``length``; room, in whole pages, doubles when full."""
    axis = axis % new.ndim
    total = length + new.shape[axis]
    if held is None or held.shape[axis] < total:
        shape = list(new.shape)
        wanted = max(total, 2 * (0 if held is None else held.shape[axis]))
        shape[axis] = -(-wanted // PAGE) * PAGE
        room = new.new_zeros(shape)
        if held is not None:
            room.narrow(axis, 0, length).copy_(held.narrow(axis, 0, length))
        held = room
    if held.is_inference() and not torch.is_inference_mode_enabled():
        held = held.clone()  # filled under inference_mode, where it cannot be written from outside
    held.narrow(axis, length, new.shape[axis]).copy_(new)
    return held


def page_logits(
    kernel: PositionKernel, q: Tensor, q_pos: Tensor, k: Tensor, k_pos: Tensor, keys: int
) -> Tensor:
    """Unscaled scores of queries and the first ``keys`` keys, stored by page.

    Args:
        kernel: whose action the keys already have, about the first position of their page.
        q: ``(B, H, Q, D)`` queries before the kernel.
        q_pos: ``(Q,)`` or ``(B, Q)``.
        k: ``(B, Hk, room, D')`` rotated keys, whole pages.
        k_pos: ``(room,)`` or ``(B, room)``.
        keys: how many leading keys.

    Returns:
        ``(B, H, Q, keys)`` in fp32 or better.
    """
    pages = -(-keys // PAGE)
    origins = k_pos[..., : pages * PAGE : PAGE]
    shifted = (q_pos[..., None, :] - origins[..., :, None]).flatten(-2)  # (.., pages * Q)
    many = q[:, :, None].expand(-1, -1, pages, -1, -1).flatten(2, 3)
    many, _ = kernel.rotate(many, None, shifted, None)
    groups = q.shape[1] // k.shape[1]
    many = many.unflatten(2, (pages, q.shape[2])).unflatten(1, (-1, groups))
    by_page = k[:, :, : pages * PAGE].unflatten(2, (pages, PAGE))[:, :, None]
    number = wide(many)
    scores = many.to(number) @ by_page.to(number).mT  # (B, Hk, groups, pages, Q, PAGE)
    return scores.flatten(1, 2).transpose(2, 3).flatten(3)[..., :keys]


@dataclass(frozen=True, eq=False)
class ReversedBias:
    """A kernel's bias at lags ``n-1 … 0``, so that its end is that of the last token's keys.

    Kept, like rotated keys, from one step to the next: a cache is worth as much as the parameters it
    was filled with.

    Attributes:
        table: ``(H, n)``, or None as long as nobody asked.
        infinite: smallest lag at which a bias of unknown growth is not finite, or None.
    """

    table: Tensor | None = None
    infinite: int | None = None

    @classmethod
    def of(
        cls, kernel: PositionKernel, length: int, number: torch.dtype, device: torch.device
    ) -> ReversedBias:
        """The bias of a kernel, with room for twice as many tokens."""
        lags = torch.arange(max(64, 2 * length), device=device).flip(0)
        values = kernel.lag_bias(lags)
        if values is None:
            raise TypeError(f"{type(kernel).__name__}.lag_bias() gave None and biases is True")
        values = values.to(number)
        unknown = bool(kernel.unknown_growth())
        return cls(values, first_infinite(values, lags) if unknown else None)

    def serves(self, length: int, number: torch.dtype) -> bool:
        """True if it reaches over so many tokens in this number type."""
        return (
            self.table is not None and self.table.shape[1] >= length and self.table.dtype == number
        )

    def check(self, kernel: PositionKernel, length: int) -> None:
        """Raise if the bias is not finite at a lag that so many tokens reach."""
        if self.infinite is not None and self.table is not None and self.infinite < length:
            raise ValueError(infinite_bias(kernel, self.infinite, self.table.dtype))
