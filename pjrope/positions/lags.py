"""Lags and masks: the only home of the sign ``lag = query position - key position``."""

from __future__ import annotations

import torch
from torch import Tensor

from ..conventions import as_positions

Causal = bool | str  # True, False or "strict"


def lags(q_pos: Tensor, k_pos: Tensor) -> Tensor:
    """Lag of every query-key pair, ``d = i - j``: positive looks back.

    Args:
        q_pos: ``(..., Q)`` integers, tokens.
        k_pos: ``(..., K)`` integers, tokens.

    Returns:
        ``(..., Q, K)`` int64: in a narrower type a difference could wrap.

    Raises:
        ValueError: positions that are not integers.
    """
    i, j = as_positions(q_pos, "q_pos"), as_positions(k_pos, "k_pos")
    return i[..., :, None] - j[..., None, :]


def check_causal(causal: Causal) -> None:
    """Raise unless ``causal`` is one of its three values."""
    # By identity: 1 == True would pass, and backends then disagree on what it means.
    if not (causal is True or causal is False or causal == "strict"):
        raise ValueError(f"causal={causal!r}: use True, False or 'strict' (no self-attention)")


def visible_keys(index: int, queries: int, keys: int, causal: Causal) -> int:
    """How many leading keys the query with this index may see, aligned at the bottom right.

    The last query sees the last key, as with a cache: of 5 keys, the first of 2 queries sees 4.

    Args:
        index: row of the query, ``0 <= index < queries``.
        queries: Q.
        keys: K.
        causal: True (itself and before), "strict" (before) or False (all).
    """
    if causal is False:
        return keys
    return max(0, min(keys, keys - queries + index + (0 if causal == "strict" else 1)))


def causal_keep(
    queries: int,
    keys: int,
    causal: Causal = True,
    *,
    start: int = 0,
    stop: int | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Mask of the pairs that causality allows, by index, aligned at the bottom right.

    Args:
        queries: Q of the whole pass.
        keys: K of the whole pass.
        causal: True, "strict" or False.
        start: first query row wanted.
        stop: row after the last, default Q.

    Returns:
        ``(stop-start, K)`` boolean, True = may attend.
    """
    check_causal(causal)
    stop = queries if stop is None else stop
    if causal is False:
        return torch.ones(stop - start, keys, dtype=torch.bool, device=device)
    rows = torch.arange(start, stop, device=device) + (keys - queries)
    past = lags(rows, torch.arange(keys, device=device))
    return past > 0 if causal == "strict" else past >= 0


def segment_keep(q_segments: Tensor, k_segments: Tensor) -> Tensor:
    """Mask that keeps documents apart.

    Args:
        q_segments: ``(..., Q)`` document id of each query.
        k_segments: ``(..., K)`` document id of each key.

    Returns:
        ``(..., Q, K)`` boolean, True = same document.
    """
    return q_segments[..., :, None] == k_segments[..., None, :]
