"""Backend ``eager``: softmax attention written out, the truth at any length."""

from __future__ import annotations

import torch
from torch import Tensor

from ..problem import Problem
from .blocks import blocked


def masked_softmax(logits: Tensor, keep: Tensor | None) -> Tensor:
    """Softmax over the last axis where hidden entries weigh 0 and an empty row is all zeros.

    Args:
        logits: ``(..., K)``.
        keep: broadcastable boolean, or None.

    Returns:
        weights of the same shape; gradients are finite for empty rows too.
    """
    if keep is None:
        return logits.softmax(-1)
    logits = logits.masked_fill(~keep, -torch.inf)
    top = logits.detach().amax(-1, keepdim=True)
    weights = torch.exp(logits - top.masked_fill(top == -torch.inf, 0.0))
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def refuses(problem: Problem) -> str | None:
    """None: this backend takes every call."""
    return None


def _step(problem: Problem, start: int, stop: int, keys: int) -> Tensor:
    logits = problem.logits(start, stop, keys)
    bias = problem.bias(start, stop, keys)
    if bias is not None:
        logits = logits + bias
    weights = masked_softmax(logits, problem.kept(start, stop, keys))
    values = problem.spread(problem.v[:, :, :keys])
    return weights @ values.to(weights.dtype)


def run(problem: Problem) -> Tensor:
    """Attention in fp32 (fp64 for fp64 inputs), one query block at a time: ``(B, H, Q, Dv)``."""
    return blocked(problem, _step)
