"""Section decode: one token behind a KV cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..attention import AttentionLayer, KVCache
from .cases import make_kernel
from .pairing import Contestant, Run, rows_of
from .settings import Settings

__all__ = ["decode"]


def decode(settings: Settings) -> Iterator[dict[str, Any]]:
    """Rows of one decoding step of a layer, projections included, against one without position."""
    for n in settings.cached:
        reference, *contestants = (_step(name, settings, n) for name in ("none", *settings.kernels))
        yield from rows_of("decode", reference, contestants, settings, n=n, batch=settings.batch)


def _step(name: str, settings: Settings, n: int) -> Contestant:
    def prepare() -> Run:
        generator = torch.Generator().manual_seed(n)
        like = {"device": settings.device, "dtype": getattr(torch, settings.dtype)}
        width = settings.heads * settings.head_dim
        layer = AttentionLayer(width, settings.heads, kernel=make_kernel(name, settings)).to(**like)
        cache = KVCache(kernel=layer.kernel)
        shape = (settings.batch, settings.heads, n, settings.head_dim)
        k, v = (torch.randn(shape, generator=generator).to(**like) for _ in range(2))
        cache.append(k, v, torch.arange(n, device=settings.device))
        x = torch.randn(settings.batch, 1, width, generator=generator).to(**like)

        @torch.no_grad()
        def run() -> torch.Tensor:
            cache.length = n  # each step forgets the token before it, so that all are equal
            return layer(x, cache=cache)

        return run

    return Contestant(name, prepare, backend="auto")
