"""Backend ``eager``: softmax attention written out, the truth at any length."""

from __future__ import annotations

import torch
from torch import Tensor

from ..blocks import Block
from ..call import Call
from ..scores import Scores
from .loop import blocked


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


def refuses(call: Call) -> str | None:
    """None: this backend takes every call."""
    return None


def weighted(scores: Scores, block: Block, logits: Tensor) -> Tensor:
    """Values of a block's keys under the softmax of logits, bias and mask.

    Args:
        scores: of the call.
        block: of queries.
        logits: ``(B, H, rows, keys)`` scaled, without bias.

    Returns:
        ``(B, H, rows, Dv)``.
    """
    bias = scores.bias(block)
    if bias is not None:
        logits = logits + bias
    mask = scores.mask(block)
    weights = masked_softmax(logits, mask)
    values = scores.call.spread(scores.call.v[:, :, block.low : block.high]).to(weights.dtype)
    if not scores.call.broken:
        return weights @ values
    finite = values.isfinite()
    visible = torch.ones_like(weights) if mask is None else mask.expand_as(weights).to(weights)
    touched = visible @ (~finite).to(weights.dtype) > 0  # 0 times nan is nan: only if it is seen
    return (weights @ values.where(finite, 0)).masked_fill(touched, torch.nan)


def _step(scores: Scores, block: Block) -> Tensor:
    return weighted(scores, block, scores.logits(block))


def run(call: Call) -> Tensor:
    """Attention in fp32 (fp64 for fp64 inputs), one query block at a time: ``(B, H, Q, Dv)``."""
    return blocked(call, _step)
