"""The query-block loop that backends share: memory grows with N, never with N x N."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..problem import Problem

Step = Callable[[Problem, int, int, int], Tensor]


def blocked(problem: Problem, step: Step) -> Tensor:
    """Run ``step`` on every query block and join the rows.

    With several blocks and gradients wanted, each block is recomputed in the backward pass instead
    of stored, or the stored logits would add up to N x N.

    Args:
        problem: the call.
        step: ``(problem, start, stop, keys) -> (B, H, rows, Dv)``.

    Returns:
        ``(B, H, Q, Dv)`` in the dtype of q.
    """
    problem.prepare()
    blocks = problem.blocks()
    recompute = len(blocks) > 1 and torch.is_grad_enabled()
    rows = []
    for start, stop, keys in blocks:
        if recompute:
            out = checkpoint(step, problem, start, stop, keys, use_reentrant=False)
        else:
            out = step(problem, start, stop, keys)
        rows.append(out.to(problem.q.dtype))
    return rows[0] if len(rows) == 1 else torch.cat(rows, dim=2)


def first(reasons: Iterable[tuple[str, bool]]) -> str | None:
    """The first reason that is true, or None."""
    for reason, true in reasons:  # no `next(generator)`: older torch.compile cannot follow it
        if true:
            return reason
    return None
