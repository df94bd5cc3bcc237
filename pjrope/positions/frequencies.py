"""Frequency ladders: RoPE's geometric one and three ways to stretch it past the training length.

A stretch is a frozen object (``NTK``, ``PI``, ``YaRN``) that maps a ladder and a factor ``s`` to a
new ladder. With ``scale=None`` the factor is dynamic: ``s = max(1, T / L)``, where T is the longest
position seen plus one. Dynamic factors are recomputed from the positions at every call and never
stored, so a long prompt cannot change a later short one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import ClassVar

import torch
from torch import Tensor


def geometric(dim: int, base: float = 10_000.0) -> Tensor:
    """RoPE's ladder ``omega_k = base^(-2k/D)``: dim 4, base 100 -> [1, 0.1].

    Args:
        dim: D, the number of rotated channels, even.
        base: ratio of the ladder's ends, above 1.

    Returns:
        ``(D/2,)`` fp64, radians per token.

    Raises:
        ValueError: odd dim, or a base that does not make a falling ladder.

    Reference: Su and others, RoFormer, section 3.3.
    """
    if dim < 2 or dim % 2:
        raise ValueError(f"dim is {dim}, rotations act on channel pairs: use an even number >= 2")
    if not base > 1:
        raise ValueError(f"base is {base}, a ladder of frequencies needs base > 1 (usual: 10000)")
    # Built on the CPU: under a meta-device context the ladder would otherwise carry no numbers.
    k = torch.arange(0, dim, 2, dtype=torch.float64, device="cpu")
    return torch.exp(-math.log(base) * k / dim)


@dataclass(frozen=True)
class Extension(ABC):
    """Base of the context extensions: a factor ``s``, fixed or dynamic, and what it does.

    Args:
        scale: s >= 1; None takes ``max(1, T / length)`` from the positions of each call.
        length: L, the training length in tokens; needed when scale is None.
    """

    scale: float | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        if self.scale is None and self.length is None:
            raise ValueError(
                f"{type(self).__name__}() has neither scale nor length: pass scale=4.0 for a fixed "
                "factor or length=L for a dynamic one"
            )
        if self.scale is not None and not self.scale >= 1:
            raise ValueError(f"scale is {self.scale}, an extension needs scale >= 1")
        if self.length is not None and not self.length >= 1:
            raise ValueError(f"length is {self.length}, the training length in tokens is needed")

    @property
    def dynamic(self) -> bool:
        """True if the factor follows the longest position of each call."""
        return self.scale is None

    def factor(self, *positions: Tensor | None) -> float | Tensor:
        """The factor s for a call that sees these positions.

        Args:
            positions: ``(n,)`` or ``(B, n)`` integers, all of one rank; None is passed over.

        Returns:
            a number; when dynamic a tensor, ``()`` or ``(B,)``: one factor per row, so that a short
            row does not depend on its neighbors in the batch.

        Limits: packed documents share the factor of the longest.
        """
        if self.scale is not None:
            return float(self.scale)
        longest = [p.amax(-1) for p in positions if p is not None]
        most = longest[0] if len(longest) == 1 else torch.maximum(*longest)
        return ((most + 1).to(torch.float32) / self.length).clamp(min=1.0)

    @abstractmethod
    def frequencies(self, omega: Tensor, factor: float | Tensor, dim: int | None = None) -> Tensor:
        """The stretched ladder.

        Args:
            omega: ``(D/2,)`` ladder, radians per token.
            factor: s, a number or a tensor ``()`` or ``(B,)``.
            dim: D, default ``2 * len(omega)``.

        Returns:
            ``(D/2,)`` radians per token, or ``(B, D/2)`` for factors by row.
        """

    def temperature(self, factor: float | Tensor) -> float | Tensor:
        """What q and k are each multiplied by (1 unless the method changes the logit scale)."""
        return 1.0

    @property
    def spec(self) -> dict:
        """JSON form, undone by :func:`extension_from_spec`."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class PI(Extension):
    """Position interpolation: every frequency divided by s.

    Reference: Chen and others, Extending context window of large language models via positional
    interpolation (2023).
    """

    def frequencies(self, omega: Tensor, factor: float | Tensor, dim: int | None = None) -> Tensor:
        return omega / _by_row(factor)


@dataclass(frozen=True)
class NTK(Extension):
    """NTK-aware scaling: the base grows so that the slowest frequency is divided by s exactly.

    ``base' = base s^(D/(D-2))``, that is ``omega'_k = omega_k s^(-2k/(D-2))``: the fastest stays.
    The dynamic form changes earlier logits whenever the sequence grows, so it cannot be cached.

    Reference: the NTK-aware scaled RoPE note (bloc97, 2023), as restated in the YaRN paper.
    """

    def frequencies(self, omega: Tensor, factor: float | Tensor, dim: int | None = None) -> Tensor:
        dim = 2 * omega.shape[-1] if dim is None else dim
        if dim < 4:
            raise ValueError(f"NTK scaling divides by D - 2, and D is {dim}: use PI or D >= 4")
        k = torch.arange(0, dim, 2, dtype=omega.dtype, device=omega.device)
        factor = torch.as_tensor(_by_row(factor), device=omega.device).to(omega.dtype)
        return omega * factor ** (-k / (dim - 2))


@dataclass(frozen=True)
class YaRN(Extension):
    """YaRN: slow frequencies interpolated, fast ones kept, logits sharpened.

    A frequency makes ``turns = L omega / 2 pi`` turns in training. Above 32 turns it is kept, below
    1 it is divided by s, in between the two are mixed linearly in turns. q and k are each
    multiplied by ``1 + 0.1 ln s``, once.

    Args:
        length: L is needed for the turns even when the scale is fixed.
        attention_factor: replaces ``1 + 0.1 ln s`` when given, 1.0 included.

    Reference: Peng and others, YaRN (2023), equations 17-22.
    """

    attention_factor: float | None = None
    TURNS: ClassVar[tuple[float, float]] = (1.0, 32.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length is None:
            raise ValueError(
                "YaRN(length=None): pass the training length, the ramp counts turns in it"
            )

    def keep(self, omega: Tensor) -> Tensor:
        """Share of each frequency that stays: ``(D/2,)`` in [0, 1]."""
        low, high = self.TURNS
        return ((self.length * omega / (2 * math.pi) - low) / (high - low)).clamp(0, 1)

    def frequencies(self, omega: Tensor, factor: float | Tensor, dim: int | None = None) -> Tensor:
        keep = self.keep(omega)
        return omega * keep + omega / _by_row(factor) * (1 - keep)

    def temperature(self, factor: float | Tensor) -> float | Tensor:
        if self.attention_factor is not None:
            return float(self.attention_factor)
        if isinstance(factor, Tensor):
            return 1 + 0.1 * torch.log(factor)
        return 1 + 0.1 * math.log(factor)


def _by_row(factor: float | Tensor) -> float | Tensor:
    """Factors with a last axis for the frequencies."""
    return factor[..., None] if isinstance(factor, Tensor) else factor


def extension_from_spec(spec: dict | None) -> Extension | None:
    """The extension that wrote ``spec``; None stays None.

    Raises:
        ValueError: a kind that is not one of NTK, PI, YaRN.
    """
    if spec is None:
        return None
    kinds = {cls.__name__: cls for cls in (PI, NTK, YaRN)}
    if spec.get("kind") not in kinds:
        raise ValueError(f"extension kind {spec.get('kind')!r}: known are {sorted(kinds)}")
    return kinds[spec["kind"]](**{k: v for k, v in spec.items() if k != "kind"})
