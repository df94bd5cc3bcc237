"""What the package is to reach: for each kind of row the ratio it must stay within, and the aim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .cases import PLAIN
from .memory import SQUARE
from .models import PER_PAIR

__all__ = ["TARGETS", "Target", "target_of", "verdict"]

BIASES = ("alibi", "affine", "fj_affine", "full")
FOLDING = ("alibi", "affine", "fj_affine")
ROTARY = ("rope", "jordan")
LEARNED = (*BIASES, "t5")
ALL = (*BIASES, *ROTARY)


@dataclass(frozen=True)
class Target:
    """A bound on the ratio of the rows it applies to; only what ``auto`` chose is judged.

    Attributes:
        section: name of the section.
        methods: kernels.
        least_n: shortest N.
        must: largest ratio that is good enough.
        strive: ratio to aim at.
        against: reference, where a section has several.
        passes: of memory rows.
        device: "cpu" or "cuda".
        exact_n: the only N, instead of the shortest.
    """

    section: str
    methods: tuple[str, ...]
    least_n: int
    must: float
    strive: float
    against: str | None = None
    passes: str | None = None
    device: str = "cpu"
    exact_n: bool = False

    def applies(self, row: Mapping[str, Any], device: str) -> bool:
        """Say whether a row is judged by this target."""
        return (
            (self.section, self.device) == (row["section"], device)
            and row["method"] in self.methods
            and row["backend"] in ("auto", "")
            and (row["n"] == self.least_n if self.exact_n else row["n"] >= self.least_n)
            and self.against in (None, row["against"])
            and self.passes in (None, row.get("passes"))
        )


TARGETS = (
    Target("forward", BIASES, 4096, 1.15, 1.00),
    Target("forward", ROTARY, 8192, 1.20, 1.05),
    Target("backward", FOLDING, 1024, 1.35, 1.05),
    Target("backward", ("full",), 1024, 1.60, 1.25),
    Target("rotate", ("rope",), 0, 1.00, 0.30),
    Target("rotate", ("jordan",), 0, 1.50, 0.30),
    Target("decode", ALL, 32768, 1.10, 0.50),
    Target("memory", ALL, 32768, 1.25, 1.05, PLAIN, "forward"),
    Target("memory", ALL, 32768, 1.00, 0.25, SQUARE),
    Target("training", ("full",), 1024, 1.30, 1.10, "none", exact_n=True),
    Target("training", ("full",), 1024, 1 / 3, 1 / 5, PER_PAIR, exact_n=True),
    Target("evaluation", ALL, 32768, 1.20, 1.00),
    Target("forward", LEARNED, 4096, 1.15, 1.00, device="cuda"),
    Target("backward", LEARNED, 4096, 1.30, 1.15, device="cuda"),
    Target("memory", LEARNED, 32768, 1.25, 1.05, PLAIN, device="cuda"),
)


def target_of(row: Mapping[str, Any], device: str) -> Target | None:
    """The target that judges a row, or None."""
    return next((target for target in TARGETS if target.applies(row, device)), None)


def verdict(ratio: float, target: Target) -> str:
    """ "missed", "met", or "met, aim too", by the two decimals that are printed."""
    shown = round(ratio, 2)
    if shown > round(target.must, 2):
        return "missed"
    return "met, aim too" if shown <= round(target.strive, 2) else "met"
