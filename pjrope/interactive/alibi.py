"""The explorer of chapter alibi: how far a head with a slope sees, and what content can change."""

from __future__ import annotations

from typing import Any

import torch

from .controls import Slider
from .figure import Curves, InteractiveFigure

NEAR = 64  # tokens: keys from here on may match better than the nearer ones

_WINDOW_SCRIPT = """
const near = NEAR, n = v.keys;
const running = (match) => {
  const w = Array.from({ length: n }, (_, d) =>
    Math.exp((d < near ? 0 : match - v.slope * near) - v.slope * (d < near ? d : d - near)));
  let sum = 0;
  const sums = w.map((x) => (sum += x));
  return [w, sums.map((x) => x / sum)];
};
const [, equal] = running(0), [weight, share] = running(v.match);
const top = Math.max(...weight);
const curve = (ys) => ys.map((y, d) => [d, y]);
return {
  "share up to d, all keys match alike": curve(equal),
  "share up to d, far keys match better": curve(share),
  "weight at d over the largest, same keys": curve(weight.map((x) => x / top)),
};
"""


def window_curves(
    slope: float = 0.0625, match: float = 0.0, keys: int = 256
) -> dict[str, tuple[list[int], list[float]]]:
    """Attention of one query under a linear bias: weights, and shares of the nearest keys, by lag.

    The logit at lag d is ``-slope d``, plus ``match`` for the keys at lag 64 and beyond.

    Args:
        slope: m >= 0, nats per token.
        match: by how much far keys match better, nats.
        keys: N, tokens that the query sees, itself included.

    Returns:
        label -> (lags 0 ... N-1, numbers from 0 to 1): the share of all weight at lags up to d,
        with all keys alike and with far keys better, and the weights of the latter over the
        largest of them.
    """
    d = torch.arange(int(keys))
    bias = -slope * d.double()
    logits = bias + match * (d >= NEAR)
    weight = logits.softmax(0)
    labels = (
        "share up to d, all keys match alike",
        "share up to d, far keys match better",
        "weight at d over the largest, same keys",
    )
    curves = (bias.softmax(0).cumsum(0), weight.cumsum(0), weight / weight.max())
    return {label: (d.tolist(), ys.tolist()) for label, ys in zip(labels, curves, strict=True)}


def attention_window() -> InteractiveFigure:
    """The window of a slope, with sliders for the slope, what content adds, and the context.

    Returns:
        A figure to end a notebook cell with.

    Chapter: alibi.
    """

    def curves(**values: Any) -> Curves:
        return window_curves(**values)

    return InteractiveFigure(
        curves,
        _WINDOW_SCRIPT.replace("NEAR", str(NEAR)),
        [
            Slider("slope", "slope m (nats per token)", 0, 0.25, 2**-8, 2**-4),
            Slider("match", "far keys match better by (nats)", 0, 12, 0.5, 3),
            Slider("keys", "context N (tokens)", 64, 1024, 64, 256),
        ],
        xlabel="lag d (tokens)",
        ylabel="share or weight",
        ylim=(0, 1.02),
        marks={f"lag {NEAR}": NEAR},
        alt=(
            "Share of attention on lags up to d. With a slope and equal keys it rises to 1 within a "
            "few times one over the slope, however long the context. When keys beyond lag 64 match "
            "better, it waits for them if the match outweighs slope times 64. Without a slope the "
            "first curve is a straight line over the whole context. A third curve shows single "
            "weights, which fall exponentially and jump up where the better keys begin."
        ),
        name="attention-window",
    )
