"""Read and change the rotation of a transformers model, and train its position parameters alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..kernels.base import PositionKernel
from ..kernels.released import PLAIN
from ..kernels.rope import RoPE
from .huggingface.modules import rotations, text_config

METHODS = ("pi", "ntk", "yarn", "p_rope")


def read_rotary(source: Any, *, layer_type: str | None = None) -> RoPE:
    """The rotary embedding of a model or a configuration, as a kernel of this package.

    Args:
        source: a model of transformers, its configuration, or the dictionary of a ``config.json``.
        layer_type: where layers differ, such as "full_attention".

    Returns:
        a :class:`~pjrope.RoPE` in the model's own layout, ladder and stretch.

    Raises:
        ValueError: settings that are missing, unknown or not rotary; a model that turns by other
            frequencies than its configuration says.

    Reference: :func:`pjrope.kernels.released.rotary_settings` says what is read.
    """
    if not isinstance(source, nn.Module):
        return RoPE.from_config(source, layer_type=layer_type)
    rope = RoPE.from_config(text_config(source), layer_type=layer_type)
    _check_tables(source, rope, layer_type)
    return rope


def extend(
    model: nn.Module, method: str, factor: float, *, layer_type: str | None = None
) -> nn.Module:
    """Stretch the rotation of a model to read further, in the terms of its own configuration.

    The model stays one of plain transformers: ``save_pretrained`` and ``from_pretrained`` carry the change.

    Args:
        model: with an unstretched rotation; changed in place.
        method: "pi" divides all frequencies by the factor; "ntk" raises the base so that the slowest is
            divided by it; "yarn" divides the slow ones alone and warms the logits; "p_rope" lets the
            slowest ones stand still.
        factor: s >= 1, context wanted over context trained; for "p_rope" the share of frequencies that go
            on turning, above 0 and at most 1.
        layer_type: where layers differ, those to stretch: "full_attention".

    Returns:
        the model.

    Raises:
        ValueError: an unknown method, a factor out of range, or a model that is stretched already.

    Limits: without tuning a stretched model reads worse at the length it was trained at; see
    :func:`position_parameters` and the usage page. The context in the configuration grows with the factor.
    """
    _check_method(method, factor)
    config = text_config(model)
    settings = config.rope_parameters
    nested = {k: v for k, v in settings.items() if isinstance(v, Mapping)}
    if nested and layer_type not in nested:
        raise ValueError(
            f"layer_type is {layer_type!r}: layers of this model differ, choose from {sorted(nested)}"
        )
    old = dict(nested.get(layer_type, settings))
    if old.get("rope_type") not in PLAIN:
        raise ValueError(
            f"this rotation is stretched already, by {old['rope_type']}: start from the model before"
        )
    rope = RoPE.from_config(config, layer_type=layer_type if nested else None)
    new = old | _parameters(method, factor, rope, config)
    config.rope_parameters = (
        {**settings, layer_type: new} if layer_type is not None and nested else new
    )
    if method != "p_rope":
        config.max_position_embeddings = round(config.max_position_embeddings * factor)
    for parent, name, child in list(rotations(model)):
        device = next(child.buffers()).device
        setattr(parent, name, type(child)(config=config).to(device))
    return model


def position_parameters(
    model: nn.Module, *, freeze: bool = False
) -> list[tuple[str, nn.Parameter]]:
    """Names and values of what the attached kernels learn: what to give an optimiser alone.

    Args:
        model: any model with kernels of this package in it.
        freeze: also stop all other parameters of the model from training.

    Returns:
        ``(name, parameter)`` in the order of the model; a parameter that layers share comes once.

    Raises:
        ValueError: the model has none. A stretched rotation has no parameters: attach a bias beside it.
    """
    own = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, PositionKernel)
        for _, parameter in module.position_parameters()
    }
    found = [(name, p) for name, p in model.named_parameters() if id(p) in own]
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no position parameters: attach(model, kernel) first"
        )
    if freeze:
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in own)
    return found


def _check_method(method: str, factor: float) -> None:
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: choose from {', '.join(METHODS)}")
    if method == "p_rope" and not 0 < factor <= 1:
        raise ValueError(f"factor is {factor}: p_rope keeps a share above 0 and at most 1 turning")
    if method != "p_rope" and not 1 <= factor < float("inf"):
        raise ValueError(f"factor is {factor}: {method} needs a finite factor >= 1")


def _parameters(method: str, factor: float, rope: RoPE, config: Any) -> dict[str, Any]:
    """What changes in ``rope_parameters``."""
    if method == "pi":
        return {"rope_type": "linear", "factor": float(factor)}
    if method == "yarn":
        length = config.max_position_embeddings
        return {
            "rope_type": "yarn",
            "factor": float(factor),
            "original_max_position_embeddings": length,
        }
    base = float(rope.spec["base"])
    if method == "ntk":
        dim = rope.rotary_dim
        if dim < 4:
            raise ValueError(f"{dim} channels turn: ntk divides by {dim} - 2, use pi")
        return {"rope_type": "default", "rope_theta": base * factor ** (dim / (dim - 2))}
    if rope.rotary_dim < rope.head_dim:
        raise ValueError(
            f"{rope.rotary_dim} of {rope.head_dim} channels turn: p_rope needs a model that turns all"
        )
    return {"rope_type": "proportional", "rope_theta": base, "partial_rotary_factor": float(factor)}


def _check_tables(model: nn.Module, rope: RoPE, layer_type: str | None) -> None:
    """Raise where a rotary embedding holds other frequencies than the kernel."""
    if rope.extension is not None and rope.extension.dynamic:
        return
    want = rope.frequencies(None, None)[0].detach().float().cpu()
    for _, _, child in rotations(model):
        held = getattr(child, f"{layer_type}_inv_freq" if layer_type else "inv_freq", None)
        if held is None or held.is_meta:
            continue
        held = held.detach().float().cpu()
        if not torch.allclose(held, want[: len(held)], rtol=1e-2, atol=0):  # bf16 may have rounded
            raise ValueError(
                f"{type(child).__name__} turns by other frequencies than its configuration says: the "
                "first that differs is "
                f"{float(held[(held - want[: len(held)]).abs().argmax()]):g} radians per token"
            )
