"""The same attention written out in fp64, every pair at once: what the kernels are held against."""

from __future__ import annotations

import torch
from torch import Tensor


def hidden(queries: int, keys: int, causal: int, window: int) -> Tensor:
    """Pairs that causality and the window hide, ``(Q, K)``."""
    lag = torch.arange(queries)[:, None] + (keys - queries) - torch.arange(keys)
    out = lag < causal - 1 if causal else torch.zeros_like(lag, dtype=torch.bool)
    return out | (lag.abs() >= window) if window else out


def dense(q, k, v, table, *, causal=1, window=0, scale, segments=None, keep=None) -> Tensor:
    """What ``lag_attention`` computes, in fp64 by way of all Q x K logits."""
    q, k, v = (x.double() for x in (q, k, v))
    groups, queries, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    logits = q @ k.mT * scale
    if table is not None:
        lag = torch.arange(queries)[:, None] + (keys - queries) - torch.arange(keys)
        logits = logits + table.double()[:, (lag + (0 if causal else queries - 1)).clamp(min=0)]
    hide = hidden(queries, keys, causal, window)[None, None]
    if segments is not None:
        hide = hide | (segments[0][:, None, :, None] != segments[1][:, None, None, :])
    if keep is not None:
        hide = hide | (keep == 0)[:, None, None, :]
    weights = logits.masked_fill(hide, -1e300).softmax(-1).masked_fill(hide, 0.0)
    return weights @ v


def drawn(batch, heads, kv, queries, keys, width, values, causal=1, seed=0, number=torch.float32):
    """Random q, k, v and table with gradients wanted."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((heads, queries, width), (kv, keys, width), (kv, keys, values))
    inputs = [torch.randn(batch, *shape, generator=generator).to(number) for shape in shapes]
    lags = keys if causal else keys + queries - 1
    inputs.append(torch.randn(heads, lags, generator=generator))
    return [x.requires_grad_() for x in inputs]
