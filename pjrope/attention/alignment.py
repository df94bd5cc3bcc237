"""When does the lag follow from indices alone? What backends with one table must know."""

from __future__ import annotations

import torch
from torch import Tensor

from .masks import Masks


def find_offset(q_pos: Tensor, k_pos: Tensor, masks: Masks) -> int | None:
    """The number by which lags exceed distances in indices, over all pairs that may attend.

    Three cases have one: positions that run on without a break; packed documents, each run of which
    restarts; rows whose visible tokens run on behind their padding. Anything else gives None.

    Args:
        q_pos: ``(Q,)`` or ``(B, Q)``, tokens.
        k_pos: ``(K,)`` or ``(B, K)``, tokens.
        masks: which pairs may attend.
    """
    if torch.compiler.is_compiling():  # there are no numbers to read
        return None
    if not (q_pos.numel() and k_pos.numel()):  # no rows, no pairs: any number will do
        return 0
    q_shift, k_shift = _shift(q_pos, masks.keys), _shift(k_pos, masks.keys)
    if bool((q_shift == q_shift.flatten()[0]).all() & (k_shift == k_shift.flatten()[0]).all()):
        return int(q_shift.flatten()[0] - k_shift.flatten()[0])
    if not _last_ones(q_pos, k_pos):
        return None
    if masks.segments is not None:
        run = _last_ones(*masks.segments) and _runs_on(masks.segments[1], k_shift)
        return 0 if run else None
    # Without causality the padding's own rows would see real keys, at lags of another offset.
    if masks.causal is False or masks.keep is None:
        return None
    return 0 if _behind_padding(masks.keep, k_shift) else None


def _shift(pos: Tensor, keys: int) -> Tensor:
    """Position minus index, indices counted so that the last is ``keys - 1``."""
    count = pos.shape[-1]
    return pos - torch.arange(keys - count, keys, device=pos.device)


def _last_ones(queries: Tensor, keys: Tensor) -> bool:
    """True if the queries' values are the last of the keys'."""
    count = queries.shape[-1]
    return count <= keys.shape[-1] and torch.equal(queries, keys[..., keys.shape[-1] - count :])


def _runs_on(ids: Tensor, shift: Tensor) -> bool:
    """True if within each document, one unbroken run, positions run on."""
    ids, shift = torch.broadcast_tensors(ids.to(shift.device), shift)
    ids, shift = ids.reshape(-1, ids.shape[-1]), shift.reshape(-1, shift.shape[-1])
    same = ids[:, 1:] == ids[:, :-1]
    if not bool((shift[:, 1:] == shift[:, :-1])[same].all()):
        return False
    runs = 1 + (~same).sum(-1)
    return all(len(row.unique()) == int(n) for row, n in zip(ids, runs, strict=True))


def _behind_padding(keep: Tensor, shift: Tensor) -> bool:
    """True if ``keep`` only hides keys, and from each row's first visible key on positions run on."""
    if keep.ndim != 4 or keep.shape[1] != 1 or keep.shape[2] != 1 or keep.shape[3] == 1:
        return False
    visible = keep[:, 0, 0]
    shift, visible = torch.broadcast_tensors(shift if shift.ndim == 2 else shift[None], visible)
    first = visible.to(torch.int64).argmax(-1, keepdim=True)
    behind = torch.arange(shift.shape[-1], device=shift.device) >= first
    return bool(((shift == shift.gather(-1, first)) | ~behind).all())
