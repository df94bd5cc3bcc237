"""The training loop: plain, resumable, the same bits whether interrupted or not."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm

from ..data.batches import sample_windows
from . import processes
from .checkpoints import plain_name, restore_training_state, training_state
from .config import TrainConfig
from .folder import TrainingFolder
from .groups import parameter_groups
from .runlog import RunLog
from .seeding import stream
from .step import Stepper, recomputed_blocks

# Draws a batch: (generator, batch, length) -> inputs and targets.
Sampler = Callable[[torch.Generator, int, int], tuple[Tensor, Tensor]]
# What is minimised: (outputs, targets) -> a number.
Loss = Callable[[Tensor, Tensor], Tensor]


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy, nats per token.

    Args:
        logits: ``(B, N, vocab)``.
        targets: ``(B, N)`` int64; -100 is not scored.
    """
    return cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


@dataclass(frozen=True)
class TrainResult:
    """What a training left behind.

    Attributes:
        rows: log rows, ``{"step", "loss", "rate"}``; loss in nats per token unless another was given.
        seconds: wall time of this attempt.
        resumed_from: step of the checkpoint it started from, 0 if it started fresh.
    """

    rows: list[dict[str, Any]]
    seconds: float
    resumed_from: int


def train(
    model: nn.Module,
    data: Tensor | Sampler,
    config: TrainConfig,
    *,
    seed: int,
    out: Path | str | None = None,
    progress: bool = True,
    loss: Loss = token_loss,
    watch: Callable[[nn.Module], float] | None = None,
    keep_best: bool = False,
) -> TrainResult:
    """Train a model in place, on random windows of a text or on what a sampler draws.

    Step t draws its batch from a stream of its own, ``(seed, "data", t)``; a run that was killed
    and started again in the same folder ends with the same bits as one that was not. Processes that
    ``torchrun`` started share the rows of each batch once they have called ``join_processes``; the
    first one keeps the log and the checkpoints.

    Args:
        model: inputs to outputs; with ``token_loss`` tokens ``(B, N)`` to logits ``(B, N, vocab)``.
        data: ``(n,)`` integer tokens, each window predicting its next token; or a function
            ``(generator, batch, length) -> (inputs, targets)`` that uses no other randomness.
        config: a :class:`TrainConfig`.
        seed: of the data stream.
        out: folder for ``log.jsonl`` and the last two checkpoints, ``checkpoint.safetensors`` and
            ``previous.safetensors``; None keeps nothing. A finished training of constant rate goes on
            where it ended when it is called again with more steps.
        progress: show a bar if it takes longer than five seconds.
        loss: ``(outputs, targets)`` to the number that is minimised.
        watch: the model to a number, such as its loss on held-out text; asked whenever a row is
            logged and kept there as "watched". It draws nothing and leaves the model as it was.
        keep_best: keep the weights with the least "watched" in ``best.safetensors``.

    Returns:
        a :class:`TrainResult`.

    Raises:
        CheckpointError: the folder holds a run with other settings, data, loss or initial weights,
            another training writes to it, or a checkpoint cannot be written.
        ValueError: data that are no integer tokens, or keep_best without watch and out.
        FloatingPointError: the loss is no longer finite, or the weights to be saved are not; the
            checkpoint before stays.
    """
    _check_data(data)
    if keep_best and (watch is None or out is None):
        raise ValueError("keep_best=True needs watch, to say what is best, and out, a folder")
    begun = time.perf_counter()
    model.load_state_dict(processes.from_first(model.state_dict()))
    optimizer = _optimizer(model, config)
    apply = Stepper(model, optimizer, config, loss)
    identity = _identity(model, data, config, seed, loss)
    with _folder(out, identity, config) as folder, recomputed_blocks(model, config.checkpointing):
        first = _resumed(folder, apply)
        log = RunLog(None if folder is None else folder.path / "log.jsonl", step=first)
        model.train()
        for step in _steps(first, config.steps, progress):
            for group in optimizer.param_groups:
                group["lr"] = config.rate(step) * group["factor"]
            found = apply(*_drawn(data, config, stream(seed, "data", step)))
            done, last = step + 1, step + 1 == config.steps
            if last or done % config.log_every == 0:
                row = {"step": done, "loss": _finite(found, done, config)}
                row["rate"] = config.rate(step)
                if watch is not None:
                    row["watched"] = float(watch(model))
                log.add(**row)
                if folder is not None and keep_best:
                    folder.keep_best(model, done, row["watched"])
            if folder is not None and (last or done % config.checkpoint_every == 0):
                folder.save(model, optimizer, done, apply.state())
    return TrainResult(log.rows, time.perf_counter() - begun, first)


def _optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    # One kernel for all parameters on a GPU; elsewhere what torch does by itself, to the bit.
    fused = True if next(model.parameters()).is_cuda else None
    return torch.optim.AdamW(parameter_groups(model, config), lr=config.lr, fused=fused)


def _identity(
    model: nn.Module, data: Tensor | Sampler, config: TrainConfig, seed: int, loss: Loss
) -> dict[str, Any]:
    """What two attempts must share for the second to go on from the first."""
    return {
        "config": config.identity(),
        "seed": seed,
        "model": _describe(model),
        "start": _fingerprint(*model.state_dict().values()),
        "trained": [plain_name(name) for name, p in model.named_parameters() if p.requires_grad],
        "data": _fingerprint(data) if isinstance(data, Tensor) else None,
        "loss": getattr(loss, "__qualname__", type(loss).__name__),
    }


def _folder(
    out: Path | str | None, identity: dict[str, Any], config: TrainConfig
) -> AbstractContextManager[TrainingFolder | None]:
    """The folder of a training; None for those that keep nothing and for all processes but one."""
    if not out or processes.rank() > 0:
        return nullcontext()
    return TrainingFolder(out, identity, config)


def _resumed(folder: TrainingFolder | None, apply: Stepper) -> int:
    """Restore what the folder holds, in every process; the step to go on from."""
    first = 0
    if folder is not None:
        first = folder.resume(apply.model, apply.optimizer)
        apply.restore(folder.extra)
    return _same_everywhere(apply.model, apply.optimizer, apply, first)


def _steps(first: int, last: int, progress: bool) -> Iterable[int]:
    steps = range(first, last)
    return tqdm(steps, "training", delay=5, disable=not progress, initial=first, total=last)


def _finite(loss: Tensor, step: int, config: TrainConfig) -> float:
    value = loss.item()
    if not math.isfinite(value):
        raise FloatingPointError(f"the loss is {value} at step {step}: lower lr={config.lr}")
    return value


def _check_data(data: Any) -> None:
    if isinstance(data, Tensor) and not (data.dtype.is_floating_point or data.ndim != 1):
        return
    if not callable(data) or isinstance(data, Tensor):
        what = (
            f"{data.dtype} {tuple(data.shape)}" if isinstance(data, Tensor) else type(data).__name__
        )
        raise ValueError(f"data is {what}: a 1-D tensor of integer tokens or a sampler is needed")


def _drawn(
    data: Tensor | Sampler, config: TrainConfig, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Inputs and targets of one step, of all processes."""
    if not isinstance(data, Tensor):
        return data(generator, config.batch, config.length)
    windows = sample_windows(data, batch=config.batch, length=config.length, generator=generator)
    return windows[:, :-1], windows[:, 1:]


def _same_everywhere(
    model: nn.Module, optimizer: torch.optim.Optimizer, apply: Stepper, first: int
) -> int:
    """Give every process what process 0 has restored; the step to go on from."""
    if processes.count() == 1:
        return first
    mine = (first, training_state(model, optimizer), apply.state())
    first, tensors, extra = processes.from_first(mine)
    if processes.rank() > 0 and first:
        restore_training_state(tensors, model, optimizer)
        apply.restore(extra)
    return first


def _fingerprint(*tensors: Tensor) -> str:
    """Hash of values, the same for equal bits on any device."""
    digest = hashlib.sha256()
    for tensor in tensors:
        bits = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
        digest.update(bits.numpy().data)
    return digest.hexdigest()[:16]


def _describe(model: nn.Module) -> Any:
    config = getattr(model, "config", None)
    to_json = getattr(config, "to_json", None)
    return type(model).__name__ if to_json is None else to_json()
