"""One optimiser step: rows in micro-batches, in mixed precision, shared among processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from . import processes
from .config import TrainConfig
from .precision import autocast, resolve_precision, scaler_of

IGNORED = -100  # targets that are not scored


class Stepper:
    """Applies one batch to a model.

    Args:
        model: what is trained.
        optimizer: its optimiser.
        config: precision, compile, accumulate and clip are read.
        loss: ``(outputs, targets)`` to a mean: over scored targets if those are integers, else over
            rows.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        config: TrainConfig,
        loss: Callable[[Tensor, Tensor], Tensor],
    ) -> None:
        self.model, self.optimizer, self.config, self.loss = model, optimizer, config, loss
        self.device = next(model.parameters()).device
        self.precision = resolve_precision(config.precision, self.device)
        self.scaler = scaler_of(self.precision, self.device)
        compiled = torch.compile(model) if config.compile else model
        self._run = cast(Callable[[Tensor], Tensor], compiled)

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """One step on the batch of all processes; its mean loss, detached."""
        self.optimizer.zero_grad(set_to_none=True)
        whole = _weight(targets)
        mean = torch.zeros((), device=self.device)
        parts = min(self.config.accumulate, len(processes.own_rows(targets)))
        own = (processes.own_rows(x).tensor_split(parts) for x in (inputs, targets))
        for x, y in zip(*own, strict=True):
            with autocast(self.precision, self.device):
                found = self.loss(self._run(x.to(self.device)), y.to(self.device))
            # A whole batch in one piece keeps the bits it had without pieces.
            share = 1.0 if len(x) == len(inputs) else _weight(y) / max(1.0, whole)
            if share == 0.0:
                continue
            part = found if share == 1.0 else found * share
            self.scaler.scale(part).backward()
            mean = part.detach() if share == 1.0 else mean + part.detach()
        processes.sum_gradients(self.model)
        if self.config.clip:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return processes.total(mean)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep beside weights and optimiser; empty but for fp16."""
        return self.scaler.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Undo :meth:`state`."""
        if state:
            self.scaler.load_state_dict(state)


def _weight(targets: Tensor) -> float:
    """Over how many items the mean of a loss goes."""
    if targets.dtype.is_floating_point:
        return float(len(targets))
    return float((targets != IGNORED).sum())


@contextmanager
def recomputed_blocks(model: nn.Module, wanted: bool) -> Iterator[None]:
    """Within it the backward pass computes a decoder's blocks anew instead of storing them.

    Raises:
        ValueError: a model without ``blocks``.
    """
    if not wanted:
        yield
        return
    blocks = getattr(model, "blocks", None)
    if not isinstance(blocks, nn.ModuleList):
        raise ValueError(f"checkpointing=True: {type(model).__name__} has no blocks to recompute")
    try:
        for block in blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
        yield
    finally:
        for block in blocks:
            block.__dict__.pop("forward", None)
