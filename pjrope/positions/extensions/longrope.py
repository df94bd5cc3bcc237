"""LongRoPE: a list of divisors up to the training length, another beyond it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .base import PI, Extension

LISTS = ("auto", "short", "long")


@dataclass(frozen=True)
class LongRoPE(Extension):
    """LongRoPE: every frequency has divisors of its own, one up to L and another beyond it.

    Rotated channels of q and k are each multiplied by ``sqrt(1 + ln s / ln L)``, at any length.

    Args:
        scale: s, context after the extension over L; used for the factor on q and k only.
        length: L, tokens, of training before the extension.
        short: ``(D/2,)`` divisors while no position of the row exceeds L - 1.
        long: ``(D/2,)`` divisors otherwise.
        attention_factor: replaces the root when given.
        use: "auto" chooses by the longest position of each row, which cannot be cached; "short"
            and "long" fix the choice.

    Reference: Ding and others, LongRoPE (2024); the code published with Phi-3.
    """

    short: Sequence[float] = ()
    long: Sequence[float] = ()
    attention_factor: float | None = None
    use: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("short", "long"):
            divisors = tuple(float(x) for x in getattr(self, name))
            object.__setattr__(self, name, divisors)
            if not divisors or not all(0 < x < math.inf for x in divisors):
                raise ValueError(f"{name} is {divisors}: one divisor > 0 for each pair is needed")
        if self.length is None or self.length < 2 or self.scale is None:
            raise ValueError(
                f"LongRoPE(scale={self.scale}, length={self.length}): pass both, the length >= 2"
            )
        if self.use not in LISTS:
            raise ValueError(f"use is {self.use!r}, known are {LISTS}")

    @property
    def dynamic(self) -> bool:
        return self.use == "auto"

    def factor(self, *positions: Tensor | None) -> float | Tensor:
        """T / L where the choice is by row; else 1 for the short list and 2 for the long one."""
        if self.use == "auto":
            return PI(length=self.length).factor(*positions)
        return 1.0 if self.use == "short" else 2.0

    def refusal(self, omega: Tensor, trained: bool) -> str | None:
        given = (len(self.short), len(self.long))
        if given == (len(omega), len(omega)):
            return None
        return f"short and long have {given} divisors, and {len(omega)} pairs turn"

    def frequencies(self, omega: Tensor, factor: float | Tensor, dim: int | None = None) -> Tensor:
        short, long = (
            omega / torch.tensor(x, dtype=omega.dtype, device=omega.device)
            for x in (self.short, self.long)
        )
        if isinstance(factor, Tensor):
            return torch.where(factor[..., None] > 1, long, short)
        return long if factor > 1 else short

    def temperature(self, factor: float | Tensor) -> float | Tensor:
        assert self.scale is not None and self.length is not None  # __post_init__ asks for them
        if self.attention_factor is not None:
            return float(self.attention_factor)
        return math.sqrt(1 + math.log(self.scale) / math.log(self.length))
