"""The attention layer: projections, a position kernel, an optional cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..conventions import as_positions, as_tensor, untraced
from ..kernels.base import PositionKernel
from ..kernels.nope import NoPE
from ..positions.lags import Causal, check_causal
from .cache import KVCache, unchanged_on_error
from .cache_checks import same_kernel
from .checks import check_kernel, check_window
from .decoding import attend_cached
from .functional import attend


class AttentionLayer(nn.Module):
    """Causal multi-head attention around a position kernel.

    Args:
        width: channels of the residual stream.
        heads: query heads H, ``width / heads`` channels each.
        kv_heads: key and value heads, a divisor of H; default H.
        kernel: position kernel, default :class:`NoPE`. Layers may share one.
        bias: whether the four projections have one.
        causal: True or "strict" (a token does not see itself).
        window: how many of the last tokens a token sees, itself included; default all.
        backend: handed to :func:`attend`.
        logit_scale: each query head learns a factor on ``q . k``, 1 at the start.

    Raises:
        ValueError: numbers that do not divide, or a kernel made for other heads or channels.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        kernel: PositionKernel | None = None,
        bias: bool = True,
        causal: Causal = True,
        window: int | None = None,
        backend: str = "auto",
        logit_scale: bool = False,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or width % heads:
            raise ValueError(f"width {width} does not split into {heads} heads")
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"{heads} query heads are no multiple of {kv_heads} key heads")
        check_causal(causal)
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, width // heads
        check_window(window, 1, 1)
        self.causal, self.window, self.backend = causal, window, backend
        self.kernel = NoPE() if kernel is None else kernel
        if not isinstance(self.kernel, PositionKernel):
            raise ValueError(
                f"kernel is {kernel!r}, an object such as RoPE({width // heads}) is needed"
            )
        check_kernel(self.kernel, heads, kv_heads, self.head_dim, "layer")
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(width, kv_heads * self.head_dim, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        # Its logarithm: positive whatever training does, and weight decay pulls it to the factor 1.
        self.log_scale = nn.Parameter(torch.zeros(heads, 1, 1)) if logit_scale else None

    def forward(
        self,
        x: Tensor,
        *,
        cache: KVCache | None = None,
        q_pos: Tensor | None = None,
        keep: Tensor | None = None,
        key_keep: Tensor | None = None,
        segments: tuple[Tensor, Tensor] | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """Attend within x, and to what the cache holds.

        Args:
            x: ``(B, N, width)``.
            cache: past tokens; x is appended to it.
            q_pos: ``(N,)`` or ``(B, N)`` positions of x, default behind the cache's tokens.
            keep: boolean, broadcastable to ``(B, H, N, K)``, K counting cached tokens too.
            key_keep: ``(B, K)`` boolean, True at tokens that are no padding, cached ones too.
            segments: document ids, as in :func:`attend`; not together with a cache.
            last_only: query the last token alone, with keys and values of all.

        Returns:
            ``(B, N, width)``, or ``(B, 1, width)``.
        """
        rows = slice(-1, None) if last_only else slice(None)
        q_pos = None if q_pos is None else as_positions(q_pos, "q_pos", x)
        keep = None if keep is None else as_tensor(keep, "keep", x)
        key_keep = None if key_keep is None else as_tensor(key_keep, "key_keep", x)
        if keep is not None and keep.ndim > 1 and keep.shape[-2] > 1:
            keep = keep[..., rows, :]
        masks: dict[str, Any] = {"keep": keep, "key_keep": key_keep}
        q, k, v = self._projected(x, rows)
        if cache is None:
            if segments is not None:
                first, second = (as_tensor(ids, "segments", x) for ids in segments)
                masks["segments"] = (first[..., rows], second)
            own_pos = None if q_pos is None else q_pos[..., rows]
            masks |= {"causal": self.causal, "window": self.window}
            y = attend(
                q, k, v, self.kernel, q_pos=own_pos, k_pos=q_pos, backend=self.backend, **masks
            )
        elif segments is not None or self.causal is not True:
            raise ValueError("a cache holds one document, causally: drop segments or the cache")
        else:
            y = self._cached(q, k, v, cache, q_pos, masks)
        return self.out(y.transpose(1, 2).flatten(2))

    def _projected(self, x: Tensor, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of these rows and keys and values of all, ``(B, heads, N, D)``."""
        q, k, v = (
            f(y).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for f, y in ((self.query, x[:, rows]), (self.key, x), (self.value, x))
        )
        if self.log_scale is not None:
            q = q * self.log_scale.exp().to(q.dtype)
        return q, k, v

    # A cache grows with every token, and its graph would be compiled anew each time.
    @untraced
    def _cached(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cache: KVCache,
        q_pos: Tensor | None,
        masks: dict[str, Tensor | None],
    ) -> Tensor:
        with unchanged_on_error([cache]):
            if cache.kernel is None and cache.length:
                raise ValueError(
                    "this cache was filled without a kernel: make it KVCache(kernel=layer.kernel)"
                )
            if cache.kernel is not self.kernel:
                if cache.kernel is not None and not same_kernel(cache.kernel, self.kernel):
                    raise ValueError(
                        "this cache was made for another kernel: give each layer its own KVCache"
                    )
                cache.kernel = self.kernel
            if q_pos is None:
                q_pos = torch.arange(cache.length, cache.length + k.shape[2], device=q.device)
            own_pos = q_pos[..., q_pos.shape[-1] - q.shape[2] :]
            cache.append(k, v, q_pos)
            return attend_cached(
                q, cache, q_pos=own_pos, window=self.window, backend=self.backend, **masks
            )
