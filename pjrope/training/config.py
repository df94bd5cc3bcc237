"""How to train: one frozen, JSON-able object."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from .precision import PRECISIONS


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
        precision: "fp32", "bf16", "fp16" with scaled gradients, or "auto", what suits the device:
            fp32 on a CPU. Weights, positions and the optimiser stay in fp32.
        compile: run the model through ``torch.compile``.
        accumulate: pieces in which a batch is computed, one after the other, to save memory.
        checkpointing: compute a decoder's blocks anew in the backward pass instead of storing them.
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
    precision: str = "auto"
    compile: bool = False
    accumulate: int = 1
    checkpointing: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "length", "log_every", "checkpoint_every", "accumulate"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, at least 1 is needed")

        if self.precision not in PRECISIONS:
            raise ValueError(
                f"precision is {self.precision!r}: choose from {', '.join(PRECISIONS)}"
            )

    def identity(self) -> dict[str, Any]:
        """The fields as JSON; without later ones that are at their defaults, so that trainings
        begun before there were such fields go on."""
        later = ("precision", "compile", "accumulate", "checkpointing")
        usual = {f.name: f.default for f in fields(self) if f.name in later}
        return {k: v for k, v in asdict(self).items() if k not in usual or v != usual[k]}

    def rate(self, step: int) -> float:
        """Learning rate of the backbone at a step, counted from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * (self.final_lr + (1 - self.final_lr) * (1 + math.cos(math.pi * done)) / 2)
