"""Samples of one function of the lag, checked and widened."""

from __future__ import annotations

import torch
from torch import Tensor


def tolerance(values: Tensor, least: float) -> float:
    """``least``, or what the rounding of a narrower number type takes."""
    inexact = values.is_floating_point() or values.is_complex()
    return max(least, 16 * torch.finfo(values.dtype).eps) if inexact else least


def one_function(values: Tensor) -> Tensor:
    if values.ndim != 1:
        raise ValueError(
            f"values have shape {tuple(values.shape)}, the samples (n,) of one function are needed"
        )
    return values


def all_finite(values: Tensor, name: str) -> Tensor:
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"{name} holds NaN or infinity: finite numbers are needed")
    return values


def exact(values: Tensor) -> Tensor:
    """In fp64 or complex128, no gradient."""
    wide = torch.complex128 if values.is_complex() else torch.float64
    return values.detach().to(wide)
