"""Attention of new tokens to all that a cache holds."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..conventions import as_positions, own_types, wide
from ..kernels.base import PositionKernel
from ..kernels.nope import NoPE
from .backends import BACKENDS, eager
from .blocks import plan
from .cache import KVCache
from .call import Call, make_call
from .checks import check_kernel, check_scale, check_tensors, check_window
from .pages import page_logits
from .planning import choose
from .scores import Scores

_NOPE = NoPE()


def attend_cached(
    q: Tensor,
    cache: KVCache,
    *,
    q_pos: Tensor,
    keep: Tensor | None = None,
    key_keep: Tensor | None = None,
    scale: float | Tensor | None = None,
    window: int | None = None,
    backend: str = "auto",
) -> Tensor:
    """Causal attention of new queries, the last tokens of a cache, to all its tokens.

    Args:
        q: ``(B, H, Q, D)``.
        cache: holds the keys of these queries too.
        q_pos: ``(Q,)`` or ``(B, Q)`` integers, tokens.
        keep: boolean, broadcastable to ``(B, H, Q, K)`` over all cached keys.
        key_keep: ``(B, K)`` boolean over all cached keys, as in :func:`attend`.
        scale: default ``1/sqrt(D)``; as in :func:`attend`.
        window: as in :func:`attend`, over the tokens of the cache.
        backend: as in :func:`attend`; keys rotated page by page are always read eagerly.

    Returns:
        ``(B, H, Q, Dv)``, what the same rows of a full pass give.
    """
    kernel = _NOPE if cache.kernel is None else cache.kernel
    q_pos = as_positions(q_pos, "q_pos")
    q, factor = (q, q.shape[3] ** -0.5) if scale is None else check_scale(q, scale)
    with own_types(q.device):
        window = check_window(window, q.shape[2], cache.length)
        simple = keep is None and key_keep is None and (window is None or cache.mode != "paged")
        if backend == "auto" and simple and is_simple(q, q_pos, cache, kernel):
            return decode_one(q, q_pos, cache, kernel, factor, window)
        if cache.mode == "rotated":
            q = kernel.rotate(q, None, q_pos - cache.positions[..., :1], None)[0].to(q.dtype)
        call = make_call(
            q,
            cache.keys,
            cache.values,
            kernel,
            q_pos=q_pos,
            k_pos=cache.positions,
            keep=keep,
            key_keep=key_keep,
            scale=factor,
            window=window,
            keys_rotated=cache.mode != "raw",
        )
        return _run(call, cache, backend)


def _run(call: Call, cache: KVCache, backend: str) -> Tensor:
    """A checked call over a cache, with the bias that the cache keeps where one serves."""
    if cache.mode == "paged":
        return _by_page(call, cache)
    if cache.runs_on_to(call.q_pos):
        call = replace(call, known_offset=0)
    if call.biases and call.offset == 0 and not torch.is_grad_enabled():
        table = cache.reversed_bias(wide(call.q))
        call = replace(call, table=None if table is None else table.flip(1))
    name, _ = choose(call, backend)
    return BACKENDS[name].run(call)


def _by_page(call: Call, cache: KVCache) -> Tensor:
    """Attention to keys that sit in a cache, rotated page by page."""
    scores, rows = Scores(call), []
    for block in plan(call):
        own = slice(block.start, block.stop)
        logits = _page_logits(cache, call.q[:, :, own], call.q_pos[..., own], block.high)
        logits = logits[..., block.low :].to(wide(call.q)) * call.scale
        rows.append(eager.weighted(scores, block, logits).to(call.q.dtype))
    return torch.cat(rows, dim=2)


def _page_logits(cache: KVCache, q: Tensor, q_pos: Tensor, keys: int) -> Tensor:
    kernel = _NOPE if cache.kernel is None else cache.kernel
    k, _, k_pos = cache.room
    return page_logits(kernel, q, q_pos, k, k_pos, keys)


def is_simple(q: Tensor, q_pos: Tensor, cache: KVCache, kernel: PositionKernel) -> bool:
    """True if :func:`decode_one` may take a call without ``keep``.

    One query in fp32 or fp64, no gradients, keys that need no more than a rotation of the query, and
    positions that run on where a bias reads its lags from them.
    """
    rotated = cache.mode in ("rotated", "paged") or not (kernel.rotates or kernel.scored)
    return (
        q.shape[2] == 1
        and q.dtype == wide(q)  # halves would round logits: fused kernels sum them in fp32
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and rotated
        and (not kernel.biases or cache.runs_on_to(q_pos))
    )


def decode_one(
    q: Tensor,
    q_pos: Tensor,
    cache: KVCache,
    kernel: PositionKernel,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """Attention of the last token to all tokens of a cache: two products and a softmax.

    The heads that share a key head count as its queries, so keys and values are never repeated. On
    the CPU torch's fused attention takes half as long again for one query.

    Args:
        q: ``(B, H, 1, D)`` before the kernel.
        q_pos: ``(1,)`` or ``(B, 1)`` integers, tokens.
        cache: holds the key of this query too.
        kernel: of the cache.
        scale: multiplies q . k.
        window: how many of the last tokens are seen; a paged cache shows all.

    Returns:
        ``(B, H, 1, Dv)``.
    """
    count = cache.length if window is None else window
    near = slice(cache.length - count, None)
    keys, values = cache.keys[:, :, near], cache.values[:, :, near]
    groups = q.shape[1] // keys.shape[1]
    check_kernel(kernel, q.shape[1], keys.shape[1], q.shape[3])
    if cache.mode == "paged":
        logits = _page_logits(cache, q, q_pos, cache.length)
    else:
        check_tensors(q, keys, values)
        if cache.mode == "rotated":
            q = kernel.rotate(q, None, q_pos - cache.positions[..., :1], None)[0].to(q.dtype)
        queries = q[:, :, 0].unflatten(1, (-1, groups))
        logits = (queries @ keys.mT.to(q.dtype)).flatten(1, 2)[:, :, None]
    logits = logits * scale
    bias = cache.reversed_bias(wide(q))
    if bias is not None:
        logits += bias[:, bias.shape[1] - count :][:, None]
    weights = logits.softmax(-1)[:, :, 0].unflatten(1, (-1, groups))
    return (weights.to(values.dtype) @ values).flatten(1, 2)[:, :, None]
