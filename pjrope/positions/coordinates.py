"""Coordinates of the lag: linear, bounded shear and the three of the light cone.

All are odd in the lag, and none squares it: ``d**2`` overflows fp16 at 256 and int64 near 2^31.5,
``hypot`` does neither. Integer lags are divided in fp64 (fp32 on devices without it).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..conventions import phase_dtype


def _real(lags: Tensor) -> Tensor:
    """Lags as real numbers, integers in the phase dtype, narrow floats in fp32."""
    if lags.dtype.is_complex:
        raise ValueError(f"lags have dtype {lags.dtype}, real numbers of tokens are needed")
    if not lags.dtype.is_floating_point:
        return lags.to(phase_dtype(lags.device))
    return lags if lags.dtype == torch.float64 else lags.float()


def _check(length: float) -> None:
    if not 0 < length < math.inf:
        raise ValueError(f"length is {length}, a positive finite number of tokens is needed")


def linear(lags: Tensor, length: float) -> Tensor:
    """Scaled lag ``x = d / L``.

    Args:
        lags: any shape, tokens.
        length: L, tokens.

    Returns:
        same shape, no unit.
    """
    _check(length)
    return _real(lags) / length


def bounded_shear(lags: Tensor, length: float) -> Tensor:
    """Bounded shear ``tau = d / (1 + |d|/L)``: d near 0, at most L far out.

    Args:
        lags: any shape, tokens.
        length: L, tokens.

    Returns:
        same shape, tokens, in (-L, L).

    Reference: Jordan-RoPE paper, stabilised form.
    """
    _check(length)
    d = _real(lags)
    return d / (1 + d.abs() / length)


def rapidity(lags: Tensor, length: float) -> Tensor:
    """Rapidity ``y = asinh(d / L)``.

    Args:
        lags: any shape, tokens.
        length: L, tokens.

    Returns:
        same shape, no unit.

    Reference: PJ-RoPE paper, light-cone coordinates.
    """
    return torch.asinh(linear(lags, length))


def phase(lags: Tensor, length: float) -> Tensor:
    """Light-cone phase ``phi = L asinh(d / L)``: d near 0, L ln(2d/L) far out.

    Args:
        lags: any shape, tokens.
        length: L, tokens.

    Returns:
        same shape, tokens.
    """
    return length * rapidity(lags, length)


def velocity(lags: Tensor, length: float) -> Tensor:
    """Velocity ``beta = d / sqrt(d^2 + L^2) = tanh(y)``.

    Args:
        lags: any shape, tokens.
        length: L, tokens.

    Returns:
        same shape, no unit, in [-1, 1]; below 1 until the number type rounds it up
        (fp64: d > 6.7e7 L, fp32: d > 2900 L).
    """
    x = linear(lags, length)
    return x / torch.hypot(x, torch.ones_like(x))
