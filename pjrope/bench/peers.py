"""Other ways to the same logits: what the papers' code does, and what other packages offer."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..attention import AttentionLayer
from ..kernels import PositionKernel
from .cases import Inputs, make_kernel, timed
from .pairing import Contestant, Run, Skipped
from .settings import Settings

__all__ = [
    "PEERS",
    "PerPair",
    "attention_peers",
    "check_per_pair",
    "flex_plain",
    "imported",
    "pair_bias",
]

PEERS = {"rotary-embedding-torch": "rotary_embedding_torch", "x-transformers": "x_transformers"}
FLEX_PLAIN = "FlexAttention, causal, no bias"


def imported(package: str) -> ModuleType:
    """The module of an optional peer.

    Raises:
        Skipped: it is not there, or something that it needs is not.
    """
    module = PEERS[package]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if getattr(error, "name", None) == module:
            raise Skipped(f"not installed: pip install {package}") from None
        raise Skipped(f"installed but not importable: {error}") from None


def _bias(kernel: PositionKernel, lags: Tensor) -> Tensor:
    found = kernel.lag_bias(lags)
    if found is None:
        raise ValueError(f"{type(kernel).__name__} adds no bias: a dense peer has nothing to build")
    return found


def pair_bias(kernel: PositionKernel, n: int, device: str | torch.device) -> Tensor:
    """The bias evaluated at each of n x n pairs, future at -inf: ``(H, n, n)``."""
    at = torch.arange(n, device=device)
    lags = at[:, None] - at
    bias = _bias(kernel, lags.flatten()).view(-1, n, n)
    return bias.masked_fill(lags < 0, -torch.inf)


def check_per_pair(settings: Settings) -> None:
    """Raise :class:`Skipped` where the slowest way is left out."""
    if not settings.per_pair:
        raise Skipped("takes a hundred times as long: left out of --quick")


def table_bias(kernel: PositionKernel, n: int, device: str | torch.device) -> Tensor:
    """The same from one number per lag, spread over the pairs."""
    at = torch.arange(n, device=device)
    lags = at[:, None] - at
    return _bias(kernel, at)[:, lags.abs()].masked_fill(lags < 0, -torch.inf)


class PerPair(torch.nn.Module):
    """An attention layer as published code writes it: the kernel evaluated at every pair.

    Args:
        layer: whose projections and bias kernel it takes.
    """

    def __init__(self, layer: AttentionLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, **others: Any) -> Tensor:
        """``(B, N, width)`` to the same; positions are 0 … N-1."""
        layer, n = self.layer, x.shape[1]
        shape = (*x.shape[:2], -1, layer.head_dim)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (layer.query, layer.key, layer.value))
        bias = pair_bias(layer.kernel, n, x.device).to(q.dtype)
        logits = q @ k.mT * layer.head_dim**-0.5 + bias
        return layer.out((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


def attention_peers(qkv: Inputs, settings: Settings, *, train: bool) -> list[Contestant]:
    """Every peer of a bias, forward or forward and backward."""
    q, k, v = qkv
    n, device = q.shape[2], settings.device
    number = 4 * settings.heads * n * n  # bytes of one fp32 H x N x N
    kernels = {name: make_kernel(name, settings) for name in ("alibi", "affine", "full")}

    def masked(bias: Callable[[], Tensor], wanted: list[Tensor]) -> Run:
        def forward() -> Tensor:
            mask = bias().to(q.dtype)[None].expand(len(q), -1, -1, -1)
            return scaled_dot_product_attention(q, k, v, mask)

        return timed(forward, [*qkv, *wanted] if train else [])

    def prebuilt() -> Run:
        with torch.no_grad():
            bias = table_bias(kernels["alibi"], n, device).requires_grad_(train)
        return masked(lambda: bias, [bias])

    def built(make: Callable[..., Tensor], name: str) -> Callable[[], Run]:
        kernel = kernels[name]

        def prepare() -> Run:
            if make is pair_bias:
                check_per_pair(settings)
            return masked(lambda: make(kernel, n, device), list(kernel.parameters()))

        return prepare

    # Copies at once: gather, mask and their gradients; jets keep a dozen numbers per pair.
    needs = {
        "dense bias, prebuilt": (6 if train else 1, prebuilt),
        "dense bias, built each call": (8 if train else 3, built(table_bias, "affine")),
        "dense full, built per pair": (48 if train else 24, built(pair_bias, "full")),
        "x-transformers ALiBi": (6 if train else 3, lambda: _x_transformers(qkv, settings, train)),
        "FlexAttention, lag table": (0.5, lambda: _flex_table(qkv, kernels, settings, train)),
    }
    return [
        Contestant(name, _within(copies * number, settings, prepare))
        for name, (copies, prepare) in needs.items()
    ]


def _within(needed: float, settings: Settings, prepare: Callable[[], Run]) -> Callable[[], Run]:
    def checked() -> Run:
        if needed > settings.limit_bytes:
            raise Skipped(f"needs {needed / 1e9:.1f} GB, limit {settings.limit_bytes / 1e9:g} GB")
        return prepare()

    return checked


def _x_transformers(qkv: Inputs, settings: Settings, train: bool) -> Run:
    imported("x-transformers")
    inner = importlib.import_module("x_transformers.x_transformers")
    attention = importlib.import_module("x_transformers.attend").Attend(causal=True, flash=True)
    alibi = inner.AlibiPositionalBias(settings.heads).to(settings.device)
    q, k, v = qkv
    n = q.shape[2]

    def forward() -> Tensor:
        return attention(q, k, v, attn_bias=alibi(n, n).to(q.dtype))[0]

    return timed(forward, list(qkv) if train else [])


def _flex_of_table(n: int, device: str) -> Callable[..., Tensor]:
    """Causal FlexAttention of q, k, v and a table of one number per lag, or None."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(
        lambda b, h, i, j: i >= j, None, None, n, n, device, _compile=device == "cuda"
    )

    def attention(q: Tensor, k: Tensor, v: Tensor, numbers: Tensor | None) -> Tensor:
        if numbers is None:
            return flex_attention(q, k, v, block_mask=mask)

        # Written inside what is compiled: a score_mod made at each call would recompile each time.
        # Pairs of the future are masked afterwards; their index must be legal all the same.
        def biased(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + numbers[h, (i - j).abs()]

        return flex_attention(q, k, v, score_mod=biased, block_mask=mask)

    return attention


def _flex(
    qkv: Inputs, table: Callable[[], Tensor] | None, wanted: list[Tensor], settings: Settings
) -> Run:
    """A compiled call of FlexAttention; compiling happens here, not under the clock."""
    if not settings.flex:
        raise Skipped("takes most of a minute to compile: ask with --flex")
    if wanted and settings.device == "cpu":
        raise Skipped("FlexAttention has no backward pass on a CPU")
    q, k, v = qkv
    n = q.shape[2]
    if table is None or settings.device == "cpu":
        # Torch compiles one function for few sizes only; but a compiled reference must survive.
        torch.compiler.reset()
    compiled = torch.compile(_flex_of_table(n, settings.device), dynamic=False)

    def forward() -> Tensor:
        return compiled(q, k, v, None if table is None else table())

    run = timed(forward, wanted)
    try:
        run()
    except Exception as error:  # whatever a compiler may meet
        raise Skipped(f"does not compile here: {str(error).splitlines()[0]}") from error
    return run


def _flex_table(
    qkv: Inputs, kernels: dict[str, PositionKernel], settings: Settings, train: bool
) -> Run:
    kernel = kernels["full"]
    at = torch.arange(qkv[0].shape[2], device=settings.device)
    wanted = [*qkv, *kernel.parameters()] if train else []
    return _flex(qkv, lambda: _bias(kernel, at).float(), wanted, settings)


def flex_plain(qkv: Inputs, settings: Settings, *, train: bool) -> Contestant:
    """Compiled causal FlexAttention without a bias, the reference on a GPU."""
    return Contestant(FLEX_PLAIN, lambda: _flex(qkv, None, list(qkv) if train else [], settings))
