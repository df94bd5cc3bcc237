"""How to train: one frozen, JSON-able object."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainConfig:
    """How to train; JSON-able.

    Attributes:
        steps: optimiser steps.
        batch: windows per step.
        length: tokens predicted per window.
        lr: peak learning rate of the backbone.
        weight_decay: of the backbone; position parameters have none.
        warmup: steps of linear warm-up.
        final_lr: learning rate at the end over the peak, reached along a cosine; 1.0 is constant.
        clip: largest gradient norm; 0 clips nothing.
        position_lr: factor on the learning rate of position parameters.
        gate_lr: the same for sector gates and order weights.
        omega_lr: the same for frequencies.
        log_every: steps between rows of the log.
        checkpoint_every: steps between checkpoints.
    """

    steps: int
    batch: int
    length: int
    lr: float = 3e-3
    weight_decay: float = 1e-4
    warmup: int = 0
    final_lr: float = 1.0
    clip: float = 0.0
    position_lr: float = 1.0
    gate_lr: float = 10.0
    omega_lr: float = 0.0
    log_every: int = 20
    checkpoint_every: int = 200

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "length", "log_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, at least 1 is needed")

    def rate(self, step: int) -> float:
        """Learning rate of the backbone at a step, counted from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * (self.final_lr + (1 - self.final_lr) * (1 + math.cos(math.pi * done)) / 2)
