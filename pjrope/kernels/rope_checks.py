"""Checks of what a RoPE is made from."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from ..conventions import LAYOUTS
from ..positions.extensions import Extension

COORDINATES = ("linear", "lightcone")


def check_pairs(head_dim: int, rotary_dim: int, layout: str) -> None:
    """Raise unless so many of the channels make pairs, and the layout says which."""
    if not _even(head_dim):
        raise ValueError(f"head_dim is {head_dim!r}, RoPE turns pairs: use an even integer >= 2")
    if not _even(rotary_dim) or rotary_dim > head_dim:
        raise ValueError(f"rotary_dim is {rotary_dim!r}: use an even integer from 2 to {head_dim}")
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {layout!r}, known are {LAYOUTS}")


def check_coordinate(coordinate: str, length: float | None) -> None:
    """Raise unless the coordinate is known and has a length if, and only if, it needs one."""
    if coordinate not in COORDINATES:
        raise ValueError(f"coordinate is {coordinate!r}, known are {COORDINATES}")
    if (length is None) == (coordinate == "lightcone"):
        raise ValueError(
            f"length is {length} and coordinate {coordinate!r}: the light cone needs the "
            "training length, and only the light cone takes one"
        )


def checked_ladder(omega: Any, rotary_dim: int) -> Tensor:
    """The frequencies as a tensor, ``(rotary_dim/2,)`` in fp32 or fp64, finite."""
    ladder = omega
    if not isinstance(ladder, Tensor):
        ladder = torch.as_tensor(ladder, dtype=torch.float64, device="cpu")
    if ladder.shape != (rotary_dim // 2,):
        raise ValueError(
            f"omega has shape {tuple(ladder.shape)}, {rotary_dim} rotated channels need "
            f"({rotary_dim // 2},)"
        )
    if ladder.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"omega is {ladder.dtype}, which holds no frequency: use fp32 or fp64")
    if not (ladder.is_meta or bool(torch.isfinite(ladder.detach()).all())):
        raise ValueError(f"omega is {ladder.tolist()}: finite frequencies are needed")
    if ladder.requires_grad and not isinstance(omega, nn.Parameter):
        raise ValueError("omega requires a gradient: wrap it, nn.Parameter(omega), to train it")
    return ladder


def check_extension(extension: Extension | None, ladder: Tensor, trained: bool) -> None:
    """Raise unless the extension is one, and knows how to stretch this ladder."""
    if extension is None:
        return
    if not isinstance(extension, Extension):
        raise ValueError(f"extension is {extension!r}, an object is needed: NTK(scale=4.0)")
    if reason := extension.refusal(ladder, trained):
        raise ValueError(reason)


def _even(value: Any) -> bool:
    return isinstance(value, Integral) and int(value) >= 2 and int(value) % 2 == 0
