"""A decoder-only Transformer small enough to read in one sitting.

One configuration gives the byte model of the PJ-RoPE protocol (LayerNorm, untied, biases), another
the modern form (RMSNorm, tied, no biases). Nothing in it knows about positions but the kernel in
each attention layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from ..attention import AttentionLayer, KVCache
from ..attention.cache import unchanged_on_error
from ..kernels.base import PositionKernel
from .config import NORMS, DecoderConfig
from .generation import generate
from .mixing import ShortConvolution, TokenShift


class Block(nn.Module):
    """Pre-norm attention and MLP, each added to the stream."""

    def __init__(
        self, config: DecoderConfig, kernel: PositionKernel, window: int | None = None
    ) -> None:
        super().__init__()
        norm, width = NORMS[config.norm], config.width
        hidden = round(config.mlp_ratio * width)
        self.attention_norm = norm(width)
        self.attention = AttentionLayer(
            width,
            config.heads,
            kv_heads=config.kv_heads,
            kernel=kernel,
            bias=config.bias,
            logit_scale=config.logit_scale,
            window=window,
        )
        mixers: list[nn.Module] = []
        if config.token_shift:
            mixers.append(TokenShift(width))
        if config.short_conv:
            mixers.append(ShortConvolution(width, config.short_conv))
        self.mixers = nn.ModuleList(mixers)
        self.mlp_norm = norm(width)
        self.up = nn.Linear(width, hidden, bias=config.bias)
        self.down = nn.Linear(hidden, width, bias=config.bias)

    def forward(self, x: Tensor, *, last_only: bool = False, **attention: Any) -> Tensor:
        """``(B, N, width)`` to the same, or to ``(B, 1, width)`` of the last token alone.

        Other keywords go to the attention layer.
        """
        stream = (
            x[:, -1:] if last_only else x
        )  # before the norm: the order in which gradients add up
        seen = self._mixed(self.attention_norm(x), attention)
        x = stream + self.attention(seen, last_only=last_only, **attention)
        return x + self.down(gelu(self.up(self.mlp_norm(x))))

    def _mixed(self, x: Tensor, attention: dict[str, Any]) -> Tensor:
        if self.mixers and any(attention.get(name) is not None for name in ("cache", "segments")):
            raise ValueError(
                "short_conv and token_shift know one whole document: drop cache and segments"
            )
        for mixer in self.mixers:
            x = mixer(x)
        return x


class Decoder(nn.Module):
    """Tokens to next-token logits, ``(B, N) -> (B, N, vocab)``.

    Args:
        config: a :class:`DecoderConfig`.
        seed: of the initial weights. Backbone and position kernels draw from streams of their
            own, so models that differ in the kernel alone share their backbone bit for bit.
            None draws from torch's global generator. Either way the amplitudes of position kernels
            are drawn anew per layer: the seed inside a kernel's spec has no effect here.

    Raises:
        ValueError: a kernel made for other heads or channels than the configuration's.
    """

    def __init__(self, config: DecoderConfig, *, seed: int | None = None) -> None:
        super().__init__()
        self.config = config
        with torch.random.fork_rng(devices=[], enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(seed)
            self.embedding = nn.Embedding(config.vocab, config.width)
            layers = zip(config.kernels(), config.windows(), strict=True)
            self.blocks = nn.ModuleList(Block(config, kernel, seen) for kernel, seen in layers)
            self.norm = NORMS[config.norm](config.width)
            self.head = (
                None if config.tied else nn.Linear(config.width, config.vocab, bias=config.bias)
            )
            if config.tied:  # the rows are output directions too: unit norm, not unit entries
                nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(config.width))
        stream = None if seed is None else torch.Generator().manual_seed(seed)
        for kernel in dict.fromkeys(layer.kernel for layer in self.attention_layers):
            kernel.reset_parameters(stream)

    @property
    def attention_layers(self) -> list[AttentionLayer]:
        """The attention layer of each block, lowest first."""
        return [cast(Block, block).attention for block in self.blocks]

    def uncacheable(self) -> str | None:
        """Why decoding with a cache would not equal a full pass; None where it does."""
        config = self.config
        if config.short_conv or config.token_shift:
            return "short_conv and token_shift know one whole document, a cache of keys does not"
        layers = self.attention_layers
        moving = [layer.kernel for layer in layers if not layer.kernel.claims.length_free]
        if moving and len(layers) > 1:
            return (
                f"{type(moving[0]).__name__} changes earlier tokens as the text grows, and with them "
                "what upper layers have cached: fix its factor, as in NTK(scale=4.0)"
            )
        return None

    def new_cache(self, max_length: int | None = None) -> list[KVCache]:
        """An empty cache for each layer.

        Raises:
            ValueError: a model whose cached decoding would not equal a full pass.
        """
        if reason := self.uncacheable():
            raise ValueError(f"no cache for this model: {reason}; or decode without one")
        return [KVCache(max_length, kernel=layer.kernel) for layer in self.attention_layers]

    def forward(
        self,
        tokens: Tensor,
        *,
        cache: list[KVCache] | None = None,
        q_pos: Tensor | None = None,
        keep: Tensor | None = None,
        key_keep: Tensor | None = None,
        segments: tuple[Tensor, Tensor] | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """Next-token logits.

        Args:
            tokens: ``(B, N)`` int64.
            cache: from :meth:`new_cache`; tokens are appended to it.
            q_pos: ``(N,)`` or ``(B, N)`` positions, default ``0 … N-1`` or behind the cache.
            keep: boolean, broadcastable to ``(B, H, N, K)``.
            key_keep: ``(B, K)`` boolean, True at tokens that are no padding, cached ones too.
            segments: document ids, as in :func:`pjrope.attend`.
            last_only: only the logits behind the last token; the top block then computes keys and
                values of all tokens, but a query and an MLP of the last alone.

        Returns:
            ``(B, N, vocab)``, or ``(B, 1, vocab)`` for the last alone.
        """
        options = {"q_pos": q_pos, "keep": keep, "key_keep": key_keep, "segments": segments}
        if cache is None:
            x = self._through_blocks(tokens, [None] * len(self.blocks), last_only, options)
        else:
            self._check_caches(cache)
            with unchanged_on_error(cache):
                x = self._through_blocks(tokens, cache, last_only, options)
        x = self.norm(x[:, -1:] if last_only else x)
        return linear(x, self.embedding.weight) if self.head is None else self.head(x)

    def generate(self, prompt: Tensor, steps: int, **options: Any) -> Tensor:
        """Continue prompts token by token.

        Args:
            prompt: ``(N,)`` or ``(B, N)`` int64.
            steps: new tokens.
            **options: temperature (1.0; 0 is greedy) · top_k, keep the k likeliest tokens (and ties)
                · top_p, keep the likeliest ones that hold this share · seed (0) or a
                ``torch.Generator`` · real, ``(B, N)`` boolean, True at tokens that are no padding,
                for prompts padded on the left · stop, a token behind which a row repeats it; all
                rows stopped end it · cached, default wherever it equals a full pass · progress.

        Returns:
            prompt and continuation, ``(N + steps,)`` or ``(B, N + steps)``, shorter where all rows
            stopped.

        Raises:
            ValueError: tokens the model does not know, settings out of range, padding that is not
                on the left, cached=True where it would not equal a full pass.
        """
        return generate(self, prompt, steps, **options)

    def _through_blocks(
        self,
        tokens: Tensor,
        caches: Sequence[KVCache | None],
        last_only: bool,
        options: dict[str, Any],
    ) -> Tensor:
        x = self.embedding(tokens)
        for n, (block, past) in enumerate(zip(self.blocks, caches, strict=True)):
            top = last_only and n == len(self.blocks) - 1
            x = block(x, cache=past, last_only=top, **options)
        return x

    def _check_caches(self, caches: Sequence[KVCache]) -> None:
        if len(caches) != len(self.blocks):
            raise ValueError(
                f"{len(caches)} caches for {len(self.blocks)} layers: model.new_cache() makes them"
            )
        lengths = [cache.length for cache in caches]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"the caches of the layers hold {lengths} tokens: truncate all to the same, or start "
                "with model.new_cache()"
            )
