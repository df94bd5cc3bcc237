"""How 66 public models treat position, as their configuration and code files say."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

OPTIONS = (
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "truncate",
    "mscale",
    "mscale_all_dim",
)


@cache
def _facts() -> str:
    return files("pjrope.data").joinpath("models.json").read_text(encoding="utf8")


def model_facts() -> list[dict[str, Any]]:
    """One row a model: method, layout, ladder, scaling, contexts, windows, source.

    Returns:
        a fresh list of dicts; what each field means stands in :func:`facts_about`. A row whose
        "verified" is False was not read in a public file; "unverified_fields" names single values.
    """
    return json.loads(_facts())["models"]


def facts_about() -> dict[str, Any]:
    """Where the rows of :func:`model_facts` come from, what their fields mean, known pitfalls."""
    return json.loads(_facts())["about"]


def rotary_config(row: dict[str, Any]) -> dict[str, Any]:
    """A row of :func:`model_facts` as a configuration that :meth:`pjrope.RoPE.from_config` reads.

    Where layers differ the row holds the settings of full attention, and so does the answer.

    Args:
        row: of :func:`model_facts`.

    Returns:
        a dictionary with the fields of a Hugging Face ``config.json``.

    Raises:
        ValueError: a row that is no rotation or does not hold all its numbers, with the reason.
    """
    name, scaling = row["key"], row["scaling"] or {"type": "default"}
    if not row["method"].startswith("rope"):
        raise ValueError(f"{name}: {row['method']} is no rotation")
    if not (row["head_dim"] and row["rotary_dim"]):
        raise ValueError(f"{name}: the row does not say how many channels turn")
    kind = {"dynamic-ntk": "dynamic"}.get(scaling["type"], scaling["type"])
    if kind == "longrope":
        raise ValueError(f"{name}: the row names the lists of divisors and does not hold them")
    if kind == "dynamic" and "factor" not in scaling:
        raise ValueError(f"{name}: its rule of scaling is its own and has no factor")
    rope: dict[str, Any] = {"rope_type": kind, "rope_theta": float(row["rope_theta"])}
    rope |= {field: scaling[field] for field in OPTIONS if field in scaling}
    config: dict[str, Any] = {
        "head_dim": row["head_dim"],
        "max_position_embeddings": row["context"],
        "rope_parameters": rope,
    }
    style = row["partial_style"] or ""
    if style.startswith("decoupled"):
        config["qk_rope_head_dim"] = row["rotary_dim"]
    elif row["rotary_dim"] < row["head_dim"]:
        rope["partial_rotary_factor"] = row["rotary_dim"] / row["head_dim"]
    return config
