"""The query-block loop that backends share: memory grows with N, never with N x N."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..blocks import Block, plan
from ..call import Call
from ..scores import Scores

Step = Callable[[Scores, Block], Tensor]


def blocked(call: Call, step: Step) -> Tensor:
    """Run ``step`` on every query block and join the rows.

    With several blocks and gradients wanted, each block is recomputed in the backward pass instead
    of stored, or the stored logits would add up to N x N.

    Args:
        call: the checked call.
        step: ``(scores, block) -> (B, H, rows, Dv)``.

    Returns:
        ``(B, H, Q, Dv)`` in the dtype of q.
    """
    scores, blocks = Scores(call), plan(call)
    recompute = len(blocks) > 1 and torch.is_grad_enabled() and not transformed()
    rows = []
    for block in blocks:
        if recompute:
            out = checkpoint(step, scores, block, use_reentrant=False)
        else:
            out = step(scores, block)
        rows.append(out.to(call.q.dtype))
    return rows[0] if len(rows) == 1 else torch.cat(rows, dim=2)


def transformed() -> bool:
    """True inside ``torch.func`` transforms, which neither recompute blocks nor take our operators."""
    if torch.compiler.is_compiling():  # which traces through transforms by itself
        return False
    return torch._C._are_functorch_transforms_active()


def first(reasons: Iterable[tuple[str, bool]]) -> str | None:
    """The first reason that is true, or None."""
    for reason, true in reasons:  # no `next(generator)`: older torch.compile cannot follow it
        if true:
            return reason
    return None
