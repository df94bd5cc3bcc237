"""A kernel's bias for FlexAttention: a ``score_mod`` that reads one table."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..kernels.base import PositionKernel
from .dense import needs_bias

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def score_mod(
    kernel: PositionKernel,
    length: int,
    *,
    offset: int = 0,
    device: torch.device | str | None = None,
) -> ScoreMod:
    """A function for ``flex_attention(q, k, v, score_mod=...)`` that adds a kernel's bias.

    Args:
        kernel: a kernel that does nothing but bias.
        length: most keys of a call, tokens.
        offset: keys ahead of the first query: ``keys - queries`` where queries are the last tokens.
        device: of the queries, default the kernel's.

    Returns:
        ``(score, batch, head, query, key) -> score + b_head(query + offset - key)``.

    Raises:
        ValueError: a kernel that does more than bias, or a length below 1.

    Limits: the bias is read when this is called. In training make it anew for every step, or gradients go
    to the values of the step before. Beyond ``length`` the bias stays that of the farthest lag. Causality
    is not in it: give ``flex_attention`` a block mask. FlexAttention trains on GPUs only.
    """
    needs_bias(kernel)
    if length < 1:
        raise ValueError(f"length is {length}, the most keys of a call are needed, at least 1")
    at = torch.arange(1 - length, length)
    held = next((x.device for x in (*kernel.parameters(), *kernel.buffers())), None)
    table = kernel.lag_bias(at.to(held))
    assert table is not None  # needs_bias has seen that there is one
    flat = table.to(device=device, dtype=torch.float32).reshape(-1).contiguous()
    width, middle = len(at), length - 1

    def add_bias(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        # One read of one flat table: torch refuses gradients of a tensor that is indexed twice.
        lag = (query + offset - key).clamp(-middle, middle)
        return score + flat[head * width + lag + middle]

    return add_bias
