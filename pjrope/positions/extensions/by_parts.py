"""Extensions by parts: fast frequencies stay, slow ones are interpolated, a ramp lies between."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .base import Extension, by_row

RAMPS = ("channels", "turns")


@dataclass(frozen=True)
class YaRN(Extension):
    """YaRN: slow frequencies interpolated, fast ones kept, logits sharpened.

    A frequency makes ``turns = L omega / 2 pi`` turns in training. Above ``beta_fast`` turns it is
    kept, below ``beta_slow`` it is divided by s. In between the two are mixed: linearly in the
    number of the channel pair (``ramp="channels"``, the published code and every released model),
    or linearly in turns (``ramp="turns"``, the text of the paper). Rotated channels of q and k are
    each multiplied by ``1 + 0.1 ln s``, once.

    Args:
        length: L is needed for the turns even when the scale is fixed.
        attention_factor: replaces ``1 + 0.1 ln s`` when given, 1.0 included.
        ramp: "channels" or "turns".
        beta_fast: turns from which a frequency is kept.
        beta_slow: turns up to which it is divided by s.
        truncate: round the ends of the ramp over channels outwards to whole pairs.
        mscale, mscale_all_dim: where both are given the factor is the ratio of
            ``1 + 0.1 mscale ln s`` and ``1 + 0.1 mscale_all_dim ln s``.

    Limits: ``ramp="channels"`` needs a geometric ladder that does not train.

    Reference: Peng and others, YaRN (2023), equations 17-22, and the code published with it.
    """

    attention_factor: float | None = None
    ramp: str = "channels"
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length is None:
            raise ValueError(
                "YaRN(length=None): pass the training length, the ramp counts turns in it"
            )
        if self.ramp not in RAMPS:
            raise ValueError(f"ramp is {self.ramp!r}, known are {RAMPS}")
        if not 0 < self.beta_slow <= self.beta_fast < math.inf:
            raise ValueError(
                f"beta_slow is {self.beta_slow} and beta_fast {self.beta_fast}: turns must be "
                "positive and beta_slow at most beta_fast (usual: 1 and 32)"
            )
        if (self.mscale is None) != (self.mscale_all_dim is None):
            raise ValueError(
                f"mscale is {self.mscale} and mscale_all_dim {self.mscale_all_dim}: give both, or "
                "attention_factor"
            )

    def refusal(self, omega: Tensor, trained: bool) -> str | None:
        if self.ramp == "turns":
            return None
        logs = omega.detach().double().cpu().log()
        even = False
        if not trained and len(logs) > 1 and bool(logs.isfinite().all()):
            even = bool((logs.diff() - logs.diff().mean()).abs().max() < 1e-5)
        if even:
            return None
        return (
            "YaRN's ramp over channels needs a fixed geometric ladder of two pairs or more: "
            'use ramp="turns" for another one'
        )

    def keep(self, omega: Tensor) -> Tensor:
        """Share of each frequency that stays: ``(D/2,)`` in [0, 1]."""
        assert self.length is not None  # __post_init__ asks for it
        if self.ramp == "turns":
            return _turn_ramp(omega, self.length, self.beta_slow, self.beta_fast)
        pairs = omega.shape[-1]
        step = (omega[..., 0] / omega[..., -1]).log() / (pairs - 1)
        low, high = (
            (omega[..., 0] * self.length / (2 * math.pi * turns)).log() / step
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            low, high = low.floor(), high.ceil()
        # The published code clamps the far end by the number of channels, not of pairs.
        low, high = low.clamp(min=0), high.clamp(max=2 * pairs - 1)
        width = torch.where(high == low, 0.001, high - low)
        pair = torch.arange(pairs, dtype=omega.dtype, device=omega.device)
        return 1 - ((pair - low) / width).clamp(0, 1)

    def frequencies(self, omega: Tensor, factor: float | Tensor, dim: int | None = None) -> Tensor:
        keep = self.keep(omega)
        return omega * keep + omega / by_row(factor) * (1 - keep)

    def temperature(self, factor: float | Tensor) -> float | Tensor:
        if self.attention_factor is not None:
            return float(self.attention_factor)
        log = torch.log(factor) if isinstance(factor, Tensor) else math.log(factor)
        if self.mscale is not None and self.mscale_all_dim is not None:
            return (1 + 0.1 * self.mscale * log) / (1 + 0.1 * self.mscale_all_dim * log)
        return 1 + 0.1 * log


@dataclass(frozen=True)
class Llama3(Extension):
    """The stretch of Llama 3.1: YaRN's ramp in turns with other ends and no change of the logits.

    Args:
        length: L, tokens, of training before the extension.
        low_freq_factor: turns up to which a frequency is divided by s.
        high_freq_factor: turns from which it is kept.

    Reference: the rotary code published with Llama 3.1 (2024).
    """

    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length is None or self.scale is None:
            raise ValueError(
                f"Llama3(scale={self.scale}, length={self.length}): pass both, as "
                "Llama3(8.0, 8192) for Llama 3.1"
            )
        if not 0 < self.low_freq_factor <= self.high_freq_factor < math.inf:
            raise ValueError(
                f"low_freq_factor is {self.low_freq_factor} and high_freq_factor "
                f"{self.high_freq_factor}: turns must be positive and rising (usual: 1 and 4)"
            )

    def frequencies(self, omega: Tensor, factor: float | Tensor, dim: int | None = None) -> Tensor:
        assert self.length is not None  # __post_init__ asks for it
        keep = _turn_ramp(omega, self.length, self.low_freq_factor, self.high_freq_factor)
        return omega * keep + omega / by_row(factor) * (1 - keep)


def _turn_ramp(omega: Tensor, length: float, low: float, high: float) -> Tensor:
    """0 below ``low`` turns in ``length`` tokens, 1 above ``high``, linear in between."""
    turns = length * omega / (2 * math.pi)
    if high == low:
        return (turns >= low).to(omega.dtype)
    return ((turns - low) / (high - low)).clamp(0, 1)
