"""How a budget of minutes becomes trainings: seconds are measured, steps follow."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..data.batches import EvaluationWindows, evaluation_windows
from ..diagnostics import leave_one_out_loss
from ..training import TrainConfig, evaluate, train
from .arms import Cell, Shape, build, cells_of, starting_frequencies
from .source import InputError, Source

__all__ = ["CHECKS", "FEWEST_STEPS", "Data", "Plan", "make_plan", "split", "training_config"]

FEWEST_STEPS, MOST_STEPS = 60, 4000
LONG_ENOUGH = 700  # steps that a longer window must still allow
CHECKS = 8  # times a training looks at its held-out loss
PROBE_STEPS = 3
PROBE_SHARE = 8  # one of so many held-out segments is read to measure a reading
SPENT = 0.9  # of the budget; the rest is for measuring and writing


@dataclass(frozen=True, eq=False)
class Data:
    """A source cut into training tokens and held-out segments.

    Attributes:
        train: ``(n,)`` tokens.
        windows: the held-out segments.
        vocab: number of ids.
    """

    train: Tensor
    windows: EvaluationWindows
    vocab: int


@dataclass(frozen=True)
class Plan:
    """What will be trained.

    Attributes:
        shape: of the models.
        steps: of each training.
        seeds: of the trainings.
        starts: of the union's gates.
        minutes: the budget; None where the steps were given.
        seconds_per_step: measured, by arm; empty where the steps were given.
        data: SHA-256 of the tokens.
    """

    shape: Shape
    steps: int
    seeds: tuple[int, ...]
    starts: tuple[str, ...]
    minutes: float | None
    seconds_per_step: dict[str, float]
    data: str

    @property
    def cells(self) -> list[Cell]:
        return cells_of(self.seeds, self.starts)

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": self.shape.to_json(),
            "steps": self.steps,
            "seeds": list(self.seeds),
            "starts": list(self.starts),
            "minutes": self.minutes,
            "seconds_per_step": self.seconds_per_step,
            "data": self.data,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Plan:
        lists = {name: tuple(value[name]) for name in ("seeds", "starts")}
        return cls(**{**value, **lists, "shape": Shape(**value["shape"])})


def split(source: Source, shape: Shape) -> Data:
    """The last tenth is held out, and scored in evenly spread segments.

    Raises:
        InputError: too few tokens for 8 segments and a training window.
    """
    cut = len(source) * 9 // 10
    held, longest = source.tokens[cut:], max(shape.lengths)
    segments = min(shape.segments, (len(held) - longest - 1) // shape.scored)
    if segments < 8 or cut < 4 * shape.length:
        raise InputError(
            f"{source.name} has {len(source):,} tokens: 8 held-out segments with contexts to {longest} "
            f"take {10 * (longest + 1 + 8 * shape.scored):,}"
        )
    windows = evaluation_windows(held, segments=segments, scored=shape.scored, longest=longest)
    return Data(source.tokens[:cut], windows, source.vocab)


def training_config(shape: Shape, steps: int) -> TrainConfig:
    """Rates at which a bias of several nats is learned in some hundred steps."""
    return TrainConfig(
        steps=steps,
        batch=shape.batch,
        length=shape.length,
        lr=4e-3,
        warmup=max(1, steps // 20),
        final_lr=0.1,
        clip=1.0,
        position_lr=40.0,
        gate_lr=10.0,
        omega_lr=0.1,
        log_every=max(1, -(-steps // CHECKS)),
        checkpoint_every=max(20, -(-steps // 4)),
        precision="fp32",
    )


def make_plan(
    source: Source,
    shape: Shape | None,
    *,
    minutes: float,
    seeds: Sequence[int],
    starts: Sequence[str],
    device: str,
) -> Plan:
    """Measure a step and a reading, and share out what the measuring leaves of the budget.

    Without a given shape, windows are 128 tokens if that leaves 700 steps, else 64.

    Raises:
        InputError: a budget below 60 steps a training.
    """
    begun = time.perf_counter()
    seeds, starts = tuple(seeds), tuple(starts)
    cells, budget = cells_of(seeds, starts), 60 * SPENT * minutes
    longer = Shape(length=128, batch=8)
    if shape is None and _cheapest_step(source, longer, cells, device) * LONG_ENOUGH > budget:
        shape = Shape()  # not even the arm that is trained fastest would get there
    for tried in [shape] if shape else [longer, Shape()]:
        step, reading = _measured(source, tried, cells, device)
        reading += time.perf_counter() - begun
        each = sum(step[cell.arm] for cell in cells)
        steps = max(0, int((budget - reading) / each))
        if steps >= LONG_ENOUGH:
            break
    if steps < FEWEST_STEPS:
        needed = max(0.1, 1.1 * (FEWEST_STEPS * each + reading) / (60 * SPENT))
        raise InputError(
            f"{minutes:g} minutes are {steps} steps for each of {len(cells)} models, at least "
            f"{FEWEST_STEPS} are needed: give --minutes {needed:.1f}"
        )
    rounded = {arm: float(f"{s:.3g}") for arm, s in step.items()}
    steps = min(steps, MOST_STEPS)
    return Plan(tried, steps, seeds, starts, minutes, rounded, source.sha256)


def _cheapest_step(source: Source, shape: Shape, cells: Sequence[Cell], device: str) -> float:
    """Seconds that a step of all cells takes at least: as if each were the first."""
    data = split(source, shape)
    model = build(cells[0], shape, data.vocab, {}).to(device)
    return len(cells) * _seconds_per_step(model, data, shape)


def _measured(
    source: Source, shape: Shape, cells: Sequence[Cell], device: str
) -> tuple[dict[str, float], float]:
    """Seconds of a step, by arm, and of the reading of all cells."""
    data = split(source, shape)
    omega = starting_frequencies(data.train, shape)
    step, reading = {}, 0.0
    for cell in {cell.arm: cell for cell in cells}.values():
        model = build(cell, shape, data.vocab, omega).to(device)
        step[cell.arm] = _seconds_per_step(model, data, shape)
        same = sum(other.arm == cell.arm for other in cells)
        reading += same * _seconds_of_reading(model, data, shape, cell.arm)
    return step, reading


def _seconds_per_step(model: torch.nn.Module, data: Data, shape: Shape) -> float:
    train(model, data.train, training_config(shape, 1), seed=0, progress=False)
    begun = time.perf_counter()
    train(model, data.train, training_config(shape, PROBE_STEPS), seed=0, progress=False)
    return (time.perf_counter() - begun) / PROBE_STEPS


def _seconds_of_reading(model: torch.nn.Module, data: Data, shape: Shape, arm: str) -> float:
    """Seconds of the held-out checks of one training and of what is read from it."""
    few = replace(data.windows, ends=data.windows.ends[::PROBE_SHARE])
    begun = time.perf_counter()
    evaluate(model, few, lengths=[shape.length])
    checks = CHECKS * (time.perf_counter() - begun)
    begun = time.perf_counter()
    evaluate(model, few, lengths=shape.lengths)
    if arm == "union":
        leave_one_out_loss(model, few, lengths=[shape.length, max(shape.lengths)])
    taken = checks + time.perf_counter() - begun
    return taken * len(data.windows.ends) / len(few.ends)
