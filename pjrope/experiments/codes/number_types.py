"""At which lag a code leaves a number type: from its formula, and by looking at every lag."""

from __future__ import annotations

import math

import torch

from .lag_codes import CYCLES, DAMPING, MAX_ORDER, amplitudes, code

__all__ = ["TYPES", "first_overflow", "predicted_overflow"]

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CHUNK = 1 << 17


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
