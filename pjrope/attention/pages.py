"""Room of a cache, in pages whose keys share an origin, and the scores of keys stored by page."""

from __future__ import annotations

import torch
from torch import Tensor

from ..conventions import wide
from ..kernels.base import PositionKernel

PAGE = 256  # keys that share an origin


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
