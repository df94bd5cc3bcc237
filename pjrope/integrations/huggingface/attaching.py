"""Put kernels into a model, take them out, and find them again in one that was saved."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path

from torch import nn

from ...kernels.base import PositionKernel, kernel_from_spec
from ..dense import needs_bias
from .forward import KERNEL, NAMES, STATE, check_implementation
from .modules import (
    attentions,
    check_fit,
    restore_rotation,
    stop_rotation,
    text_config,
    turning_channels,
)
from .saved import load_kernels


def attach(
    model: nn.Module,
    kernel: PositionKernel | None = None,
    *,
    layers: Iterable[int] | None = None,
    attention: str = "auto",
    weights: str | Path | None = None,
) -> nn.Module:
    """Add a learnable position bias to the attention of a transformers model.

    Each layer gets a copy of the kernel; its parameters are the model's, train with it and are saved by
    ``save_pretrained``. A kernel whose bias is 0 changes nothing: :class:`~pjrope.kernels.NearTable`
    starts so. After ``from_pretrained``, ``attach(model)`` brings the saved kernels back.

    Args:
        model: a model that routes its attention through transformers' AttentionInterface, such as Llama,
            Qwen, Mistral, Gemma or GPT-NeoX; changed in place.
        kernel: one that does nothing but bias, made for the query heads; None takes what was saved.
        layers: numbers of the layers that get it, default all.
        attention: "auto", our operator; "sdpa" or "eager", transformers' own functions with the bias of
            every pair in their mask, to 2,048 keys.
        weights: folder or hub name of the saved parameters, default where the model was loaded from.

    Returns:
        the model.

    Raises:
        ValueError: a kernel that does not fit, a model that would ignore it, one that has kernels already,
            or nothing saved where no kernel is given.
        ImportError: transformers is not installed.

    Limits: transformers 5. Attention dropout and attention weights need attention="eager", capped logits
    (Gemma 2) too; attention sinks are refused. Lags count tokens, so padding on either side is fine, and so
    are packed documents where transformers finds them: by position_ids, with use_cache=False. Kernels stay in
    fp32 in a model of another type.
    """
    if attention not in NAMES:
        raise ValueError(f"attention is {attention!r}: choose from {', '.join(NAMES)}")
    config = text_config(model)
    if kernel is None:
        state = getattr(config, STATE, None)
        if state is None:
            raise ValueError("kernel is None, and this model was not saved with one: pass a kernel")
        found = [None if s is None else kernel_from_spec(s) for s in state["kernels"]]
        _install(model, found, state["attention"] if attention == "auto" else attention)
        load_kernels(model, str(model.name_or_path if weights is None else weights))
        return model
    if kernel.rotates:
        raise ValueError(
            f"{type(kernel).__name__} acts on the channels: use replace_rotary(model, kernel)"
        )
    needs_bias(kernel)
    count = len(attentions(model))
    chosen = set(range(count)) if layers is None else set(layers)
    if not chosen or not chosen <= set(range(count)):
        raise ValueError(f"layers are {sorted(chosen)}: the model has 0 … {count - 1}")
    _install(
        model, [copy.deepcopy(kernel) if n in chosen else None for n in range(count)], attention
    )
    return model


def replace_rotary(model: nn.Module, kernel: PositionKernel) -> nn.Module:
    """Put another rotation in the place of a transformers model's own, in all layers.

    Where the model pairs channels in halves, q and k are brought into the kernel's interleaved pairs
    first, so a ladder of the model keeps its channels: ``replace_rotary(model, RoPE.from_config(config))``
    changes nothing.

    Args:
        model: as for :func:`attach`; changed in place.
        kernel: one that acts on the channels, such as RoPE, JordanRoPE or PJRotary, perhaps with a bias
            added; made for the model's head and key heads.

    Returns:
        the model.

    Raises:
        ValueError: as :func:`attach`; a kernel that does not rotate, or a model whose rotation is not given
            as cosines and sines or that leaves it out in some layers.

    Limits: keys are cached as they are and rotated at every call. Our operator only.
    """
    if not kernel.rotates or kernel.scored:
        raise ValueError(
            f"{type(kernel).__name__} does not act on the channels alone: use attach(model, kernel)"
        )
    config = text_config(model)
    if getattr(config, "no_rope_layers", None) or getattr(config, "no_rope_layer_interval", None):
        raise ValueError("this model does not rotate in some layers, which would be lost")
    _install(model, [copy.deepcopy(kernel) for _ in attentions(model)], "auto")
    return model


def detach(model: nn.Module) -> list[PositionKernel | None]:
    """Take the kernels out again, leaving the model as it was.

    Returns:
        the kernel of each layer.

    Raises:
        ValueError: nothing is attached.
    """
    modules = attentions(model)
    found = [getattr(module, KERNEL, None) for module in modules]
    if not any(k is not None for k in found):
        raise ValueError("nothing of pjrope is attached to this model")
    for module in modules:
        for hook in module.__dict__.pop("pjrope_hooks", ()):
            hook.remove()
        module.__dict__.pop("pjrope_turning", None)
        if hasattr(module, KERNEL):
            delattr(module, KERNEL)
    restore_rotation(model)
    config = text_config(model)
    config._attn_implementation = getattr(config, STATE)["before"]
    for name in (STATE, "attn_implementation"):
        delattr(config, name)
    return found


def attached(model: nn.Module) -> list[PositionKernel | None]:
    """The kernel of each layer; None where there is none."""
    return [getattr(module, KERNEL, None) for module in attentions(model)]


def _install(model: nn.Module, kernels: list[PositionKernel | None], attention: str) -> None:
    modules, config = attentions(model), text_config(model)
    if any(k is not None for k in attached(model)):
        raise ValueError("this model has kernels already: detach(model) first")
    if len(kernels) != len(modules):
        raise ValueError(f"{len(kernels)} kernels for {len(modules)} layers")
    given = [k for k in kernels if k is not None]
    for one in given:
        check_fit(one, config)
    turning = turning_channels(config, given[0]) if given[0].rotates else 0
    if given[0].rotates:
        stop_rotation(model)
    for module, kernel in zip(modules, kernels, strict=True):
        if kernel is not None:
            device = next(module.parameters()).device
            setattr(module, KERNEL, kernel if device.type == "meta" else kernel.to(device))
            module.__dict__["pjrope_turning"] = turning
            hook = module.register_forward_pre_hook(check_implementation)
            module.__dict__["pjrope_hooks"] = [hook]
    before = config._attn_implementation
    state = {
        "version": 1,
        "attention": attention,
        "before": "sdpa" if before in NAMES.values() else before,
        "kernels": [None if k is None else k.spec for k in kernels],
    }
    setattr(config, STATE, state)
    # Written into config.json too, so that a plain from_pretrained cannot leave the kernels out in silence.
    config.attn_implementation = config._attn_implementation = NAMES[attention]
