"""Plain JSON data: what settings, cell keys and rows are made of, and the ids hashed from them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["ExperimentError", "digest", "plain", "significant"]


class ExperimentError(ValueError):
    """A request that cannot be met, told in one line that names the way out."""


def plain(value: Any, where: str = "value") -> Any:
    """Return `value` as plain JSON data, the same that reading it back from a file would give.

    Mappings become dicts, tuples become lists, zero-dimensional arrays and tensors become numbers.

    Args:
        value: nested mappings, sequences, strings, booleans, numbers, None.
        where: how to call the value in an error.

    Raises:
        ExperimentError: for anything else, and for a number that is not finite.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise ExperimentError(f"{where} has the key {wrong[0]!r}; keys must be strings")
        return {key: plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ExperimentError(f"{where} is {value}; JSON has no such number, use None")
        return float(value)
    raise ExperimentError(
        f"{where} is a {type(value).__name__}; allowed: None, bool, int, float, str, "
        "and lists and mappings of them"
    )


def digest(value: Any, length: int = 12) -> str:
    """Return the first `length` hex digits of the SHA-256 of `value` as canonical JSON."""
    text = json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:length]


def significant(number: Any, digits: int = 6) -> float:
    """Return a number, or a tensor of one, with so many digits: further ones are one machine's."""
    return float(f"{float(number):.{digits}g}")
