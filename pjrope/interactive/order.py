"""The explorer of chapter order: what moves a score, the lag or the position itself."""

from __future__ import annotations

from typing import Any

import torch

from ..positions import lags
from .controls import Choice, Slider
from .figure import Curves, InteractiveFigure

SCHEMES = ("none", "ALiBi", "RoPE", "added wave")

_LAG_SCRIPT = """
const keys = KEYS, i = v.query, w = v.omega;
const score = {
  "none": () => 1,
  "ALiBi": (p, r) => 1 - v.slope * Math.abs(p - r),
  "RoPE": (p, r) => Math.cos(w * (p - r)),
  "added wave": (p, r) =>
    (1 + Math.cos(w * p) + Math.cos(w * r) + Math.cos(w * (p - r))) / 4,
}[v.scheme];
const row = (t) => Array.from({ length: keys }, (_, j) => [j, score(i + t, j + t)]);
return { "positions from 0": row(0), "all positions shifted": row(v.shift) };
"""


def lag_score_rows(
    scheme: str,
    query: int,
    shift: int,
    slope: float = 0.0625,
    omega: float = 0.5,
    *,
    keys: int = 16,
) -> dict[str, tuple[list[float], list[float]]]:
    """One query's scores against equal keys, before and after all positions move by ``shift``.

    Every token carries the channels ``x = (1, 0)``. With ``d`` the lag: "none" scores 1, "ALiBi"
    ``1 - slope |d|``, "RoPE" ``cos(omega d)``, and "added wave", which adds
    ``u_p = (cos omega p, sin omega p)`` to x before the product, ``(x + u_i) . (x + u_j) / 4``.

    Args:
        scheme: one of ``SCHEMES``.
        query: index of the query among the tokens, ``0 <= query < keys``.
        shift: tokens by which every position is moved.
        slope: nats per token, used by ALiBi.
        omega: radians per token, used by RoPE and the added wave.
        keys: number of tokens.

    Returns:
        label -> (key indices, scores without unit), ``keys`` points each.

    Raises:
        ValueError: a scheme that is not known.

    Limits: one pair of channels, so one slope and one frequency.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme is {scheme!r}: known are {', '.join(SCHEMES)}")
    index = torch.arange(keys)

    def row(start: int) -> tuple[list[float], list[float]]:
        i, j = torch.tensor([int(query) + start]), index + start
        i, j, d = i.double(), j.double(), lags(i, j)[0].double()
        if scheme == "added wave":
            scores = (1 + torch.cos(omega * i) + torch.cos(omega * j) + torch.cos(omega * d)) / 4
        elif scheme == "RoPE":
            scores = torch.cos(omega * d)
        else:
            scores = 1 - (slope if scheme == "ALiBi" else 0.0) * d.abs()
        return index.tolist(), scores.tolist()

    return {"positions from 0": row(0), "all positions shifted": row(int(shift))}


def lag_scores(keys: int = 16) -> InteractiveFigure:
    """A row of the score matrix, with sliders for the query and for a shift of all positions.

    Args:
        keys: number of tokens.

    Returns:
        A figure to end a notebook cell with.

    Chapter: order.
    """

    def curves(**values: Any) -> Curves:
        return lag_score_rows(**values, keys=keys)

    return InteractiveFigure(
        curves,
        _LAG_SCRIPT.replace("KEYS", str(keys)),
        [
            Choice("scheme", "scheme", SCHEMES, "RoPE"),
            Slider("query", "query index i (tokens)", 0, keys - 1, 1, keys // 2),
            Slider("shift", "shift of all positions (tokens)", 0, 64, 1, 5),
            Slider("slope", "slope of ALiBi (nats per token)", 0, 0.125, 0.0078125, 0.0625),
            Slider("omega", "frequency of RoPE, wave (radians per token)", 0, 1.5, 0.05, 0.5),
        ],
        xlabel="key index j (tokens)",
        ylabel="score (nats)",
        ylim=(-1.25, 1.25),
        alt=(
            "Scores of one query against equal keys, once with positions that start at 0 and once "
            "with all positions shifted. For no kernel, ALiBi and RoPE the two curves coincide; "
            "for a wave added to the tokens they differ. Moving the query slides the curves of "
            "ALiBi and RoPE along the keys without changing their shape."
        ),
        name="lag-scores",
    )
