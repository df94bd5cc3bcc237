"""Checkpoints: safetensors with their configuration as JSON inside, written atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..models.decoder import Decoder, DecoderConfig


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, with the reason."""


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and JSON metadata to ``path``; an interrupted write leaves the old file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    tensors = {name: t.detach().contiguous().cpu() for name, t in tensors.items()}
    save_file(tensors, part, metadata={k: json.dumps(v) for k, v in metadata.items()})
    os.replace(part, path)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a file written by :func:`save_tensors`.

    Raises:
        CheckpointError: no such file, or no safetensors file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = {k: json.loads(v) for k, v in (file.metadata() or {}).items()}
    except FileNotFoundError as error:
        raise CheckpointError(f"no checkpoint at {path}") from error
    except Exception as error:
        raise CheckpointError(f"{path} is no readable checkpoint ({error}): delete it") from error
    return tensors, metadata


def save_model(path: Path | str, model: Decoder) -> None:
    """Write a model with its configuration; :func:`load_model` rebuilds it."""
    save_tensors(Path(path), model.state_dict(), {"config": model.config.to_json()})


def load_model(path: Path | str) -> Decoder:
    """The model that :func:`save_model` wrote.

    Raises:
        CheckpointError: an unreadable file, or one whose tensors do not fit its configuration.
    """
    tensors, metadata = load_tensors(Path(path))
    if "config" not in metadata:
        raise CheckpointError(f"{path} names no model configuration: write it with save_model")
    model = Decoder(DecoderConfig(**metadata["config"]))
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise CheckpointError(f"{path} does not fit its configuration: {error}") from error
    return model


def training_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Model and optimiser as one flat dict of tensors."""
    found = {f"model.{name}": t for name, t in model.state_dict().items()}
    for index, slots in optimizer.state_dict()["state"].items():
        found.update({f"optimizer.{index}.{slot}": t for slot, t in slots.items()})
    return found


def restore_training_state(
    tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Undo :func:`training_state`."""
    model.load_state_dict(
        {name[len("model.") :]: t for name, t in tensors.items() if name.startswith("model.")}
    )
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, slot = name.split(".", 2)
            slots.setdefault(int(index), {})[slot] = tensor
    optimizer.load_state_dict(
        {"state": slots, "param_groups": optimizer.state_dict()["param_groups"]}
    )
