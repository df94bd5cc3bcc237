"""The attention and mask functions that transformers calls in a model with a kernel attached."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...attention import attend
from ...extras import need
from ...kernels.base import PositionKernel
from ...kernels.layouts import to_interleaved
from ...positions.lags import lags as lags_between

NAMES = {"auto": "pjrope", "sdpa": "pjrope_sdpa", "eager": "pjrope_eager"}
DENSE_LIMIT = 2048  # tokens: beyond it a dense bias of every pair is refused
KERNEL = "position_kernel"  # of an attention module; parameters are saved under this name
STATE = "pjrope"  # of a configuration: what to attach when the model is loaded
_PLACES = "_pjrope_places"


def register() -> None:
    """Let transformers know the three attention functions and the mask function of each."""
    need("transformers", "hf")
    masks = need("transformers.masking_utils", "hf")
    utils = need("transformers.modeling_utils", "hf")
    for how, name in NAMES.items():
        utils.AttentionInterface.register(name, _ATTENTIONS[how])
        masks.AttentionMaskInterface.register(name, mask)


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    allow_is_causal_skip: bool = True,
    **options: Any,
) -> Tensor | None:
    """Which pairs may attend, ``(B, 1, Q, K)`` boolean; None for plain causality at the bottom right.

    Where queries are not the last of the keys, as in a static cache, the mask carries the places of both.
    """
    make = need("transformers.masking_utils", "hf").sdpa_mask
    ends_meet = isinstance(q_offset, int) and q_offset + q_length == kv_offset + kv_length
    found = make(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        allow_is_causal_skip=allow_is_causal_skip and ends_meet,
        **options,
    )
    if found is not None and not ends_meet:
        rows = torch.arange(q_length, device=found.device) + q_offset
        columns = torch.arange(kv_length, device=found.device) + kv_offset
        setattr(found, _PLACES, (rows, columns))
    return found


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of a layer through :func:`pjrope.attend`: ``(B, Q, H, D)``, and no weights."""
    kernel = kernel_of(module)
    _refuse(module, options, dropout, softcap=options.get("softcap"))
    if kernel is not None and kernel.rotates:
        query, key = (_paired(module, x) for x in (query, key))
    q_pos, k_pos = getattr(attention_mask, _PLACES, (None, None))
    keep = _boolean(attention_mask, key)
    out = attend(
        query.to(value.dtype),
        key.to(value.dtype),
        value,
        kernel,
        q_pos=q_pos,
        k_pos=k_pos,
        causal=keep is None and _causal(module, options),
        keep=keep,
        scale=scaling,
    )
    return out.transpose(1, 2).contiguous(), None


def dense_attention(how: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Attention by a function of transformers itself, with the bias of every pair in its mask.

    Args:
        how: "sdpa" or "eager".
    """

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        kernel = kernel_of(module)
        _refuse(module, options, 0.0)
        places = getattr(attention_mask, _PLACES, None)
        keep = _boolean(attention_mask, key)
        added = _dense(module, kernel, query, key, keep, places, _causal(module, options))
        return _of_transformers(module, how)(module, query, key, value, added, **options)

    return attention


_ATTENTIONS = {
    "auto": attention,
    "sdpa": dense_attention("sdpa"),
    "eager": dense_attention("eager"),
}


def kernel_of(module: nn.Module) -> PositionKernel | None:
    """The kernel attached to an attention module; None where it was left out on purpose.

    Raises:
        ValueError: the model was saved with kernels and loaded without them.
    """
    kernel: PositionKernel | None = getattr(module, KERNEL, None)
    state = getattr(getattr(module, "config", None), STATE, None)
    if kernel is None and state is not None and state["kernels"][_layer(module)] is not None:
        raise ValueError(
            "this model was saved with a position kernel, which from_pretrained does not load: call "
            "pjrope.integrations.huggingface.attach(model)"
        )
    return kernel


def check_implementation(module: nn.Module, args: Any) -> None:
    """Ahead of an attention module: raise where another backend would leave the kernel out."""
    given = module.config._attn_implementation  # type: ignore[union-attr]
    if given not in NAMES.values():
        raise ValueError(
            f"attn_implementation is {given!r}, which ignores the attached kernel: use "
            "attach(model, kernel, attention='auto'), or detach(model)"
        )


def _layer(module: nn.Module) -> int:
    index = module.layer_idx
    assert isinstance(index, int)  # of every attention module that attach() finds
    return index


def _causal(module: nn.Module, options: Mapping[str, Any]) -> bool:
    given = options.get("is_causal")
    return bool(getattr(module, "is_causal", True) if given is None else given)


def _refuse(module: nn.Module, options: Mapping[str, Any], dropout: float, **more: Any) -> None:
    """Raise for what would be left out without a word."""
    if dropout > 0:
        raise ValueError(
            f"attention dropout is {dropout}, and pjrope.attend has none: set "
            "config.attention_dropout = 0.0, or attach with attention='eager'"
        )
    if more.get("softcap") is not None:
        raise ValueError(
            f"logits are capped at {more['softcap']}, which pjrope.attend does not do: attach with "
            "attention='eager'"
        )
    for name in ("s_aux", "position_bias", "head_mask"):
        if options.get(name) is not None:
            raise ValueError(
                f"{type(module).__name__} uses {name}, which an attached kernel would leave out"
            )


def _boolean(given: Tensor | None, key: Tensor) -> Tensor | None:
    """A mask as booleans over the keys, True = may attend."""
    if given is None:
        return None
    if not isinstance(given, Tensor):
        raise ValueError(f"attention_mask is {type(given).__name__}: a tensor or None is needed")
    given = given[..., : key.shape[2]]
    if given.dtype == torch.bool:
        return given
    open_ = given == 0
    if bool((~open_ & (given > torch.finfo(given.dtype).min / 2)).any()):
        raise ValueError(
            "attention_mask holds numbers beside 0 and minus infinity: a bias of your own goes into "
            "a kernel"
        )
    return open_


def _paired(module: nn.Module, x: Tensor) -> Tensor:
    """Channels paired as the kernel pairs them; a permutation of q and k alike changes no score."""
    turning: int = getattr(module, "pjrope_turning", 0)
    if not turning:
        return x
    return torch.cat([to_interleaved(x[..., :turning]), x[..., turning:]], dim=-1)


def _dense(
    module: nn.Module,
    kernel: PositionKernel | None,
    query: Tensor,
    key: Tensor,
    keep: Tensor | None,
    places: tuple[Tensor, Tensor] | None,
    causal: bool,
) -> Tensor:
    """Bias and mask as one tensor that is added to the logits, ``(B or 1, H, Q, K)``."""
    queries, keys = query.shape[2], key.shape[2]
    if keys > DENSE_LIMIT:
        raise ValueError(
            f"{keys:,} keys: a dense bias is made for {DENSE_LIMIT:,} at most, use "
            "attach(model, kernel, attention='auto')"
        )
    whole = torch.arange(keys, device=key.device)
    q_pos, k_pos = places or (whole[keys - queries :], whole)
    pairs = lags_between(q_pos, k_pos)
    if keep is None and causal:
        keep = pairs >= 0
    shape = (1, query.shape[1], queries, keys)
    bias = query.new_zeros(shape)
    if kernel is not None:
        known, where = torch.unique(pairs, return_inverse=True)
        values = kernel.lag_bias(known)
        assert values is not None  # attach() takes no other kernel
        bias = values.to(query.dtype)[:, where][None]
    return bias if keep is None else bias.masked_fill(~keep, torch.finfo(query.dtype).min)


def _of_transformers(module: nn.Module, how: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    if how == "eager":  # of the model itself: some cap the logits
        return sys.modules[type(module).__module__].eager_attention_forward
    return need("transformers.integrations.sdpa_attention", "hf").sdpa_attention_forward
