"""What attention does in a model at some length: sizes of keys and logits, entropy, reach."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..attention import AttentionLayer
from ..attention.backends.eager import masked_softmax
from ..attention.blocks import Block, plan
from ..attention.call import make_call
from ..attention.scores import Scores
from ..kernels._values import check_count
from ..positions.lags import lags
from .views import attention_layers


@torch.no_grad()
def attention_statistics(
    model: nn.Module, tokens: Tensor, *, queries: int = 64, near: int | None = None
) -> list[dict[str, Any]]:
    """How large keys, scores and biases are, and where attention goes, layer by layer.

    The last queries of each window are asked, so that every one has nearly the whole context
    before it. Logits are what enters the softmax, ``q.k / sqrt(D) + b``.

    Args:
        model: a :class:`~pjrope.Decoder`, or any module with attention layers that takes tokens.
        tokens: ``(B, T)`` int64.
        queries: how many of the last positions are asked, at most T.
        near: lags below this count as near, tokens; default T, which makes the share 1.

    Returns:
        a row per layer, means over windows, heads and queries: ``layer``; ``query_norm`` and
        ``key_norm`` before positions act; ``rotated_query_norm`` and ``rotated_key_norm`` with their
        absolute positions worked in, the latter being what a plain key cache would hold;
        ``score_std``, ``bias_std`` and ``logit_std`` over the keys of a query; ``logit_max``, the
        largest modulus of any logit; ``entropy`` of attention in nats and ``entropy_share`` of the
        largest possible; ``mean_lag`` in tokens; ``share_near``.

    Raises:
        ValueError: a model without attention layers, a number that is not in range.

    Limits: norms are those of the queries asked and of the keys at the same positions. A kernel
    that defines whole scores places nothing.

    Reference: PJ-RoPE paper, attention statistics of its byte models. Chapter: ch-lightcone.
    """
    length = tokens.shape[-1]
    if check_count("queries", queries) > length:
        raise ValueError(f"queries is {queries}, the windows have {length:,} tokens")
    if near is not None:
        check_count("near", near)
    with _inputs_of(model) as seen:
        model(tokens)
    return [
        {"layer": n, **_of_layer(layer, seen[layer], queries, near or length)}
        for n, layer in enumerate(attention_layers(model))
    ]


MOST_MAPPED = 2048  # tokens of a map: N x N numbers for every head


@torch.no_grad()
def attention_maps(model: nn.Module, tokens: Tensor) -> list[Tensor]:
    """Attention weights of every head, each row a query.

    Args:
        model: a :class:`~pjrope.Decoder`, or any module with attention layers that takes tokens.
        tokens: ``(B, N)`` int64, N at most 2,048.

    Returns:
        a tensor ``(B, H, N, N)`` float64 a layer; rows sum to 1, and lie on and below the diagonal
        where a layer is causal.

    Raises:
        ValueError: a longer text, a model without attention layers.

    Chapter: ch-language.
    """
    if tokens.shape[-1] > MOST_MAPPED:
        raise ValueError(
            f"a map of {tokens.shape[-1]:,} tokens is too large: at most {MOST_MAPPED:,}; "
            "attention_statistics() sums up longer texts"
        )
    with _inputs_of(model) as seen:
        model(tokens)
    maps = []
    for layer in attention_layers(model):
        call = make_call(*_projected(layer, seen[layer]), causal=layer.causal)
        maps.append(torch.cat([_weights(Scores(call), block) for block in plan(call)], dim=2))
    return maps


def _weights(found: Scores, block: Block) -> Tensor:
    """Weights of a block's queries on all keys."""
    logits, keep = _logits(found, block)
    weights = logits.new_zeros(*logits.shape[:-1], found.call.k.shape[2])
    weights[..., block.low : block.high] = masked_softmax(logits, keep)
    return weights


def _projected(
    layer: AttentionLayer, x: Tensor, queries: int | None = None
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Queries, keys and values of a layer, ``(B, H, N, D)``, and its kernel."""
    asked = x if queries is None else x[:, -queries:]
    q, k, v = (
        f(part).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
        for f, part in ((layer.query, asked), (layer.key, x), (layer.value, x))
    )
    return q, k, v, layer.kernel


@contextmanager
def _inputs_of(model: nn.Module) -> Iterator[dict[AttentionLayer, Tensor]]:
    """What each attention layer is given, inside a ``with`` block."""
    seen: dict[AttentionLayer, Tensor] = {}

    def note(layer: AttentionLayer, inputs: tuple[Tensor, ...]) -> None:
        seen[layer] = inputs[0]

    hooks = [layer.register_forward_pre_hook(note) for layer in attention_layers(model)]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _of_layer(layer: AttentionLayer, x: Tensor, queries: int, near: int) -> dict[str, float]:
    q, k, v, kernel = _projected(layer, x, queries)
    last = torch.arange(x.shape[1] - queries, x.shape[1], device=x.device)
    rotated_q, rotated_k = kernel.rotate(q, k[:, :, -queries:], last, last)
    call = make_call(q, k, v, kernel, causal=layer.causal)
    scores, blocks = Scores(call), plan(call)
    parts = [_of_block(scores, block, near) for block in blocks]
    weights = [block.stop - block.start for block in blocks]
    means = {
        name: sum(w * part[name] for w, part in zip(weights, parts, strict=True)) / queries
        for name in parts[0]
        if name != "logit_max"
    }
    return {
        "query_norm": _norm(q),
        "key_norm": _norm(k[:, :, -queries:]),
        "rotated_query_norm": _norm(rotated_q),
        "rotated_key_norm": _norm(rotated_k),
        **means,
        "logit_max": max(part["logit_max"] for part in parts),
    }


def _norm(x: Tensor | None) -> float:
    assert x is not None
    return float(x.double().norm(dim=-1).mean())


def _logits(found: Scores, block: Block) -> tuple[Tensor, Tensor]:
    """Scores with their bias, and which keys are visible."""
    scores, bias, keep = found.logits(block).double(), found.bias(block), found.mask(block)
    keep = torch.ones_like(scores[0, 0], dtype=torch.bool) if keep is None else keep
    return scores if bias is None else scores + bias.double(), keep


def _of_block(found: Scores, block: Block, near: int) -> dict[str, float]:
    logits, keep = _logits(found, block)
    scores, bias = found.logits(block).double(), found.bias(block)
    bias = torch.zeros_like(scores[:1]) if bias is None else bias.double()
    weights = masked_softmax(logits, keep)
    entropy = torch.special.entr(weights).sum(-1)
    start, stop, low, high = block
    d = lags(found.call.q_pos[..., start:stop], found.call.k_pos[..., low:high])
    most = keep.sum(-1).double().log().clamp(min=math.ulp(1.0))
    return {
        "score_std": _std(scores, keep),
        "bias_std": _std(bias.expand_as(scores), keep),
        "logit_std": _std(logits, keep),
        "logit_max": float(logits.masked_fill(~keep, 0.0).abs().max()),
        "entropy": float(entropy.mean()),
        "entropy_share": float((entropy / most).mean()),
        "mean_lag": float((weights * d).sum(-1).mean()),
        "share_near": float((weights * (d < near)).sum(-1).mean()),
    }


def _std(x: Tensor, keep: Tensor) -> float:
    """Standard deviation over the visible keys of a query, averaged over queries."""
    count = keep.sum(-1, keepdim=True)
    mean = (x * keep).sum(-1, keepdim=True) / count
    variance = ((x - mean).square() * keep).sum(-1, keepdim=True) / count
    return float(variance.sqrt().mean())
