"""What the trainings of a diagnosis say, in the numbers that its rule reads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..experiments.analysis.student import t_quantile
from ..experiments.text.lines import unigram_losses
from .arms import ARMS, SINGLES, UNION
from .plan import Data, Plan

__all__ = ["Evidence", "Interval", "gather", "interval"]


@dataclass(frozen=True)
class Interval:
    """A mean with its interval; ``low`` and ``high`` are None for a single value."""

    mean: float
    low: float | None
    high: float | None
    n: int

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n}

    def text(self, sign: bool = True) -> str:
        """``+0.123 ± 0.004``."""
        shown = f"{self.mean:{'+' if sign else ''}z.3f}"
        return shown if self.high is None else f"{shown} ± {self.high - self.mean:.3f}"


def interval(values: Sequence[float], comparisons: int = 1) -> Interval:
    """Mean with its t-interval, 95 % for all of so many comparisons together (Bonferroni).

    Args:
        values: independent ones, such as differences of held-out segments.
        comparisons: how many intervals must hold at once.
    """
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return Interval(mean, None, None, n)
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    half = t_quantile(1 - 0.025 / comparisons, n - 1) * spread
    return Interval(mean, mean - half, mean + half, n)


@dataclass(frozen=True)
class Evidence:
    """Summaries of all trainings; nats per token, the same held-out segments everywhere.

    Attributes:
        tokens: length of the source.
        unigram: loss of each segment by the share of its tokens in the training part.
        near: arm → seed → loss of each segment at L; the union's runs are averaged over its starts.
        far: the same at the longest length.
        left_out: part ("fj", "lc 1", ...) → start → loss at L with the part left out of a union minus
            the loss, a number a seed.
        falls: arm → how far the held-out loss fell in the second half of the training, mean of runs.
        learned: how far the union's held-out loss is below the unigram loss, or 0.
    """

    tokens: int
    unigram: list[float]
    near: dict[str, list[list[float]]]
    far: dict[str, list[list[float]]]
    left_out: dict[str, dict[str, list[float]]]
    falls: dict[str, float]
    learned: float

    def loss(self, arm: str, *, far: bool = False) -> list[float]:
        """Loss of each segment, mean of the seeds."""
        runs = (self.far if far else self.near)[arm]
        return [sum(values) / len(values) for values in zip(*runs, strict=True)]

    def gap(self, a: str, b: str, *, far: bool = False, comparisons: int = 1) -> Interval:
        """Loss of ``a`` minus loss of ``b`` over the segments."""
        pairs = zip(self.loss(a, far=far), self.loss(b, far=far), strict=True)
        return interval([x - y for x, y in pairs], comparisons)

    def same_sign(self, a: str, b: str) -> bool:
        """Whether ``a`` loses more than ``b`` in every seed, at L."""
        return all(sum(x) > sum(y) for x, y in zip(self.near[a], self.near[b], strict=True))


def gather(cells: Sequence[Mapping[str, Any]], plan: Plan, data: Data, tokens: int) -> Evidence:
    """Summaries of the cells of a diagnosis."""
    ends = str(plan.shape.length), str(max(plan.shape.lengths))
    near, far = ({arm: _by_seed(cells, arm, end) for arm in ARMS} for end in ends)
    at = data.windows.positions(plan.shape.length)
    line = unigram_losses(data.train, data.windows.tokens, at, data.vocab)
    unigram = line.reshape(len(data.windows.ends), -1).mean(1).tolist()
    union = [v for seed in near[UNION] for v in seed]
    learned = sum(unigram) / len(unigram) - sum(union) / len(union)
    return Evidence(
        tokens=tokens,
        unigram=unigram,
        near=near,
        far=far,
        left_out=_left_out(cells, plan.shape.length),
        falls={arm: _fall([c for c in cells if c["arm"] == arm]) for arm in ARMS},
        learned=max(0.0, learned),
    )


def _by_seed(cells: Sequence[Mapping[str, Any]], arm: str, length: str) -> list[list[float]]:
    mine = [c for c in cells if c["arm"] == arm]
    found = []
    for seed in sorted({c["seed"] for c in mine}):
        runs = [c["losses"][length] for c in mine if c["seed"] == seed]
        found.append([sum(v) / len(v) for v in zip(*runs, strict=True)])
    return found


def _left_out(cells: Sequence[Mapping[str, Any]], length: int) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        for row in cell.get("left_out", ()):
            if row["length"] == length:
                order = row["order"]
                part = row["sector"] if order is None else f"{row['sector']} {order}"
                found.setdefault(part, {}).setdefault(cell["start"], []).append(row["change"])
    return {part: found[part] for part in sorted(found, key=_place)}


def _place(part: str) -> tuple[int, str]:
    return SINGLES.index(part.split()[0]), part


def _fall(cells: Sequence[Mapping[str, Any]]) -> float:
    """Held-out loss at half of the steps minus that at the end."""
    falls = []
    for cell in cells:
        curve = cell["curve"]
        half = min(curve, key=lambda row: abs(row["step"] - curve[-1]["step"] / 2))
        falls.append(half["held_out"] - curve[-1]["held_out"])
    return sum(falls) / len(falls)
