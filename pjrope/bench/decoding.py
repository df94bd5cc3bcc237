"""Section decode: one token behind a KV cache."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import torch

from ..attention import AttentionLayer, KVCache
from ..kernels import NoPE
from .cases import make_kernel
from .pairing import Contestant, Run, rows_of
from .settings import Settings

__all__ = ["decode"]


def decode(settings: Settings) -> Iterator[dict[str, Any]]:
    """Rows of one decoding step of a layer, projections included, against one without position."""
    for n in settings.cached:
        filled = _filled(settings, n)
        reference, *contestants = (
            _step(name, settings, filled) for name in ("none", *settings.kernels)
        )
        yield from rows_of("decode", reference, contestants, settings, n=n, batch=settings.batch)


def _filled(settings: Settings, n: int) -> KVCache:
    """A cache of n normal keys and values, with room for one more."""
    generator = torch.Generator().manual_seed(n)
    shape = (settings.batch, settings.heads, n + 1, settings.head_dim)
    k, v = (torch.randn(shape, generator=generator).to(**_like(settings)) for _ in range(2))
    cache = KVCache(kernel=NoPE())
    cache.append(k, v, torch.arange(n + 1, device=settings.device))
    cache.truncate(n)
    return cache


def _like(settings: Settings) -> dict[str, Any]:
    return {"device": settings.device, "dtype": getattr(torch, settings.dtype)}


def _step(name: str, settings: Settings, filled: KVCache) -> Contestant:
    """All contestants read the same memory: two copies of one cache differ by a tenth in speed."""
    n = filled.length

    def prepare() -> Run:
        width = settings.heads * settings.head_dim
        layer = AttentionLayer(width, settings.heads, kernel=make_kernel(name, settings))
        layer.to(**_like(settings))
        cache = copy(filled)
        cache.kernel = layer.kernel
        generator = torch.Generator().manual_seed(n)
        x = torch.randn(settings.batch, 1, width, generator=generator).to(**_like(settings))

        @torch.no_grad()
        def run() -> torch.Tensor:
            cache.truncate(n)  # each step forgets the token before it, so that all are equal
            return layer(x, cache=cache)

        return run

    return Contestant(name, prepare, backend="auto")
