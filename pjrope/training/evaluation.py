"""Evaluation: the same bytes scored at every context length, and where in the window loss sits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..data.batches import EvaluationWindows

TOKENS_PER_BATCH = 8192


@torch.no_grad()
def token_losses(model: nn.Module, windows: Tensor) -> Tensor:
    """Loss of every prediction in every window.

    Args:
        model: tokens ``(B, N)`` to logits ``(B, N, vocab)``.
        windows: ``(n, T + 1)`` int64.

    Returns:
        ``(n, T)`` fp32 on the CPU, nats per token.

    Raises:
        ValueError: windows of fewer than 2 tokens, which hold nothing to predict.
    """
    if windows.ndim != 2 or windows.shape[1] < 2:
        raise ValueError(
            f"windows have shape {tuple(windows.shape)}, (n, T + 1) with T >= 1 is needed: each token "
            "is predicted from those before it"
        )
    device = next((p.device for p in model.parameters()), windows.device)
    rows = max(1, TOKENS_PER_BATCH // (windows.shape[1] - 1))
    found = []
    with evaluating(model):
        for batch in windows.split(rows):
            batch = batch.to(device)
            logits = model(batch[:, :-1]).float()
            loss = cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="none")
            found.append(loss.view_as(batch[:, 1:]).cpu())
    return torch.cat(found)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Every module in evaluation mode, and afterwards each in its own again, after errors too."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def position_buckets(losses: Tensor, edges: Sequence[int]) -> list[dict[str, Any]]:
    """Mean loss by position in the window.

    Args:
        losses: ``(n, T)``.
        edges: bucket ends, ascending; those beyond T are dropped.

    Returns:
        one ``{"from", "to", "loss"}`` a bucket, positions counted from 0, ``to`` exclusive.
    """
    ends = [e for e in edges if e < losses.shape[1]] + [losses.shape[1]]
    starts = [0, *ends[:-1]]
    return [
        {"from": a, "to": b, "loss": float(losses[:, a:b].double().mean())}
        for a, b in zip(starts, ends, strict=True)
    ]


def evaluate(
    model: nn.Module, windows: EvaluationWindows, *, lengths: Sequence[int]
) -> list[dict[str, Any]]:
    """Loss of the same scored segments at several context lengths.

    Args:
        model: tokens ``(B, N)`` to logits ``(B, N, vocab)``.
        windows: fixed segments of a text.
        lengths: context lengths T, tokens.

    Returns:
        a row per length: ``length``; ``loss`` over the scored segments (each byte predicted from
        at least T/2 bytes); ``segments``, the same one by one; ``loss_all``, the mean over all
        positions of the windows; ``buckets`` by position, doubling from 64. Nats per token.
    """
    rows = []
    for length in lengths:
        tokens, score_from = windows.windows(length)
        losses = token_losses(model, tokens)
        scored = losses[:, score_from:].double()
        per_segment = scored.reshape(len(windows.ends), -1).mean(1)
        rows.append(
            {
                "length": length,
                "loss": float(per_segment.mean()),
                "segments": [float(x) for x in per_segment],
                "loss_all": float(losses.double().mean()),
                "buckets": position_buckets(losses, [64 * 2**n for n in range(15)]),
            }
        )
    return rows
