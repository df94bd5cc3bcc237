"""A position kernel as the relative bias of a model of x-transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..extras import need
from ..kernels.base import PositionKernel
from .dense import needs_bias


class KernelBias(nn.Module):
    """What x-transformers calls ``rel_pos``: ``(queries, keys)`` to ``(H, queries, keys)``.

    Args:
        kernel: a kernel that does nothing but bias.
    """

    def __init__(self, kernel: PositionKernel) -> None:
        super().__init__()
        needs_bias(kernel)
        self.kernel = kernel
        # Follows the number type of the model; kernels themselves stay in fp32.
        self.register_buffer("like", torch.zeros(()), persistent=False)

    def forward(self, queries: int, keys: int) -> Tensor:
        """The bias; the queries are the last of the keys."""
        like = self.get_buffer("like")
        table = self.kernel.lag_bias(torch.arange(1 - keys, keys, device=like.device))
        assert table is not None  # needs_bias has seen that there is one
        table = table.to(like.dtype)
        # A row is a window into the mirrored table: along it the lag falls by one a key.
        return table.flip(-1).unfold(-1, keys, 1)[:, :keys].flip(1)[:, keys - queries :]


def attach(model: nn.Module, kernel: PositionKernel) -> KernelBias:
    """Give the attention layers of an x-transformers model a learnable bias, shared by all layers.

    Args:
        model: a ``TransformerWrapper`` or its ``Decoder`` or ``Encoder``; changed in place.
        kernel: a kernel that does nothing but bias, for the heads of the model.

    Returns:
        the module that was attached, as ``attn_layers.rel_pos``: its parameters are the model's.

    Raises:
        ValueError: a kernel or a model that does not fit, or a model that has a relative bias already.
        ImportError: x-transformers is not installed.

    Limits: made for x-transformers 2. Calls with positions of their own (``pos=``) are refused by
    x-transformers itself.
    """
    layers = _attention_layers(model)
    if layers.rel_pos is not None:
        raise ValueError(
            f"this model has {type(layers.rel_pos).__name__} already: build it without rel_pos_bias, "
            "dynamic_pos_bias and alibi_pos_bias"
        )
    found = KernelBias(kernel)
    heads = {module.heads for module in _attentions(layers)}
    wanted = kernel.bias_heads
    if wanted is not None and heads != {wanted}:
        raise ValueError(
            f"{type(kernel).__name__} was made for {wanted} heads, the model has "
            f"{' and '.join(map(str, sorted(heads)))}"
        )
    found.to(next(model.parameters()))
    layers.rel_pos = found
    return found


def detach(model: nn.Module) -> PositionKernel:
    """Take the bias of :func:`attach` out again, and return its kernel.

    Raises:
        ValueError: a model that has none.
    """
    layers = _attention_layers(model)
    found = layers.rel_pos
    if not isinstance(found, KernelBias):
        raise ValueError("nothing of pjrope is attached to this model")
    layers.rel_pos = None
    return found.kernel


def _attention_layers(model: nn.Module) -> Any:
    need("x_transformers", "xt")
    library = need("x_transformers.x_transformers", "xt")
    layers = getattr(model, "attn_layers", model)
    if not isinstance(layers, library.AttentionLayers):
        raise ValueError(
            f"model is {type(model).__name__}: a TransformerWrapper of x-transformers, or its "
            "Decoder, is needed"
        )
    return layers


def _attentions(layers: nn.Module) -> list[Any]:
    library = need("x_transformers.x_transformers", "xt")
    return [m for m in layers.modules() if isinstance(m, library.Attention)]
