"""Data parallelism: the processes of ``torchrun`` share the rows of a batch and sum gradients.

The sum is that of one process: each row counts once, whatever the number of processes.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def join_processes() -> torch.device:
    """Join the processes that ``torchrun`` started; without it, do nothing.

    Returns:
        the device of this process: its own GPU where there is one, else the CPU.
    """
    gpu = torch.cuda.is_available()
    if "WORLD_SIZE" not in os.environ:
        return torch.device("cuda" if gpu else "cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else None
    if device is not None:
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if gpu else "gloo")
    return torch.device("cpu") if device is None else device


def count() -> int:
    """Processes that train together, 1 without ``torchrun``."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process among them; 0 keeps the log and the checkpoints."""
    return dist.get_rank() if count() > 1 else 0


def own_rows(x: Tensor) -> Tensor:
    """The rows of a batch that this process takes.

    Raises:
        ValueError: fewer rows than processes.
    """
    if len(x) < count():
        raise ValueError(f"{len(x)} rows for {count()} processes: take a larger batch")
    return x.tensor_split(count())[rank()]


def sum_gradients(model: nn.Module) -> None:
    """Add up the gradients of all processes, in each of them."""
    if count() == 1:
        return
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:  # another process may have one
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)


def total(x: Tensor) -> Tensor:
    """The sum of a number over processes."""
    if count() > 1:
        dist.all_reduce(x)
    return x


def from_first(value: Any) -> Any:
    """What process 0 holds, in every process."""
    if count() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]
