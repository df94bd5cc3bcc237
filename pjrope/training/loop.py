"""The training loop: plain, resumable, the same bits whether interrupted or not."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm

from ..data.batches import sample_windows
from ..kernels.base import PositionKernel
from .checkpoints import (
    CheckpointError,
    load_tensors,
    restore_training_state,
    save_tensors,
    training_state,
)
from .runlog import RunLog
from .seeding import stream

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


def parameter_groups(model: nn.Module, config: TrainConfig) -> list[dict[str, Any]]:
    """AdamW groups: backbone, positions, gates, frequencies; the last three without decay.

    Each group carries ``factor``, what its learning rate is multiplied by.
    """
    position = {
        id(p): name
        for module in model.modules()
        if isinstance(module, PositionKernel)
        for name, p in module.position_parameters()
    }
    factors = {
        "backbone": 1.0,
        "position": config.position_lr,
        "gate": config.gate_lr,
        "omega": config.omega_lr,
    }
    members: dict[str, list[nn.Parameter]] = {name: [] for name in factors}
    for p in model.parameters():
        if p.requires_grad:
            members[_group(position.get(id(p)))].append(p)
    return [
        {
            "params": members[name],
            "factor": factor,
            "weight_decay": config.weight_decay if name == "backbone" else 0.0,
        }
        for name, factor in factors.items()
        if members[name]
    ]


def _group(name: str | None) -> str:
    if name is None:
        return "backbone"
    leaf = name.split(".")[-1]
    if leaf.endswith("omega"):
        return "omega"
    return "gate" if leaf.endswith(("gate_logits", "alpha_logits")) else "position"


def _resume(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, identity: dict[str, Any]
) -> int:
    """Restore the checkpoint at ``path`` if there is one; the step to go on from."""
    if not path.exists():
        return 0
    tensors, metadata = load_tensors(path)
    for name, value in identity.items():
        if metadata.get(name) != value:
            raise CheckpointError(
                f"{path} is another run's: {_difference(name, metadata.get(name), value)}; train "
                "into another folder or delete it"
            )
    restore_training_state(tensors, model, optimizer)
    return metadata["step"]


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
) -> TrainResult:
    """Train a model in place, on random windows of a text or on what a sampler draws.

    Step t draws its batch from a stream of its own, ``(seed, "data", t)``; a run that was killed
    and started again in the same folder ends with the same bits as one that was not.

    Args:
        model: inputs to outputs; with ``token_loss`` tokens ``(B, N)`` to logits ``(B, N, vocab)``.
        data: ``(n,)`` integer tokens, each window predicting its next token; or a function
            ``(generator, batch, length) -> (inputs, targets)`` that uses no other randomness.
        config: a :class:`TrainConfig`.
        seed: of the data stream.
        out: folder for ``checkpoint.safetensors`` and ``log.jsonl``; None keeps nothing.
        progress: show a bar if it takes longer than five seconds.
        loss: ``(outputs, targets)`` to the number that is minimised.
        watch: the model to a number, such as its loss on held-out text; asked whenever a row is
            logged and kept there as "watched". It draws nothing and leaves the model as it was.

    Returns:
        a :class:`TrainResult`.

    Raises:
        CheckpointError: the folder holds a run with other settings, data, loss or initial weights.
        ValueError: data that are no integer tokens.
        FloatingPointError: the loss is no longer finite.
    """
    _check_data(data)
    begun = time.perf_counter()
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(parameter_groups(model, config), lr=config.lr)
    folder = None if out is None else Path(out)
    identity = {
        "config": asdict(config),
        "seed": seed,
        "model": _describe(model),
        "start": _fingerprint(*model.state_dict().values()),
        "trained": [name for name, p in model.named_parameters() if p.requires_grad],
        "data": _fingerprint(data) if isinstance(data, Tensor) else None,
        "loss": getattr(loss, "__qualname__", type(loss).__name__),
    }
    first = 0
    if folder is not None:
        first = _resume(folder / "checkpoint.safetensors", model, optimizer, identity)
    log = RunLog(None if folder is None else folder / "log.jsonl", step=first)
    model.train()
    steps = range(first, config.steps)
    for step in tqdm(
        steps, "training", delay=5, disable=not progress, initial=first, total=config.steps
    ):
        for group in optimizer.param_groups:
            group["lr"] = config.rate(step) * group["factor"]
        found = _step(model, data, config, stream(seed, "data", step), optimizer, device, loss)
        done = step + 1
        if done % config.log_every == 0 or done == config.steps:
            value = found.item()
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"the loss is {value} at step {done}: lower lr={config.lr}"
                )
            seen = {} if watch is None else {"watched": float(watch(model))}
            log.add(step=done, loss=value, rate=config.rate(step), **seen)
        if folder is not None and (done % config.checkpoint_every == 0 or done == config.steps):
            save_tensors(
                folder / "checkpoint.safetensors",
                training_state(model, optimizer),
                {**identity, "step": done},
            )
    return TrainResult(log.rows, time.perf_counter() - begun, first)


def _check_data(data: Any) -> None:
    if isinstance(data, Tensor) and not (data.dtype.is_floating_point or data.ndim != 1):
        return
    if not callable(data) or isinstance(data, Tensor):
        what = (
            f"{data.dtype} {tuple(data.shape)}" if isinstance(data, Tensor) else type(data).__name__
        )
        raise ValueError(f"data is {what}: a 1-D tensor of integer tokens or a sampler is needed")


def _step(
    model: nn.Module,
    data: Tensor | Sampler,
    config: TrainConfig,
    generator: torch.Generator,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    loss: Loss = token_loss,
) -> Tensor:
    if isinstance(data, Tensor):
        windows = sample_windows(
            data, batch=config.batch, length=config.length, generator=generator
        )
        inputs, targets = windows[:, :-1], windows[:, 1:]
    else:
        inputs, targets = data(generator, config.batch, config.length)
    found = loss(model(inputs.to(device)), targets.to(device))
    optimizer.zero_grad(set_to_none=True)
    found.backward()
    if config.clip:
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    optimizer.step()
    return found.detach()


def _difference(name: str, old: Any, new: Any) -> str:
    """What differs, down to the field."""
    if isinstance(old, dict) and isinstance(new, dict):
        fields = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        return ", ".join(
            f"{name}.{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in fields
        )
    return f"{name} was {old!r}, is {new!r}"


def _fingerprint(*tensors: Tensor) -> str:
    """Hash of values, the same for equal bits on any device."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


def _describe(model: nn.Module) -> Any:
    config = getattr(model, "config", None)
    return config.to_json() if hasattr(config, "to_json") else type(model).__name__
