"""The folder of one training: its lock, the last two checkpoints, and the best one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import nn

from ..data.home import expanded
from .checkpoints import (
    CheckpointError,
    load_tensors,
    plain_state,
    restore_training_state,
    save_tensors,
    training_state,
)
from .config import TrainConfig

LAST, PREVIOUS, BEST = (f"{name}.safetensors" for name in ("checkpoint", "previous", "best"))


class TrainingFolder:
    """Checkpoints of one training in one folder; a context that holds the folder's lock.

    Args:
        path: the folder, made if it is missing; ``~`` is the home folder.
        identity: what two attempts must share to be one training, JSON values.
        config: with which the training runs.

    Raises:
        CheckpointError: the folder is another training's, or one is writing to it now.
    """

    def __init__(self, path: Path | str, identity: dict[str, Any], config: TrainConfig) -> None:
        self.path = expanded(path, CheckpointError)
        self.identity, self.config = identity, config
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.path / "train.lock")
        self._least = float("inf")
        self.extra: dict[str, Any] = {}  # what resume found beside weights and optimiser

    def __enter__(self) -> TrainingFolder:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise CheckpointError(
                f"{self.path} is in use by another training: wait for it or train into another folder"
            ) from None
        except (OSError, NotImplementedError) as error:  # a file system without locks
            warnings.warn(
                f"{self.path} cannot be locked ({error}): start no second training in it",
                stacklevel=2,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def resume(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Restore the last readable checkpoint, if there is one.

        Returns:
            the step to go on from, 0 where there is none.
        """
        for name in (LAST, PREVIOUS):
            path = self.path / name
            if not path.exists():
                continue
            try:
                tensors, metadata = load_tensors(path)
            except CheckpointError as error:
                if name == PREVIOUS or not (self.path / PREVIOUS).exists():
                    raise
                warnings.warn(f"{error}; going on from {PREVIOUS}", stacklevel=2)
                continue
            self._check(path, metadata)
            restore_training_state(tensors, model, optimizer)
            self.extra = metadata.get("extra", {})
            best = self.path / BEST
            if best.exists():
                self._least = float(load_tensors(best)[1]["watched"])
            return metadata["step"]
        return 0

    def save(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        step: int,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """Write a checkpoint; the one before stays as the previous one.

        Args:
            model: its weights are kept.
            optimizer: its state is kept.
            step: steps done.
            extra: JSON values to keep too.

        Raises:
            FloatingPointError: weights that are no longer finite; no checkpoint is replaced.
        """
        tensors = training_state(model, optimizer)
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise FloatingPointError(
                    f"{name} is no longer finite at step {step}: lower lr={self.config.lr} or set "
                    f"clip; the last good checkpoint stays in {self.path}"
                )
        last = self.path / LAST
        metadata = {**self.identity, "step": step, **({"extra": extra} if extra else {})}
        save_tensors(last, tensors, metadata, previous=self.path / PREVIOUS)

    def keep_best(self, model: nn.Module, step: int, watched: float) -> None:
        """Write the model's weights if what is watched is the least so far."""
        if watched < self._least:
            self._least = watched
            save_tensors(self.path / BEST, plain_state(model), {"step": step, "watched": watched})

    def _check(self, path: Path, metadata: dict[str, Any]) -> None:
        for name, value in self.identity.items():
            old = metadata.get(name)
            if name == "config" and isinstance(old, dict) and self._goes_on(old, value):
                continue
            if old != value:
                raise CheckpointError(
                    f"{path} is another run's: {_difference(name, old, value)}; train into another "
                    "folder or delete it"
                )

    def _goes_on(self, old: dict[str, Any], new: dict[str, Any]) -> bool:
        """More steps than first asked are the same training while the rate does not depend on them."""
        longer = {**old, "steps": new["steps"]} == new and new["steps"] >= old.get("steps", 0)
        return longer and self.config.final_lr == 1.0


def _difference(name: str, old: Any, new: Any) -> str:
    """What differs, down to the field."""
    if isinstance(old, dict) and isinstance(new, dict):
        fields = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        return ", ".join(
            f"{name}.{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in fields
        )
    return f"{name} was {old!r}, is {new!r}"
