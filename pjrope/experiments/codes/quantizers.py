"""Rounding vectors to a few bits as a cache of keys and values would store them.

Each vector has one step, stored as fp16; its coordinates are signed integers of b bits. The 2^b
levels lie symmetric about 0, as far apart as the largest coordinate allows, so that none is wasted
and none is clipped: the usual signed code, whose range is one longer below 0 than above it, halves
the largest positive coordinate at 2 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["SCALE_BITS", "Quantizer", "codes_and_step", "haar_rotation", "round_vectors"]

SCALE_BITS = 16  # of the step that every vector stores beside its codes
_LARGEST = torch.finfo(torch.float16).max


def codes_and_step(x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """The integers and the step that store each vector, ``x ~ (code + 1/2) step``.

    Args:
        x: ``(..., D)`` floating point.
        bits: b >= 2.

    Returns:
        codes ``(..., D)`` int16 in ``[-2^(b-1), 2^(b-1) - 1]``, and the step ``(..., 1)`` fp16,
        ``2 max|x| / (2^b - 1)``; 0 where a vector is 0, or too small for fp16.

    Raises:
        ValueError: fewer than 2 bits or more than 8; a number that is not finite; a step beyond the
            range of fp16.
    """
    if not 2 <= bits <= 8:
        raise ValueError(f"bits is {bits}: 2 to 8 are possible")
    if lost := int((~torch.isfinite(x)).sum()):
        raise ValueError(
            f"{lost} of {x.numel()} coordinates are nan or infinite, and no code stores those: look "
            "for what made them, before the rounding"
        )
    step = 2 * x.abs().amax(-1, keepdim=True) / (2**bits - 1)
    if step.numel() and not float(step.max()) <= _LARGEST:
        raise ValueError(
            f"a vector needs a step of {float(step.max()):.3g}, fp16 reaches {_LARGEST:.0f}: round "
            "keys before the position action, or use less damping and shear"
        )
    step = step.half()
    ratio = x / torch.where(step == 0, 1, step).to(x.dtype)
    # Out of range only where a step is so small that fp16 holds few of its digits.
    codes = ratio.floor().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return codes.to(torch.int16), step


def round_vectors(x: Tensor, bits: int) -> Tensor:
    """What a cache gives back for each vector: ``(code + 1/2) step``.

    Args:
        x: ``(..., D)``.
        bits: 2 to 8.

    Returns:
        same shape and dtype; off by at most half a step, up to the rounding of the step to fp16.
        Rounding twice changes nothing.
    """
    codes, step = codes_and_step(x, bits)
    return (codes.to(x.dtype) + 0.5) * step.to(x.dtype)


def haar_rotation(size: int, seed: int) -> Tensor:
    """A random orthogonal matrix, uniform over the orthogonal group.

    Args:
        size: D.
        seed: the matrix need not be stored, it is drawn anew from it.

    Returns:
        ``(D, D)`` fp64.

    Reference: Mezzadri (2007), "How to generate random matrices from the classical compact groups".
    """
    draw = torch.Generator().manual_seed(seed)
    q, r = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64, generator=draw))
    return q * torch.where(r.diagonal() < 0, -1.0, 1.0)  # QR leaves the signs to chance


@dataclass(frozen=True, eq=False)
class Quantizer:
    """Rounds vectors, if wanted in rotated coordinates.

    Attributes:
        bits: of a coordinate, 2 to 8; 0 rounds nothing and rotates nothing.
        rotation: ``(D, D)`` orthogonal, applied before rounding and undone after it; None for none.
    """

    bits: int
    rotation: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """``(..., D)`` to the same."""
        if not self.bits:
            return x
        if self.rotation is None:
            return round_vectors(x, self.bits)
        turn = self.rotation.to(device=x.device, dtype=x.dtype)
        return round_vectors(x @ turn, self.bits) @ turn.T

    def storage(self, size: int, unrounded: int = 32) -> float:
        """Bits a coordinate, the share of the step counted: ``b + 16/D``.

        Args:
            size: D, coordinates that share a step.
            unrounded: bits of a number that is not rounded.
        """
        return self.bits + SCALE_BITS / size if self.bits else float(unrounded)
