"""Checkpoints: safetensors with their configuration as JSON inside, written atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..data.home import expanded
from ..kernels.base import PositionKernel
from ..models import Decoder, DecoderConfig

WRAPPERS = ("_orig_mod", "module")  # names that torch.compile and data parallelism put in between


class CheckpointError(ValueError):
    """A checkpoint that cannot be used or written, with the reason."""


def save_tensors(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any], previous: Path | None = None
) -> None:
    """Write tensors and JSON metadata to ``path``; a failed write leaves the old file.

    Tensors under several names, as of a kernel that layers share, are written once.

    Args:
        path: the file; its folder is made.
        tensors: name to tensor.
        metadata: JSON values.
        previous: where the old file goes, if it is to stay.

    Raises:
        CheckpointError: the file cannot be written, with the reason.
    """
    first: dict[tuple[Any, ...], str] = {}
    shared = {
        name: first[_identity(t)]
        for name, t in tensors.items()
        if first.setdefault(_identity(t), name) != name
    }
    written = {
        name: t.detach().contiguous().cpu() for name, t in tensors.items() if name not in shared
    }
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()  # with the permissions that new files have here
        mode = part.stat().st_mode
        described = {**metadata, "shared": shared} if shared else metadata
        save_file(written, part, metadata={k: json.dumps(v) for k, v in described.items()})
        part.chmod(mode)
        if previous is not None and path.exists():
            os.replace(path, previous)
        os.replace(part, path)
    except (OSError, SafetensorError) as error:
        part.unlink(missing_ok=True)
        raise CheckpointError(
            f"{path} could not be written ({error}): free some space or choose another folder"
        ) from error


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
    except PermissionError as error:
        raise CheckpointError(f"{path} may not be read: {error}") from error
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} is no readable checkpoint ({error}): delete it") from error
    shared = metadata.pop("shared", {})
    if unknown := [name for name in shared.values() if name not in tensors]:
        raise CheckpointError(f"{path} shares {unknown[0]}, which it does not hold: delete it")
    return tensors | {name: tensors[home] for name, home in shared.items()}, metadata


def save_model(path: Path | str, model: nn.Module) -> None:
    """Write a decoder with its configuration; :func:`load_model` rebuilds it.

    Number types, frozen parameters and kernels that layers share come back as they are. Wrappers of
    ``torch.compile`` and of data parallelism are looked through.

    Raises:
        CheckpointError: the file cannot be written.
        ValueError: a model that is no :class:`~pjrope.Decoder`.
    """
    plain = model
    while not isinstance(plain, Decoder) and (inner := _wrapped(plain)) is not None:
        plain = inner
    if not isinstance(plain, Decoder):
        raise ValueError(f"{type(model).__name__} is no Decoder: save its state_dict() yourself")
    frozen = [plain_name(n) for n, p in plain.named_parameters() if not p.requires_grad]
    metadata = {"config": plain.config.to_json(), "frozen": frozen}
    save_tensors(expanded(path, CheckpointError), plain_state(plain), metadata)


def load_model(path: Path | str) -> Decoder:
    """The model that :func:`save_model` wrote, or that of a checkpoint of a training, on the CPU.

    Raises:
        CheckpointError: an unreadable file, an unknown configuration or kernel, or tensors that do
            not fit.
    """
    path = expanded(path, CheckpointError)
    tensors, metadata = load_tensors(path)
    if "step" in metadata:
        tensors, metadata = _without_training(path, tensors, metadata)
    if "config" not in metadata:
        raise CheckpointError(f"{path} names no model configuration: write it with save_model")
    try:
        model = Decoder(DecoderConfig(**metadata["config"]))
        _share(model, tensors)
        model.load_state_dict(tensors, assign=True)
        for name in _frozen(model, tensors, metadata):
            model.get_parameter(name).requires_grad_(False)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} does not fit its configuration: {error}") from error
    return model


def _without_training(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`save_model` would have written of the model in a training's checkpoint.

    Raises:
        CheckpointError: the training was not one of a decoder, or the file is its best.safetensors.
    """
    if not isinstance(metadata.get("model"), dict):
        kind = metadata.get("model") or "weights alone"
        raise CheckpointError(f"{path} holds {kind} and no Decoder: load its tensors yourself")
    kept = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    return kept, {"config": metadata["model"], "trained": metadata["trained"]}


def _frozen(model: Decoder, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> list[str]:
    """Parameters that a file says are frozen; of a shared one a training lists one name."""
    if "trained" not in metadata:
        return metadata.get("frozen", [])
    trained = {id(tensors[name]) for name in metadata["trained"]}
    return [name for name, _ in model.named_parameters() if id(tensors[name]) not in trained]


def plain_state(model: nn.Module) -> dict[str, Tensor]:
    """The state of a model under names free of wrappers."""
    return {plain_name(name): t for name, t in model.state_dict().items()}


def training_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Model and optimiser as one flat dict of tensors."""
    found = {f"model.{name}": t for name, t in plain_state(model).items()}
    for index, slots in optimizer.state_dict()["state"].items():
        found.update({f"optimizer.{index}.{slot}": t for slot, t in slots.items()})
    return found


def restore_training_state(
    tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Undo :func:`training_state`."""
    names = {plain_name(name): name for name in model.state_dict()}
    saved = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    model.load_state_dict({names.get(name, name): t for name, t in saved.items()})
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, slot = name.split(".", 2)
            slots.setdefault(int(index), {})[slot] = tensor
    optimizer.load_state_dict(
        {"state": slots, "param_groups": optimizer.state_dict()["param_groups"]}
    )


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    """Equal for two names of one tensor; tensors without numbers are never one."""
    if not tensor.numel():
        return (id(tensor),)
    return (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)


def plain_name(name: str) -> str:
    """``_orig_mod.blocks.0.x`` -> ``blocks.0.x``; data parallelism wraps the whole model only."""
    parts = name.split(".")
    if parts[0] == "module":
        parts = parts[1:]
    return ".".join(part for part in parts if part != "_orig_mod")


def _wrapped(model: nn.Module) -> nn.Module | None:
    return next((m for n in WRAPPERS if (m := getattr(model, n, None)) is not None), None)


def _share(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Make one module of two whose tensors were all one when they were saved."""
    modules = dict(model.named_modules(remove_duplicate=False))
    home: dict[tuple[int, ...], nn.Module] = {}
    for name, module in modules.items():
        # Sorted: a file lists tensors by name, those that are shared come in their own order.
        own = sorted(n for n in tensors if name and n.startswith(f"{name}."))
        if not own or not isinstance(module, PositionKernel):
            continue
        key = tuple(id(tensors[n]) for n in own)
        if key in home:
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, home[key])
        else:
            home[key] = module
