"""pjrope: relative position in attention as one learnable space.

Names and rooms load on first use, so that ``pjrope --help`` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .attention import AttentionLayer, KVCache, attend, attend_plan
    from .diagnosis import diagnose
    from .diagnostics import effective_mass, functional_energy, leave_one_order_out
    from .kernels import (
        Affine,
        ALiBi,
        DampedRoPE,
        FourierJet,
        JordanRoPE,
        LightCone,
        NoPE,
        PJBias,
        PJInit,
        PJRotary,
        RoPE,
        direct_sum,
        kernel_from_spec,
    )
    from .models import Decoder, DecoderConfig
    from .positions import NTK, PI, YaRN
    from .training import TrainConfig, evaluate, train

_ROOMS = {
    "positions": ("NTK", "PI", "YaRN"),
    "kernels": (
        "Affine",
        "ALiBi",
        "DampedRoPE",
        "FourierJet",
        "JordanRoPE",
        "LightCone",
        "NoPE",
        "PJBias",
        "PJInit",
        "PJRotary",
        "RoPE",
        "direct_sum",
        "kernel_from_spec",
    ),
    "attention": ("AttentionLayer", "KVCache", "attend", "attend_plan"),
    "models": ("Decoder", "DecoderConfig"),
    "training": ("TrainConfig", "evaluate", "train"),
    "diagnostics": ("effective_mass", "functional_energy", "leave_one_order_out"),
    "diagnosis": ("diagnose",),
}
_MODULES = (
    *("attention", "bench", "conventions", "data", "diagnosis", "diagnostics", "experiments"),
    *("integrations", "interactive", "kernels", "models", "plotting", "positions", "record"),
    "training",
)
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "NTK",
    "PI",
    "YaRN",
    "Affine",
    "ALiBi",
    "DampedRoPE",
    "FourierJet",
    "JordanRoPE",
    "LightCone",
    "NoPE",
    "PJBias",
    "PJInit",
    "PJRotary",
    "RoPE",
    "direct_sum",
    "kernel_from_spec",
    "AttentionLayer",
    "KVCache",
    "attend",
    "attend_plan",
    "Decoder",
    "DecoderConfig",
    "TrainConfig",
    "evaluate",
    "train",
    "effective_mass",
    "functional_energy",
    "leave_one_order_out",
    "diagnose",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pjrope.{name}")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'pjrope' has no attribute {name!r}")
    value = getattr(import_module(f"pjrope.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
