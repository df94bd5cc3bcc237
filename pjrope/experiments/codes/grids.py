"""What the experiments on codes share: their protocols' cells, settings and presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...training.seeding import stream_seed
from ..engine.spec import Cell, Preset
from .lag_codes import CYCLES, PRECISIONS, PROTOCOLS, code

__all__ = ["cells_of", "codes_of", "presets_of", "training_seed"]

SAME = "as book, which has the paper's size; the reference has seed 0 alone"


def cells_of(
    methods: Mapping[str, Sequence[str]], precisions: Sequence[str] = ()
) -> Callable[[Preset, Sequence[int]], list[Cell]]:
    """Cells by protocol, method, precision (if there are any) and seed.

    Args:
        methods: protocol → codes.
        precisions: number types that are cells of their own.
    """
    fields: list[dict[str, str]] = [{"precision": name} for name in precisions] or [{}]

    def cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
        return [
            Cell({"protocol": protocol, "method": method, **field, "seed": seed})
            for protocol in PROTOCOLS
            for method in methods[protocol]
            for field in fields
            for seed in seeds
        ]

    return cells


def presets_of(
    smoke: Mapping[str, Any],
    book: Mapping[str, Any],
    costs: Sequence[str],
    paper: Mapping[str, Any] | None = None,
) -> dict[str, Preset]:
    """Three presets at L = 1,024; "paper" is "book" again unless it has settings of its own.

    Args:
        smoke, book, paper: settings beside length and cycles; those of smoke add to book's.
        costs: of smoke, book and, with settings of its own, paper.
    """
    shared = {"length": 1024, "cycles": {key: list(value) for key, value in CYCLES.items()}}
    seeds = (0, 1, 2, 3, 4)
    return {
        "smoke": Preset("smoke", (0,), {**shared, **book, **smoke}, costs[0]),
        "book": Preset("book", seeds, {**shared, **book}, costs[1]),
        "paper": Preset("paper", seeds, {**shared, **book, **(paper or {})}, [*costs, SAME][2]),
    }


def codes_of(cell: Cell, settings: Mapping[str, Any], times: int, device: str = "cpu") -> Tensor:
    """Codes of the lags 1 … times L - 1: fp64 by the fair protocol, fp32 by the paper's."""
    protocol, length = cell.key["protocol"], settings["length"]
    lags = torch.arange(1, times * length, device=device)
    lags = lags.to(torch.float64 if protocol == "fair" else torch.float32)
    return code(cell.key["method"], lags, length, settings["cycles"][protocol])


def training_seed(cell: Cell, name: str, methods: Sequence[str]) -> int:
    """paper: another seed for every code and precision; fair: one, so that all are paired."""
    if cell.key["protocol"] == "fair":
        return stream_seed(cell.seed, name)
    place = (methods.index(cell.key["method"]), list(PRECISIONS).index(cell.key["precision"]))
    return cell.seed + 1009 * place[0] + 9176 * place[1]
