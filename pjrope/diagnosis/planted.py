"""Series with a known sector and order, to test a diagnosis on: the truth is planted.

Token t+1 copies the token d back from t, with d drawn from the softmax of a bias b(d) over the lags
0 ... L-1; one token in ten is drawn at random. One head with the bias b predicts such a series best, so the
sector and order of b are what a diagnosis should name.

The models have one head: four heads with frequencies of their own imitate a bent phase by straight ones, and
steep recency by a table. Two earlier forms of this test found three of six series (four heads) and five of
ten (one head, 300 steps), where the sector of least loss led. They showed that a jet can imitate recency
within the difference that matters, and that 300 steps do not train a jet alone. In this form the simplest
sector within that difference leads, and trainings take 600 steps. Both were settled before these series were
drawn, from seeds of their own.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data.home import expanded
from ..experiments.engine import environment
from ..experiments.engine.plain_json import digest
from ..experiments.engine.result import FORMAT
from ..experiments.engine.store import write
from ..positions import coordinates
from .api import diagnose
from .arms import Shape
from .decision import Decision
from .source import InputError, Source, source_of

__all__ = ["PLANTED", "Planted", "card", "planted_series", "run_planted"]

NOISE = 0.1
ALPHABET = 16
STARTS = ("uniform", "affine")  # of the union's gates, in each diagnosis
FIRST_SEED = 3000
SHAPE = Shape(layers=1, heads=1)


@dataclass(frozen=True)
class Planted:
    """A bias of one sector.

    Attributes:
        sector: "affine", "near", "fj" or "lc".
        order: of a jet; None for the others.
        size: amplitude of a jet at x = 1, slope of the line per L tokens, or largest entry of the table; nats.
        turns: of a jet, per L tokens.
    """

    sector: str
    order: int | None
    size: float
    turns: float = 0.0

    @property
    def name(self) -> str:
        order = "" if self.order is None else f"{self.order}"
        return f"{self.sector}{order}-{self.size:g}"

    def bias(self, length: int) -> Tensor:
        """``(L,)`` b(d) for d = 0 ... L-1, nats, fp64."""
        d = torch.arange(length).double()
        x = d / length
        if self.sector == "affine":
            return -self.size * x
        if self.sector == "near":
            table = torch.zeros_like(d)
            pattern = torch.tensor([0.2, 1.0, 0.0, 0.9, 0.1, 0.8, 0.0, 0.6]).double()
            table[: len(pattern)] = self.size * pattern
            return table
        assert self.order is not None, "a jet has an order"
        omega = 2 * math.pi * self.turns / length
        if self.sector == "fj":
            return self.size * x**self.order * torch.cos(omega * d)
        beta = d / torch.hypot(d, torch.tensor(float(length)).double())
        return self.size * beta**self.order * torch.cos(omega * coordinates.phase(d, length))


# Ten truths. Sizes and turns were chosen so that each bias is clear, on a series of another seed than
# those of the run, before the rule met any of them.
PLANTED = (
    Planted("affine", None, 24.0),
    Planted("affine", None, 8.0),
    Planted("near", None, 5.0),
    Planted("near", None, 7.0),
    Planted("fj", 0, 4.0, turns=7.3),
    Planted("fj", 1, 8.0, turns=9.6),
    Planted("fj", 2, 10.0, turns=8.4),
    Planted("lc", 0, 4.0, turns=9.2),
    Planted("lc", 1, 9.0, turns=11.7),
    Planted("lc", 2, 14.0, turns=14.3),
)


def planted_series(truth: Planted, tokens: int = 60_000, *, length: int = 64, seed: int) -> Source:
    """A series that copies its past with the odds of a planted bias.

    Args:
        truth: the bias.
        tokens: how many.
        length: L, tokens; no lag is longer.
        seed: of the draws.

    Returns:
        a source of 16 symbols.
    """
    generator = torch.Generator().manual_seed(seed)
    odds = truth.bias(length).softmax(0)
    back = torch.multinomial(odds, tokens, replacement=True, generator=generator).tolist()
    fresh = torch.randint(ALPHABET, (tokens,), generator=generator).tolist()
    noisy = (torch.rand(tokens, generator=generator) < NOISE).tolist()
    made: list[int] = []
    for t in range(tokens):
        at = t - 1 - back[t]
        made.append(fresh[t] if noisy[t] or at < 0 else made[at])
    return source_of(made, name=truth.name, notes=["Planted: " + truth.name + "."])


def run_planted(out: Path | str, *, steps: int = 600, device: str = "cpu") -> list[dict[str, Any]]:
    """Diagnose the ten planted series, or go on with it, and write what was found.

    Args:
        out: folder; a series already diagnosed is taken from there.
        steps: of each training.
        device: torch device.

    Returns:
        a row a series: ``name``, the planted ``sector`` and ``order``, the ``verdict``, the ``leading``
        sector, ``rivals``, ``fj_orders`` and ``lc_orders`` where orders of a jet are used, and ``found``:
        whether the planted sector leads without a rival. ``planted.json`` has the same with a run card, in
        the form of a record.

    Limits: about 40 core-minutes at the given steps. "Found" asks for the sector alone; orders are
    reported, not judged.
    """
    out, begun = expanded(out, InputError), (time.perf_counter(), time.process_time())
    rows: list[dict[str, Any]] = []
    for number, truth in enumerate(PLANTED):
        seed = FIRST_SEED + number
        report = diagnose(
            planted_series(truth, seed=seed),
            steps=steps,
            starts=STARTS,
            shape=SHAPE,
            out=out / truth.name,
            device=device,
        )
        report.save(out / truth.name)
        rows.append(_row(truth, seed, report.decision))
        took = time.perf_counter() - begun[0], time.process_time() - begun[1]
        write(out / "planted.json", {"card": card(rows, steps, device, took), "rows": rows})
    return rows


def _row(truth: Planted, seed: int, decision: Decision) -> dict[str, Any]:
    return {
        "method": "diagnosis",
        "seed": seed,
        "name": truth.name,
        "sector": truth.sector,
        "order": truth.order,
        "verdict": decision.verdict,
        "leading": decision.leading,
        "rivals": list(decision.rivals),
        **{f"{s.sector}_orders": list(s.orders) for s in decision.sectors if s.orders},
        "found": decision.leading == truth.sector,
    }


def card(
    rows: list[dict[str, Any]], steps: int, device: str, took: tuple[float, float]
) -> dict[str, Any]:
    """The run card of some planted series, in the form of an experiment's record.

    Args:
        rows: of the series that are finished.
        steps: of each training.
        device: torch device.
        took: wall and processor seconds; of a run that was stopped, those since it went on.
    """
    settings = {
        "steps": steps,
        "starts": list(STARTS),
        "shape": SHAPE.to_json(),
        "planted": [asdict(truth) for truth in PLANTED],
    }
    return {
        "format": FORMAT,
        "experiment": "diagnosis/planted",
        "command": f"pjrope diagnose --planted --device {device}",
        "preset": "simplest_first",
        "spec_id": digest(settings),
        "revision": 1,
        "settings": settings,
        "seeds": [row["seed"] for row in rows],
        "cells": len(rows),
        "data": [],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "wall_seconds": round(took[0], 3),
        "cpu_seconds": round(took[1], 3),
        **environment.describe(device),
    }
