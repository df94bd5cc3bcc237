"""Where a transformers model keeps its attention and its rotation, and what they ask of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ...attention.checks import check_kernel
from ...kernels.base import PositionKernel
from ...kernels.released import INTERLEAVED, rotary_settings


class NoRotation(nn.Module):
    """In place of a model's rotary embedding: cosines of 1 and sines of 0."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.original = original

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """As of the embedding that was there."""
        found = self.original(*args, **kwargs)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise ValueError(
                f"{type(self.original).__name__} gives no cosines and sines: its rotation cannot be "
                "replaced"
            )
        cos, sin = found
        return torch.ones_like(cos), torch.zeros_like(sin)


def text_config(model: nn.Module) -> Any:
    """The configuration of the text model.

    Raises:
        ValueError: no transformers model, or one whose attention cannot be given another function.
    """
    config = getattr(model, "config", None)
    if not hasattr(config, "get_text_config"):
        raise ValueError(f"model is {type(model).__name__}: a model of transformers is needed")
    if not getattr(model, "_supports_attention_backend", False):
        raise ValueError(
            f"{type(model).__name__} does not route its attention through AttentionInterface, so a "
            "kernel would be ignored"
        )
    assert config is not None  # it has get_text_config
    return config.get_text_config(decoder=True)


def attentions(model: nn.Module) -> list[nn.Module]:
    """The self-attention of each layer of the text model, lowest first.

    Raises:
        ValueError: none is found.
    """
    config = text_config(model)
    found = [
        module
        for module in model.modules()
        if type(module).__name__.endswith("Attention")
        and isinstance(getattr(module, "layer_idx", None), int)
        and getattr(module, "config", None) is config
    ]
    if not found:
        raise ValueError(f"{type(model).__name__} has no attention layers that are known here")
    return found


def rotations(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """Parent, name and module of the rotary embeddings that the text model shares among layers."""
    for parent in model.modules():
        if isinstance(parent, NoRotation):
            continue
        for name, child in parent.named_children():
            if name == "rotary_emb":
                yield parent, name, child


def stop_rotation(model: nn.Module) -> None:
    """Let the model's own rotation do nothing.

    Raises:
        ValueError: the model has none.
    """
    found = list(rotations(model))
    if not found:
        raise ValueError(f"{type(model).__name__} has no rotary embedding to replace")
    for parent, name, child in found:
        setattr(parent, name, NoRotation(child))


def restore_rotation(model: nn.Module) -> None:
    """Undo :func:`stop_rotation`."""
    for parent, name, child in list(rotations(model)):
        if isinstance(child, NoRotation):
            setattr(parent, name, child.original)


def turning_channels(config: Any, kernel: PositionKernel) -> int:
    """How many channels are to be brought from halves into pairs for a kernel; 0 for none."""
    model_pairs = "interleaved" if config.model_type in INTERLEAVED else "half"
    kernel_pairs = {
        getattr(part, "layout", "interleaved")
        for part in kernel.modules()
        if isinstance(part, PositionKernel) and part.rotates and not hasattr(part, "parts")
    }
    if len(kernel_pairs) > 1:
        raise ValueError("the parts of this kernel pair channels differently: use one layout")
    if kernel_pairs == {model_pairs}:
        return 0
    if model_pairs == "interleaved":
        raise ValueError("this model pairs channels (2k, 2k+1): use layout='interleaved'")
    types = dict.fromkeys(getattr(config, "layer_types", None) or [None])
    try:
        return int(rotary_settings(config)["rotary_dim"])
    except ValueError:  # layers differ in their ladder, not in how many channels turn
        return int(rotary_settings(config, layer_type=next(iter(types)))["rotary_dim"])


def check_fit(kernel: PositionKernel, config: Any) -> None:
    """Raise unless a kernel was made for the heads and channels of the model."""
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    check_kernel(kernel, heads, kv_heads, width, "model")
