"""Position kernels in other libraries: transformers, x-transformers, FlexAttention, SDPA and NumPy."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from .dense import bias_tensor, to_numpy
from .flex import score_mod

__all__ = ["bias_tensor", "huggingface", "score_mod", "surgery", "to_numpy", "x_transformers"]

_NEED_A_LIBRARY = ("huggingface", "surgery", "x_transformers")


def __getattr__(name: str) -> ModuleType:
    """The modules that need another library, imported when they are asked for."""
    if name not in _NEED_A_LIBRARY:
        raise AttributeError(f"module 'pjrope.integrations' has no attribute {name!r}")
    return import_module(f"pjrope.integrations.{name}")
