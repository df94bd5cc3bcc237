"""The rotary settings of released models, read from a Hugging Face ``config.json``.

What is read, by the names that configurations use (versions 4 and 5 of transformers):

- channels: ``qk_rope_head_dim``, ``head_dim``, or ``hidden_size`` over ``num_attention_heads``
  (also ``n_embd`` and ``n_head``); the turning ones by ``rotary_dim``, ``partial_rotary_factor`` or
  ``rotary_pct``;
- ladder: ``rope_theta`` or ``rotary_emb_base``, on its own or in ``rope_parameters``;
- stretch: ``rope_parameters`` or ``rope_scaling`` with ``rope_type`` (``type``) default, linear,
  dynamic, yarn, longrope (su), llama3 or proportional;
- pairing: by the model type.

Limits: a factor on the logits beside the rotation (DeepSeek's softmax scale, temperatures that grow
with the position) belongs to the attention and is not read. Positions on several axes (``mrope``)
are read as the one axis they are for text. ``dynamic`` takes its factor from each row's own longest
position; transformers takes it from the whole batch and keeps it while the cache grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..positions.extensions import NTK, PI, Extension, Llama3, LongRoPE, YaRN
from ..positions.frequencies import truncated

# Model types whose checkpoints pair channels (2k, 2k+1); all others pair (k, k + R/2).
INTERLEAVED = frozenset(
    [
        "codegen",
        "cohere",
        "cohere2",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v4",
        "ernie4_5",
        "glm",
        "glm4",
        "gptj",
        "helium",
        "kimi_k2",
        "llama4",
        "llama4_text",
    ]
)
PLAIN = ("default", "mrope", None)
KINDS = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")


def rotary_settings(
    config: Mapping[str, Any] | Any, *, layer_type: str | None = None
) -> dict[str, Any]:
    """The arguments of :class:`~pjrope.RoPE` for a released model.

    Args:
        config: the dictionary of a ``config.json``, or an object with ``to_dict()``.
        layer_type: where layers differ, for instance "full_attention".

    Returns:
        head_dim, base or omega, rotary_dim, layout, extension. For latent attention head_dim is
        that of the rotated part alone.

    Raises:
        ValueError: settings that are missing, unknown or not rotary, by name.
    """
    fields = _fields(config)
    rotary = _rotary_fields(fields, layer_type)
    head_dim = _head_dim(fields)
    base = float(_first(rotary, fields, "rope_theta", "rotary_emb_base") or 10_000.0)
    share = _first(rotary, fields, "partial_rotary_factor", "rotary_pct")
    kind = rotary.get("rope_type", rotary.get("type"))
    settings: dict[str, Any] = {
        "head_dim": head_dim,
        "layout": "interleaved" if fields.get("model_type") in INTERLEAVED else "half",
    }
    if kind == "proportional":
        kept = int((1.0 if share is None else share) * head_dim // 2)
        omega = truncated(head_dim, base, kept=kept) / rotary.get("factor", 1.0)
        return settings | {"omega": omega, "rotary_dim": head_dim, "extension": None}
    turning = fields.get("rotary_dim") or int(head_dim * (1.0 if share is None else share))
    extension = _extension(kind, rotary, fields)
    return settings | {"base": base, "rotary_dim": turning, "extension": extension}


def _fields(config: Mapping[str, Any] | Any) -> dict[str, Any]:
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise ValueError(f"config is {type(config).__name__}: a dict such as config.json is needed")
    text = config.get("text_config")
    fields = dict(text if isinstance(text, Mapping) else config)
    if fields.get("alibi") or fields.get("model_type") in ("bloom", "mpt"):
        raise ValueError(f"{fields.get('model_type')} has ALiBi and no rotation: use ALiBi(heads)")
    return fields


def _rotary_fields(fields: Mapping[str, Any], layer_type: str | None) -> dict[str, Any]:
    """The rope settings of a layer type, flat."""
    found = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    nested = {name: value for name, value in found.items() if isinstance(value, Mapping)}
    if nested:
        if layer_type not in nested:
            raise ValueError(
                f"layer_type is {layer_type!r}: layers of this model differ, choose from "
                f"{sorted(nested)}"
            )
        return dict(nested[layer_type])
    local = fields.get("rope_local_base_freq")
    if local is not None and layer_type is None:
        raise ValueError(
            "layer_type is None: layers of this model differ, choose from "
            "['full_attention', 'sliding_attention']"
        )
    if local is not None and layer_type == "sliding_attention":
        return {"rope_theta": local}
    return dict(found)


def _head_dim(fields: Mapping[str, Any]) -> int:
    for name in ("qk_rope_head_dim", "head_dim"):
        if fields.get(name):
            return int(fields[name])
    width = fields.get("hidden_size") or fields.get("n_embd")
    heads = fields.get("num_attention_heads") or fields.get("n_head")
    if not (width and heads):
        raise ValueError(
            "config has neither head_dim nor hidden_size and num_attention_heads: the channels of "
            "a head are not known"
        )
    return int(width) // int(heads)


def _first(rotary: Mapping[str, Any], fields: Mapping[str, Any], *names: str) -> Any:
    return next((d[name] for d in (rotary, fields) for name in names if d.get(name)), None)


def _extension(
    kind: str | None, rotary: Mapping[str, Any], fields: Mapping[str, Any]
) -> Extension | None:
    if kind in PLAIN:
        return None
    if kind not in (*KINDS, "su"):
        raise ValueError(f"rope_type is {kind!r}: known are {', '.join(KINDS)}")
    if kind == "linear":
        return PI(scale=_needed(rotary, "factor", kind))
    longest = fields.get("max_position_embeddings") or fields.get("n_positions")
    if kind == "dynamic":
        return NTK(length=_known(longest), slope=_needed(rotary, "factor", kind))
    # Phi-3 keeps the length before the extension outside of the rope settings; it comes first.
    length = fields.get("original_max_position_embeddings") or rotary.get(
        "original_max_position_embeddings", longest
    )
    length = _known(length)
    scale = rotary.get("factor") or _known(longest) / length
    if kind == "llama3":
        low, high = (_needed(rotary, f"{x}_freq_factor", kind) for x in ("low", "high"))
        return Llama3(scale, length, low_freq_factor=low, high_freq_factor=high)
    if kind in ("longrope", "su"):
        return LongRoPE(
            max(1.0, scale),
            length,
            short=_needed(rotary, "short_factor", kind),
            long=_needed(rotary, "long_factor", kind),
            attention_factor=rotary.get("attention_factor"),
        )
    both = rotary.get("mscale") and rotary.get("mscale_all_dim")  # read together or not at all
    return YaRN(
        scale,
        length,
        attention_factor=rotary.get("attention_factor"),
        beta_fast=rotary.get("beta_fast") or 32.0,
        beta_slow=rotary.get("beta_slow") or 1.0,
        truncate=rotary.get("truncate", True),
        mscale=rotary["mscale"] if both else None,
        mscale_all_dim=rotary["mscale_all_dim"] if both else None,
    )


def _needed(rotary: Mapping[str, Any], name: str, kind: str) -> Any:
    if rotary.get(name) is None:
        raise ValueError(f"{name} is missing: rope_type {kind!r} needs it")
    return rotary[name]


def _known(length: int | None) -> int:
    if not length:
        raise ValueError("max_position_embeddings is missing: the training length is needed")
    return int(length)
