"""Which integer each token carries: full, packed, cached and left-padded sequences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def full_positions(length: int, *, device: torch.device | str | None = None) -> Tensor:
    """Positions of one unbroken sequence, ``0 … length-1``: 4 -> [0, 1, 2, 3].

    Args:
        length: number of tokens.

    Returns:
        ``(length,)`` int64.
    """
    return torch.arange(length, device=device)


def cached_positions(past: int, new: int, *, device: torch.device | str | None = None) -> Tensor:
    """Positions of ``new`` tokens that follow ``past`` cached ones: (5, 2) -> [5, 6].

    Returns:
        ``(new,)`` int64.
    """
    return torch.arange(past, past + new, device=device)


def packed_positions(
    lengths: Sequence[int], *, device: torch.device | str | None = None
) -> tuple[Tensor, Tensor]:
    """Positions and document ids of documents laid end to end: [2, 3] -> [0,1,0,1,2], [0,0,1,1,1].

    Restarted positions alone still let documents see each other: pass the ids to ``attend`` as
    ``segments``.

    Args:
        lengths: tokens of each document, each at least 1.

    Returns:
        positions and segments, both ``(sum(lengths),)`` int64.

    Raises:
        ValueError: a document without tokens.
    """
    for n, length in enumerate(lengths):
        if length < 1:
            raise ValueError(f"document {n} has length {length}, at least 1 is needed: drop it")
    positions = torch.cat([torch.arange(n, device=device) for n in lengths])
    counts = torch.tensor(list(lengths), device=device)
    return positions, torch.repeat_interleave(torch.arange(len(counts), device=device), counts)


def left_padded_positions(real: Tensor) -> Tensor:
    """Positions of left-padded rows; the pads repeat 0: [F, F, T, T] -> [0, 0, 0, 1].

    Args:
        real: ``(B, N)`` boolean, True at tokens that are not padding.

    Returns:
        ``(B, N)`` int64.
    """
    return (real.to(torch.int64).cumsum(-1) - 1).clamp(min=0)
