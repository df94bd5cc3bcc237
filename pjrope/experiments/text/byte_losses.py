"""Losses of byte models by method and length, and what two of them differ by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.compare import paired_difference, summary, verdict
from ..engine.store import select

SMALLEST_EFFECT = 0.01  # nats per byte


class Losses:
    """Losses by method and length, and what two of them differ by over shared seeds."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = rows
        self.lengths = sorted({row["length"] for row in rows})
        self.methods = list(dict.fromkeys(row["method"] for row in rows))

    def said(self, method: str, length: int) -> str:
        values = [row["loss"] for row in select(self.rows, {"method": method, "length": length})]
        return summary(values).text()

    def against(self, method: str, other: str, length: int) -> tuple[str, str]:
        """Verdict and difference in words."""
        gap = paired_difference(
            self.rows, "loss", method=method, baseline=other, where={"length": length}
        )
        return verdict(gap, SMALLEST_EFFECT), gap.summary.text(sign=True)

    def growth(self, method: str) -> tuple[str, str]:
        """Verdict and difference of the longest context to the shortest, seed by seed."""
        gap = paired_difference(
            self.rows,
            "loss",
            method=self.lengths[-1],
            baseline=self.lengths[0],
            where={"method": method},
            by="length",
        )
        return verdict(gap, SMALLEST_EFFECT), gap.summary.text(sign=True)
