"""Context extensions: ways to stretch a frequency ladder past the training length."""

from .base import NTK, PI, Extension, extension_from_spec
from .by_parts import Llama3, YaRN
from .longrope import LongRoPE

__all__ = ["NTK", "PI", "Extension", "Llama3", "LongRoPE", "YaRN", "extension_from_spec"]
