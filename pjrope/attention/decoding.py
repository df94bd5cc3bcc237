"""One new token behind a cache: two products and a softmax, as there is nothing to block or mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..conventions import wide
from ..kernels.base import PositionKernel
from .checks import check_kernel, check_tensors

if TYPE_CHECKING:
    from .cache import KVCache


def is_simple(q: Tensor, q_pos: Tensor, cache: KVCache, kernel: PositionKernel) -> bool:
    """True if :func:`decode_one` may take a call without ``keep``.

    One query in fp32 or fp64, no gradients, keys that need no more than a rotation of the query, and
    positions that run on where a bias reads its lags from them.
    """
    turned = cache.mode in ("rotated", "paged") or not (kernel.rotates or kernel.scored)
    return (
        q.shape[2] == 1
        and q.dtype == wide(q)  # halves would round logits: fused kernels sum them in fp32
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and turned
        and (not kernel.biases or cache.runs_on_to(q_pos))
    )


def decode_one(
    q: Tensor, q_pos: Tensor, cache: KVCache, kernel: PositionKernel, scale: float
) -> Tensor:
    """Attention of the last token to all tokens of a cache.

    The heads that share a key head count as its queries, so keys and values are never repeated. On
    the CPU torch's fused attention takes half as long again for one query.

    Args:
        q: ``(B, H, 1, D)`` before the kernel.
        q_pos: ``(1,)`` or ``(B, 1)`` integers, tokens.
        cache: holds the key of this query too.
        kernel: of the cache.
        scale: multiplies q . k.

    Returns:
        ``(B, H, 1, Dv)``.
    """
    keys, values, groups = cache.keys, cache.values, q.shape[1] // cache.keys.shape[1]
    check_kernel(kernel, q.shape[1], keys.shape[1], q.shape[3])
    if cache.mode == "paged":
        logits = cache.logits(q, q_pos, cache.length)
    else:
        check_tensors(q, keys, values)
        if cache.mode == "rotated":
            q, _ = kernel.rotate(q, None, q_pos, None)
        queries = q[:, :, 0].unflatten(1, (-1, groups))
        logits = (queries @ keys.mT.to(q.dtype)).flatten(1, 2)[:, :, None]
    logits = logits * scale
    falling = cache.falling_bias(wide(q))
    if falling is not None:
        logits += falling[:, falling.shape[1] - cache.length :][:, None]
    weights = logits.softmax(-1)[:, :, 0].unflatten(1, (-1, groups))
    return (weights.to(values.dtype) @ values).flatten(1, 2)[:, :, None]
