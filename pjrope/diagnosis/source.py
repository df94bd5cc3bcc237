"""What is diagnosed: token ids with where they came from, and how they were made."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["FEWEST", "InputError", "Source", "source_of"]

FEWEST = 64  # tokens; fewer are a mistake of the caller, more but still few get a verdict
MOST_IDS = 2048  # distinct ids kept apart; the rarest share one


class InputError(ValueError):
    """Input that cannot be diagnosed, told in one line that names the way out."""


@dataclass(frozen=True, eq=False)
class Source:
    """A sequence of token ids and what a report must say about it.

    Attributes:
        name: file or what the caller calls it.
        kind: "text", "ids", "midi" or "csv".
        tokens: ``(n,)`` int64, ids from 0, every one of them in use.
        vocab: number of ids.
        notes: how the tokens were made, one sentence each.
        sha256: of the tokens, hex.
    """

    name: str
    kind: str
    tokens: Tensor
    vocab: int
    notes: tuple[str, ...] = ()
    sha256: str = field(default="", compare=False)

    def __len__(self) -> int:
        return len(self.tokens)


def source_of(
    ids: Any, *, name: str, kind: str = "ids", notes: Sequence[str] = (), vocab: int | None = None
) -> Source:
    """Check ids and number those that occur from 0.

    Args:
        ids: ``(n,)`` integers >= 0: a tensor, an array or a sequence.
        name: for the report.
        kind: "text", "ids", "midi" or "csv".
        notes: how the ids were made.
        vocab: ids must be below this; None allows any.

    Raises:
        InputError: no integers, an id out of range, or fewer than 64 of them.

    Limits: of more than 2,048 distinct ids the rarest become one, and a note says so.
    """
    array = _whole(ids, name)
    if len(array) < FEWEST:
        raise InputError(f"{name} holds {len(array)} tokens: at least {FEWEST} are needed")
    low, high = int(array.min()), int(array.max())
    if low < 0 or (vocab is not None and high >= vocab):
        bad, limit = (low, "0") if low < 0 else (high, f"the vocabulary's {vocab:,}")
        where = int(np.flatnonzero(array == bad)[0])
        raise InputError(
            f"{name} has the id {bad} at index {where}, out of range: ids start at 0 and stay below "
            f"{'the vocabulary' if low < 0 else limit}"
        )
    values, dense, counts = np.unique(array, return_inverse=True, return_counts=True)
    said = list(notes)
    if len(values) > MOST_IDS:
        order = np.argsort(-counts, kind="stable")
        rank = np.empty(len(values), np.int64)
        rank[order] = np.arange(len(values))
        dense = np.minimum(rank, MOST_IDS - 1)[dense]
        share = counts[order[MOST_IDS - 1 :]].sum() / len(array)
        said.append(
            f"Of {len(values):,} distinct ids the {MOST_IDS - 1:,} most frequent are kept; the others, "
            f"{share:.1%} of the tokens, share one."
        )
    dense = np.ascontiguousarray(dense.reshape(-1), dtype=np.int64)
    return Source(
        name=name,
        kind=kind,
        tokens=torch.from_numpy(dense),
        vocab=int(dense.max()) + 1,
        notes=tuple(said),
        sha256=hashlib.sha256(dense.tobytes()).hexdigest(),
    )


def _whole(ids: Any, name: str) -> np.ndarray:
    if isinstance(ids, Tensor):
        ids = ids.detach().cpu().numpy()
    try:
        array = np.asarray(ids)
    except (ValueError, OverflowError):
        raise InputError(f"{name} is no flat list of integers") from None
    if array.ndim != 1 or not array.size:
        raise InputError(f"{name} has shape {array.shape}: one row of token ids (n,) is needed")
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{name} holds {array.dtype} values, token ids are integers: convert them, or give a "
            "numeric series as a CSV column"
        )
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.max() > 2**62:
        raise InputError(f"{name} has the id {array.max()}, out of range: ids stay below 2^62")
    return array.astype(np.int64)
