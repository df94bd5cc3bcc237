"""Position kernels in models of transformers 5: a learnable bias, or another rotation.

Import this before loading a model that was saved with kernels: it makes their attention known.
"""

from __future__ import annotations

from .attaching import attach, attached, detach, replace_rotary
from .forward import DENSE_LIMIT, register

__all__ = ["DENSE_LIMIT", "attach", "attached", "detach", "replace_rotary"]

register()
