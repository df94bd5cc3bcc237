"""The explorer of chapter rope: what a frequency ladder and its extensions do to a score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..positions import NTK, PI, YaRN, geometric
from .controls import Choice, Slider
from .figure import Curves, InteractiveFigure

EXTENSIONS = ("none", "PI", "NTK", "YaRN")

_ROPE_SCRIPT = """
const D = v.head_dim, L = LENGTH, longest = LONGEST, s = v.scale;
const geometric = (base) =>
  Array.from({ length: D / 2 }, (_, k) => Math.pow(base, (-2 * k) / D));
const stretch = {
  none: (w) => w,
  PI: (w) => w.map((x) => x / s),
  NTK: () => geometric(v.base * Math.pow(s, D / (D - 2))),
  YaRN: (w) => w.map((x) => {
    const turns = (L * x) / (2 * Math.PI);
    const keep = Math.min(1, Math.max(0, (turns - 1) / 31));
    return x * (keep + (1 - keep) / s);
  }),
};
const curve = (omega, factor) => Array.from({ length: longest + 1 }, (_, d) =>
  [d, factor * omega.reduce((sum, w) => sum + Math.cos(w * d), 0) / omega.length]);
const plain = geometric(v.base);
const curves = { "RoPE": curve(plain, 1) };
if (v.extension !== "none") {
  const factor = v.extension === "YaRN" ? Math.pow(1 + 0.1 * Math.log(s), 2) : 1;
  curves["with " + v.extension] = curve(stretch[v.extension](plain), factor);
}
return curves;
"""


def rope_score_curves(
    base: float,
    head_dim: int,
    extension: str = "none",
    scale: float = 1.0,
    *,
    length: int = 256,
    longest: int = 1024,
) -> dict[str, tuple[list[float], list[float]]]:
    """Score of equal queries and keys under RoPE, ``t^2 mean_k cos(omega_k d)``, by lag d.

    Args:
        base: ratio of the ladder's ends, above 1.
        head_dim: D, even; 4 or more with NTK.
        extension: one of ``EXTENSIONS``; "none" draws the plain ladder only.
        scale: s >= 1, target length over training length.
        length: L, the training length in tokens (YaRN counts turns in it).
        longest: the last lag drawn, tokens.

    Returns:
        label -> (lags in tokens, scores without unit), ``longest + 1`` points each.

    Raises:
        ValueError: an extension that is not known.

    Limits: all-ones queries and keys, scaled to 1 at lag 0; t is YaRN's temperature, else 1.
    """
    kinds: dict[str, Callable[..., Any]] = {
        "PI": PI,
        "NTK": NTK,
        "YaRN": partial(YaRN, ramp="turns"),
    }  # as the page has it
    if extension not in EXTENSIONS:
        raise ValueError(f"extension is {extension!r}: known are {', '.join(EXTENSIONS)}")
    lags = torch.arange(longest + 1, dtype=torch.float64)

    def curve(omega: torch.Tensor, factor: float) -> tuple[list[float], list[float]]:
        scores = factor * torch.cos(lags[:, None] * omega).mean(dim=1)
        return lags.tolist(), scores.tolist()

    plain = geometric(int(head_dim), base)
    curves = {"RoPE": curve(plain, 1.0)}
    if extension != "none":
        stretch = kinds[extension](scale=float(scale), length=length)
        factor = float(stretch.temperature(float(scale))) ** 2
        curves[f"with {extension}"] = curve(stretch.frequencies(plain, float(scale)), factor)
    return curves


def rope_scores(length: int = 256, longest: int = 1024) -> InteractiveFigure:
    """RoPE's score by lag, with sliders for base, head dimension and a context extension.

    Args:
        length: L, the training length in tokens, marked in the figure.
        longest: the last lag drawn, tokens.

    Returns:
        A figure to end a notebook cell with.

    Chapter: rope.
    """

    def curves(**values: Any) -> Curves:
        return rope_score_curves(**values, length=length, longest=longest)

    return InteractiveFigure(
        curves,
        _ROPE_SCRIPT.replace("LENGTH", str(length)).replace("LONGEST", str(longest)),
        [
            Slider("base", "base", 2, 6, 0.25, 4, log=True),
            Slider("head_dim", "head dimension (channels)", 4, 128, 4, 64),
            Choice("extension", "extension", EXTENSIONS, "none"),
            Slider("scale", "scale s", 1, 32, 1, 4),
        ],
        xlabel="lag (tokens)",
        ylabel="score",
        ylim=(-1.0, 2.0),
        marks={f"training length {length}": length},
        alt=(
            "Score of equal queries and keys against the lag. It falls from its highest value at "
            "lag 0 and then wavers around a low level; a larger base keeps it high for longer, few "
            "channels make it swing, and each extension stretches the curve beyond the training "
            "length in its own way."
        ),
        name="rope-scores",
    )
