"""Keys and values that are not finite: what nobody sees must not count."""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import Block
from .masks import Masks

ROWS = 512  # queries whose masks are read at once


def without_unseen(k: Tensor, v: Tensor, masks: Masks) -> tuple[Tensor, Tensor, bool]:
    """Keys and values with 0 for those that are not finite and that no query sees.

    A weight of 0 times nan is nan, so what a mask hides would spread. Read on the CPU alone: on
    other devices, inside graphs of torch.compile and transforms of torch.func, nobody waits for the
    answer.

    Args:
        k: ``(B, Hk, K, D)``.
        v: ``(B, Hk, K, Dv)``.
        masks: which pairs may attend.

    Returns:
        k and v, as they were if all is finite or nothing is hidden, and whether some query sees
        what is not finite while another must not.
    """
    hides = masks.masked or masks.window is not None or masks.causal is not False
    if not hides or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return k, v, False
    if _finite(k) and _finite(v):
        return k, v, False
    seen = _seen(masks, k.device)[..., None]  # (1 or B, 1 or H, K, 1)
    if seen.shape[1] > 1:  # of query heads: a key head is seen if one that it serves sees it
        seen = seen.unflatten(1, (k.shape[1], -1)).any(2)
    k, v = k.where(seen, 0), v.where(seen, 0)
    return k, v, not (_finite(k) and _finite(v))


def _finite(x: Tensor) -> bool:
    if x.device.type != "cpu" or not x.numel():
        return True
    low, high = torch.aminmax(x.detach())
    return bool(low.isfinite() & high.isfinite())


def _seen(masks: Masks, device: torch.device) -> Tensor:
    """Which keys some query sees, ``(1 or B, 1 or H, K)``."""
    seen = torch.zeros(1, 1, masks.keys, dtype=torch.bool, device=device)
    for start in range(0, masks.queries, ROWS):
        stop = min(masks.queries, start + ROWS)
        block = Block(start, stop, *masks.seen(start, stop))
        kept = masks.of(block, device)
        if kept is None:
            own = torch.ones(1, 1, 1, dtype=torch.bool, device=device)
        else:
            own = kept.any(-2)
            own = own[None, None] if own.ndim == 1 else own
        shape = (max(len(seen), len(own)), max(seen.shape[1], own.shape[1]), masks.keys)
        seen = seen.expand(shape).clone()
        seen[..., block.low : block.high] |= own
    return seen
