"""Context extensions: ways to stretch a frequency ladder past the training length.

A stretch is a frozen object that maps a ladder and a factor ``s`` to a new ladder. With
``scale=None`` the factor is dynamic: it follows T, the longest position seen plus one. Dynamic
factors are recomputed from the positions at every call and never stored, so a long prompt cannot
change a later short one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

_KINDS: dict[str, type[Extension]] = {}


@dataclass(frozen=True)
class Extension(ABC):
    """Base of the context extensions: a factor ``s``, fixed or dynamic, and what it does.

    Args:
        scale: s >= 1; None takes ``max(1, T / length)`` from the positions of each call.
        length: L, the training length in tokens; needed when scale is None.
    """

    scale: float | None = None
    length: int | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _KINDS[cls.__name__] = cls

    def __post_init__(self) -> None:
        if self.scale is None and self.length is None:
            raise ValueError(
                f"{type(self).__name__}() has neither scale nor length: pass scale=4.0 for a fixed "
                "factor or length=L for a dynamic one"
            )
        if self.scale is not None and not 1 <= self.scale < math.inf:
            raise ValueError(f"scale is {self.scale}, an extension needs a finite scale >= 1")
        if self.length is not None and not 1 <= self.length < math.inf:
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
        assert self.length is not None  # __post_init__ asks for one of the two
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
        """What rotated channels of q and of k are multiplied by (1 unless the method says so)."""
        return 1.0

    def refusal(self, omega: Tensor, trained: bool) -> str | None:
        """Why the extension cannot stretch a ladder; None where it can.

        Args:
            omega: ``(D/2,)`` ladder, radians per token.
            trained: the ladder is a parameter and will move.
        """
        return None

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
        return omega / by_row(factor)


@dataclass(frozen=True)
class NTK(Extension):
    """NTK-aware scaling: the base grows so that the slowest frequency is divided by s exactly.

    ``base' = base s^(D/(D-2))``, that is ``omega'_k = omega_k s^(-2k/(D-2))``: the fastest stays.
    The dynamic form changes earlier logits whenever the sequence grows, so it cannot be cached.

    Args:
        slope: of the dynamic factor, ``s = 1 + slope (T/L - 1)`` beyond L. Released models with the
            scaling type "dynamic" call it their factor.

    Reference: the NTK-aware scaled RoPE note (bloc97, 2023), as restated in the YaRN paper.
    """

    slope: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.slope < math.inf:
            raise ValueError(f"slope is {self.slope}, a finite number > 0 is needed (usual: 1)")

    def factor(self, *positions: Tensor | None) -> float | Tensor:
        factor = super().factor(*positions)
        return 1 + self.slope * (factor - 1) if self.dynamic else factor

    def frequencies(self, omega: Tensor, factor: float | Tensor, dim: int | None = None) -> Tensor:
        dim = 2 * omega.shape[-1] if dim is None else dim
        if dim < 4:
            raise ValueError(f"NTK scaling divides by D - 2, and D is {dim}: use PI or D >= 4")
        k = torch.arange(0, dim, 2, dtype=omega.dtype, device=omega.device)
        factor = torch.as_tensor(by_row(factor), device=omega.device).to(omega.dtype)
        return omega * factor ** (-k / (dim - 2))


def by_row(factor: float | Tensor) -> float | Tensor:
    """Factors with a last axis for the frequencies."""
    return factor[..., None] if isinstance(factor, Tensor) else factor


def extension_from_spec(spec: dict | None) -> Extension | None:
    """The extension that wrote ``spec``; None stays None.

    Raises:
        ValueError: a kind that is not known.

    Limits: a spec of YaRN without a ramp is of version 0.1, which had the ramp over turns only.
    """
    if spec is None:
        return None
    if spec.get("kind") not in _KINDS:
        raise ValueError(f"extension kind {spec.get('kind')!r}: known are {sorted(_KINDS)}")
    arguments = {k: v for k, v in spec.items() if k != "kind"}
    if spec["kind"] == "YaRN":
        arguments.setdefault("ramp", "turns")
    return _KINDS[spec["kind"]](**arguments)
