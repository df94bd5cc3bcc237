"""A logit split into what it is without shear and what the coupled mode adds."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ....kernels import PositionKernel
from ....kernels.composition import DirectSum
from ....kernels.jordan_action import JordanAction
from ...codes.rounding import Quantizer
from .serving import without_shear

__all__ = ["logits", "shear_logits"]


def logits(
    kernel: PositionKernel,
    q: Tensor,
    k: Tensor,
    q_pos: Tensor,
    k_pos: Tensor,
    quantizer: Quantizer | None = None,
) -> Tensor:
    """``R(q).R(k) / sqrt(D)``, the turned keys rounded if a quantizer is given: ``(B, H, Q, K)``."""
    turned_q, turned_k = kernel.rotate(q, k, q_pos, k_pos)
    assert turned_q is not None and turned_k is not None  # both were given
    turned_k = turned_k if quantizer is None else quantizer(turned_k)
    return turned_q @ turned_k.mT / math.sqrt(q.shape[-1])


def _jordan_parts(kernel: PositionKernel) -> list[tuple[slice, JordanAction]]:
    """The sheared blocks of a kernel, with the channels they act on."""
    if isinstance(kernel, DirectSum):
        found, start = [], 0
        for part in kernel.parts:
            assert isinstance(part, PositionKernel) and isinstance(part.head_dim, int)
            found += [
                (slice(start + at.start, start + at.stop), jordan)
                for at, jordan in _jordan_parts(part)
            ]
            start += part.head_dim
        return found
    if isinstance(kernel, JordanAction) and kernel.eta is not None:
        return [(slice(0, kernel.head_dim), kernel)]
    return []


@torch.no_grad()
def shear_logits(
    kernel: PositionKernel,
    q: Tensor,
    k: Tensor,
    q_pos: Tensor,
    k_pos: Tensor,
    *,
    by_lag: bool = False,
) -> Tensor:
    """The coupled mode's part of a logit, from its closed form.

    ``sum_b eta_b (s_i - s_j) Re conj(q_b0) k_b1 e^{-(gamma + i omega)(i - j)} / sqrt(D)``, with
    slots 0 and 1 of block b; what is left of the logit has a shear of 0.

    Args:
        kernel: blocks of order 2, alone or in a direct sum; any other kernel gives 0.
        q, k: ``(B, H, Q, D)``, ``(B, H, K, D)`` before the action, one key head a query head.
        q_pos, k_pos: ``(Q,)``, ``(K,)``.
        by_lag: take s(i - j) for s_i - s_j as the reference does, which is wrong for a shear that
            saturates in the absolute position.

    Raises:
        ValueError: blocks of another order.
    """
    total = q.new_zeros(*q.shape[:3], k.shape[2])
    for at, part in _jordan_parts(kernel):
        assert part.eta is not None  # of a sheared block
        if part.order != 2:
            raise ValueError(f"blocks of order {part.order}: the two-term split needs order 2")
        turned_q, turned_k = without_shear(part).rotate(q[..., at], k[..., at], q_pos, k_pos)
        assert turned_q is not None and turned_k is not None  # both were given
        upper = turned_q.unflatten(-1, (-1, 2, 2))[..., 0, :] * part.eta.double()[:, None, :, None]
        lower = turned_k.unflatten(-1, (-1, 2, 2))[..., 1, :]
        products = upper.flatten(-2) @ lower.flatten(-2).mT
        if by_lag:
            times = _time(part, q_pos[:, None] - k_pos)
        else:
            times = _time(part, q_pos)[:, None] - _time(part, k_pos)
        total += times * products
    return total / math.sqrt(q.shape[-1])


def _time(part: JordanAction, positions: Tensor) -> Tensor:
    """The shear time s(p) of a form, fp64."""
    return part.shear.time(positions)
