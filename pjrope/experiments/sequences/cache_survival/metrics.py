"""What rounding does inside a layer: logits, attention rows, norms, and the Jordan mode's share.

All in fp64 on the queries and keys of the unrounded model, so that a layer's numbers are its own.
Every logit here, clean or wrong, is divided by sqrt(D): the reference divides the noise alone, and
so inflates its SNR_J by D.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ....diagnostics.views import attention_layers
from ....kernels import PositionKernel
from ...codes.rounding import Quantizer
from ..training import LastToken
from .serving import STORES, Variant, without_shear
from .split import logits, shear_logits

__all__ = ["Seen", "capture", "growth", "rounded_logits", "rounding", "survival"]

NEAR_ENDS = 16  # letters at either end whose norms are averaged


class Seen:
    """Queries and keys of one layer for a few sequences, and which rows ask.

    Args:
        kernel: of the layer.
        q, k: ``(B, H, N, D)`` before the action.
        rows: ``(Q,)`` positions of the queries that are looked at.
    """

    def __init__(self, kernel: PositionKernel, q: Tensor, k: Tensor, rows: Tensor) -> None:
        self.kernel, self.rows = kernel, rows
        self.q, self.k = q[:, :, rows].double(), k.double()
        self.positions = torch.arange(k.shape[2])
        self.lag = rows[:, None] - self.positions  # (Q, N)
        self.clean = logits(kernel, self.q, self.k, rows, self.positions)


@torch.no_grad()
def capture(model: LastToken, tokens: Tensor, rows: int) -> list[Seen]:
    """Run the model and keep what each layer asks and stores.

    Args:
        model: unrounded.
        tokens: ``(B, N)``.
        rows: how many queries, evenly spaced, the last of them at N - 1.
    """
    kept: dict[nn.Module, Tensor] = {}
    layers = attention_layers(model)
    hooks = [
        projection.register_forward_hook(lambda at, given, out: kept.__setitem__(at, out))
        for layer in layers
        for projection in (layer.query, layer.key)
    ]
    try:
        model.decoder(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    n = tokens.shape[1]
    asks = n - 1 - torch.arange(min(rows, n - 1)).flip(0) * (n // rows if rows < n else 1)

    def heads(layer: Any, projection: nn.Module) -> Tensor:
        return kept[projection].unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)

    return [Seen(a.kernel, heads(a, a.query), heads(a, a.key), asks) for a in layers]


def _power(parts: Sequence[Tensor], masks: Sequence[Tensor]) -> float:
    """Mean square over the pairs of a mask, all layers, heads and sequences together."""
    picked = [x[..., mask] for x, mask in zip(parts, masks, strict=True)]
    return float(sum(x.square().sum() for x in picked) / sum(x.numel() for x in picked))


def rounded_logits(seen: Seen, variant: Variant, quantizer: Quantizer) -> Tensor:
    """A layer's logits when its keys are stored by a variant."""
    after, before, _ = STORES[variant.store]
    k = quantizer(seen.k) if before else seen.k
    return logits(seen.kernel, seen.q, k, seen.rows, seen.positions, quantizer if after else None)


@torch.no_grad()
def rounding(
    layers: Sequence[Seen], variant: Variant, quantizer: Quantizer, buckets: Mapping[str, Any]
) -> dict[str, float]:
    """Error of logits and attention, and the noise power by distance.

    Args:
        layers: from :func:`capture`.
        variant, quantizer: as served.
        buckets: name → lags (low, high], tokens.

    Returns:
        ``logit_error``, root of the ratio of mean squares over causal pairs; ``attention_kl``,
        mean over rows of KL(clean || rounded), nats; ``noise_NAME``, N_Q of each bucket.
    """
    changed = [rounded_logits(seen, variant, quantizer) for seen in layers]
    errors = [x - seen.clean for x, seen in zip(changed, layers, strict=True)]
    causal = [seen.lag >= 0 for seen in layers]
    whole = _power([seen.clean for seen in layers], causal)
    rows = []
    for seen, other, mask in zip(layers, changed, causal, strict=True):
        p, r = (x.masked_fill(~mask, -torch.inf).log_softmax(-1) for x in (seen.clean, other))
        rows.append((p.exp() * (p - r).masked_fill(~mask, 0)).sum(-1).mean())
    return {
        "logit_error": math.sqrt(_power(errors, causal) / whole),
        "attention_kl": float(torch.stack(rows).mean()),
        **{
            f"noise_{name}": _power(errors, _within(layers, ends)) for name, ends in buckets.items()
        },
    }


def _within(layers: Sequence[Seen], ends: tuple[int, int]) -> list[Tensor]:
    return [(seen.lag > ends[0]) & (seen.lag <= ends[1]) for seen in layers]


@torch.no_grad()
def survival(layers: Sequence[Seen], buckets: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """Powers of the coupled mode, and whether the split gives the model's own logits.

    Args:
        layers: from :func:`capture`.
        buckets: name → lags (low, high], tokens.

    Returns:
        for each bucket ``mode_NAME``, S_J, and ``paper_mode_NAME``, the reference's, which is not
        divided by D and takes the shear at the lag; ``split_error`` and ``paper_split_error``, the
        largest error of base + shear over the root mean square of the logits; ``mode_share``,
        S_J over the power of the whole logit beyond the nearest bucket. All 0 without a shear.
    """
    own, paper = [], []
    gaps: list[float] = []
    paper_gaps: list[float] = []
    for seen in layers:
        call = (seen.q, seen.k, seen.rows, seen.positions)
        base = logits(without_shear(seen.kernel), *call)
        mine, theirs = (shear_logits(seen.kernel, *call, by_lag=lag) for lag in (False, True))
        past = seen.lag >= 0
        size = seen.clean[..., past].square().mean().sqrt()
        own.append(mine)
        paper.append(theirs * math.sqrt(seen.q.shape[-1]))
        for held, shear in ((gaps, mine), (paper_gaps, theirs)):
            held.append(float((base + shear - seen.clean)[..., past].abs().max() / size))
    far = _within(layers, (max(1, min(high for _, high in buckets.values())), layers[0].k.shape[2]))
    found = {"split_error": max(gaps), "paper_split_error": max(paper_gaps)}
    found["mode_share"] = _power(own, far) / _power([seen.clean for seen in layers], far)
    for name, ends in buckets.items():
        masks = _within(layers, ends)
        found[f"mode_{name}"], found[f"paper_mode_{name}"] = (
            _power(own, masks),
            _power(paper, masks),
        )
    return found


@torch.no_grad()
def growth(layers: Sequence[Seen]) -> dict[str, float]:
    """How much longer keys are at the end of a sequence than at its start.

    Returns:
        ``key_growth``, mean norm of the last 16 letters' keys after the action over that of the
        first 16; ``action_growth``, the same of the norm after over the norm before.
    """
    ratios: dict[str, list[float]] = {"key_growth": [], "action_growth": []}
    for seen in layers:
        _, turned = seen.kernel.rotate(None, seen.k, None, seen.positions)
        assert turned is not None  # keys were given
        norms = turned.norm(dim=-1)[..., :-1]  # the last token is no letter
        for name, x in (
            ("key_growth", norms),
            ("action_growth", norms / seen.k.norm(dim=-1)[..., :-1]),
        ):
            ratios[name].append(float(x[..., -NEAR_ENDS:].mean() / x[..., :NEAR_ENDS].mean()))
    return {name: sum(x) / len(x) for name, x in ratios.items()}
