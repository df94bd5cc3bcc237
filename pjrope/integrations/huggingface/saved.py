"""The parameters of kernels in a folder that ``save_pretrained`` wrote, or on the hub."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import safe_open
from torch import Tensor, nn

from ...extras import need
from .forward import KERNEL

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def load_kernels(model: nn.Module, source: str) -> None:
    """Fill the attached kernels of a model with the values saved at a place.

    Args:
        model: with kernels attached.
        source: folder, or name on the hub.

    Raises:
        ValueError: no such place, values that are missing there, or of other shapes.
    """
    tensors = saved_kernels(source)
    own = [name for name in model.state_dict() if f".{KERNEL}." in name]
    # A bare model is saved without the name that a model with a head puts in front.
    ends = {_end(name): tensor for name, tensor in tensors.items()}
    missing = [name for name in own if _end(name) not in ends]
    if missing:
        raise ValueError(f"{source} holds no {missing[0]}: pass weights=, where it was saved")
    model.load_state_dict({name: ends[_end(name)] for name in own}, strict=False)


def saved_kernels(source: str) -> dict[str, Tensor]:
    """The tensors of kernels in the safetensors files of a folder or of the hub, by name.

    Raises:
        ValueError: no safetensors there.
    """
    found: dict[str, Tensor] = {}
    for file in _files(source):
        with safe_open(file, framework="pt") as tensors:
            # A safetensors file has keys() and no iterator.
            names = [name for name in tensors.keys() if f".{KERNEL}." in name]  # noqa: SIM118
            found |= {name: tensors.get_tensor(name) for name in names}
    return found


def _end(name: str) -> str:
    """``layers.0.self_attn.position_kernel.table`` of any name that ends so."""
    at = max(name.find("layers."), 0)
    return name[at:]


def _files(source: str) -> list[str]:
    single = _file(source, SINGLE)
    if single is not None:
        return [single]
    index = _file(source, INDEX)
    if index is None:
        raise ValueError(
            f"{source!r} holds no {SINGLE}: pass weights=, the folder that save_pretrained wrote"
        )
    shards = sorted(set(json.loads(Path(index).read_text(encoding="utf8"))["weight_map"].values()))
    return [file for shard in shards if (file := _file(source, shard)) is not None]


def _file(source: str, name: str) -> str | None:
    if not source:
        return None
    if Path(source).is_dir():
        path = Path(source) / name
        return str(path) if path.is_file() else None
    if Path(source).is_absolute():
        return None
    hub = need("transformers.utils.hub", "hf")
    try:
        found: str | None = hub.cached_file(source, name)
    except OSError:  # no such name on the hub, no such file under it, or no network
        return None
    return found
