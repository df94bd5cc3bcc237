"""Rounding to a few bits, and to a number type.

Two quantizers, as their records have them. `quantize` has ``2^b - 1`` levels symmetric about 0 and
among them 0 itself, with a step shared by a tensor, its channels or its tokens: the papers' own.
`round_vectors` stores vectors as a cache of keys and values would: each has one step, in fp16, and its
coordinates are signed integers of b bits. Its 2^b levels lie symmetric about 0, as far apart as the
largest coordinate allows, so that none is wasted and none is clipped: the usual signed code, whose
range is one longer below 0 than above it, halves the largest positive coordinate at 2 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .lag_codes import CYCLES, DAMPING, MAX_ORDER, amplitudes, code

__all__ = [
    *("SCALE_BITS", "TYPES", "Quantizer", "codes_and_step", "first_overflow", "haar_rotation"),
    *("predicted_overflow", "quantize", "round_vectors"),
]

SCALE_BITS = 16  # of the step that every vector stores beside its codes
_LARGEST = torch.finfo(torch.float16).max
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CHUNK = 1 << 17


def quantize(values: Tensor, bits: int, dim: int | None = None) -> Tensor:
    """Round to ``2^bits - 1`` levels, symmetric about 0, and return to the scale of the input.

    Args:
        values: any shape.
        bits: at least 2; 0 leaves the values as they are.
        dim: the largest magnitude, which sets the step, is taken along it; None: over everything.
            For rows of tokens, 0 is one step a channel, 1 one step a token.

    Returns:
        same shape.

    Raises:
        ValueError: for 1 bit, which has no level but 0, or fewer than none.
    """
    if not bits:
        return values
    if bits < 2:
        raise ValueError(f"bits is {bits}: at least 2 are needed, or 0 for no rounding")
    top = 2 ** (bits - 1) - 1
    peak = values.abs().amax() if dim is None else values.abs().amax(dim, keepdim=True)
    step = peak.clamp_min(1e-12) / top
    return torch.round(values / step) * step  # at most top steps, as the peak is the largest


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


def predicted_overflow(name: str, length: float, dtype: torch.dtype) -> float:
    """First lag at which the feature of highest order leaves a number type, from the formula.

    Rounding to the type gives infinity from half a step above its largest number m on. raw reaches
    m at ``(R! m)^(1/R)``, lc_phase_only at L times that. log and scaled are looked up on a grid of
    powers: ln(1+x) would need a lag beyond any integer, and the envelope of scaled, ``x^3/6
    e^{-x/10}``, turns at x = 30, where it is 224.

    Returns:
        tokens; infinity for a variant that never leaves the type.
    """
    largest = torch.finfo(dtype).max * (1 + torch.finfo(dtype).eps / 4)
    root = (math.factorial(MAX_ORDER) * largest) ** (1 / MAX_ORDER)
    match name:
        case "raw":
            return math.ceil(root)
        case "lc_phase_only":
            return math.ceil(root * length)
        case "log":
            return length * math.expm1(root) if root < 700 else math.inf
        case "scaled":
            peak = MAX_ORDER / DAMPING
            top = peak**MAX_ORDER / math.factorial(MAX_ORDER) * math.exp(-MAX_ORDER)
            return math.inf if top < largest else root * length
        case _:
            return math.inf


def first_overflow(name: str, length: int, count: int, dtype: torch.dtype) -> tuple[int, int]:
    """Lags 0 … count - 1 one by one: the first not finite, and the first that its successor equals.

    Args:
        name: of a variant.
        length: L, tokens.
        count: positions.
        dtype: number type to which the fp64 code with fair cycles is rounded.

    Returns:
        two lags, -1 for none.
    """
    lost = same = -1
    for start in range(0, count, CHUNK):
        lags = torch.arange(start, min(start + CHUNK + 1, count))
        bad = ~torch.isfinite(amplitudes(name, lags, length).to(dtype)).all(1)
        rows = code(name, lags, length, CYCLES["fair"]).to(dtype)
        equal = (rows[1:] == rows[:-1]).all(1)
        if lost < 0 and bad.any():
            lost = start + int(bad.int().argmax())
        if same < 0 and equal.any():
            same = start + int(equal.int().argmax())
    return lost, same
