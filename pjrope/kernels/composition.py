"""Composition: sums of kernels and direct sums of their channels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..conventions import wide
from .base import Claims, PositionKernel, kernel_from_spec
from .characteristic import Root, merge_roots


def _common(name: str, values: list[int | None]) -> int | None:
    """The one number that all parts with an opinion share, else a ValueError."""
    wanted = {v for v in values if v is not None}
    if len(wanted) > 1:
        raise ValueError(f"parts disagree on {name}: {sorted(wanted)}; build them with the same")
    return wanted.pop() if wanted else None


class Composite(PositionKernel, register=False):
    """A kernel made of parts; the spec holds theirs."""

    def __init__(self, parts: list[PositionKernel], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.parts = nn.ModuleList(parts)

    @property
    def spec(self) -> dict[str, Any]:
        return {"kernel": type(self).__name__, "parts": [part.spec for part in self.parts]}

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> Composite:
        if set(arguments) != {"parts"} or not arguments["parts"]:
            raise ValueError(f"a {cls.__name__} is made of parts, its spec has {sorted(arguments)}")
        return cls(*(kernel_from_spec(spec) for spec in arguments["parts"]))

    @property
    def claims(self) -> Claims:
        claims = Claims()
        for part in self.parts:
            claims = claims & part.claims
        return claims

    @property
    def in_range(self) -> bool:
        return all(part.stays_in_range for part in self.parts if part.rotates)

    @property
    def rotates(self) -> bool:
        return any(part.rotates for part in self.parts)

    @property
    def biases(self) -> bool:
        return any(part.biases for part in self.parts)

    @property
    def folds(self) -> bool:
        biased = [part for part in self.parts if part.biases]
        return bool(biased) and all(part.folds for part in biased)

    @property
    def scored(self) -> bool:
        return any(part.scored for part in self.parts)

    @property
    def bias_heads(self) -> int | None:
        return _common("heads", [part.bias_heads for part in self.parts])

    @property
    def rotary_heads(self) -> int | None:
        return _common("key heads", [part.rotary_heads for part in self.parts])

    def reach(self, number: torch.dtype) -> float:
        return min((part.reach(number) for part in self.parts if part.rotates), default=math.inf)

    @property
    def degree(self) -> int:
        return max(part.degree for part in self.parts)

    @property
    def steepness(self) -> float:
        return max(part.steepness for part in self.parts)

    def largest(self, distance: float) -> float:
        return sum(part.largest(distance) for part in self.parts)

    def overflow_at(self, number: torch.dtype) -> int | None:
        # A part may know more than its size, such as where its own checks refuse a position.
        own = [part.overflow_at(number) for part in self.parts]
        first = [at for at in (super().overflow_at(number), *own) if at is not None]
        return min(first, default=None)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for part in self.parts:
            part.reset_parameters(generator)

    def lag_bias(self, lags: Tensor) -> Tensor | None:
        found = [part.lag_bias(lags) for part in self.parts if part.biases]
        return sum(found) if found else None

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor] | None:
        if not self.folds:
            return None
        sides = [part.fold(q_pos, k_pos) for part in self.parts if part.biases]
        return tuple(torch.cat(side, dim=-1) for side in zip(*sides, strict=True))

    def roots(self) -> list[list[Root]] | None:
        found = [part.roots() for part in self.parts]
        if any(rows is None for rows in found):
            return None
        heads = max(len(rows) for rows in found)  # a key head serves a group of query heads
        return [
            merge_roots(*(rows[head * len(rows) // heads] for rows in found))
            for head in range(heads)
        ]


class Sum(Composite):
    """``a + b``: biases add, and at most one part acts on the channels. Sums are flat.

    Raises:
        ValueError: two parts that act on channels, or parts for different numbers of heads.
    """

    def __init__(self, *parts: PositionKernel) -> None:
        flat = [p for part in parts for p in (part.parts if isinstance(part, Sum) else [part])]
        acting = [type(part).__name__ for part in flat if part.rotates]
        if len(acting) > 1:
            raise ValueError(
                f"{' and '.join(acting)} both act on the channels, a sum has room for one: give "
                "each its own channels with direct_sum(a, b)"
            )
        super().__init__(flat)
        _ = self.bias_heads, self.rotary_heads  # disagreement is an error at construction

    @property
    def head_dim(self) -> int | None:
        return _common("head_dim", [part.head_dim for part in self.parts])

    def rotate(
        self,
        q: Tensor | None,
        k: Tensor | None,
        q_pos: Tensor | None = None,
        k_pos: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        for part in self.parts:
            if part.rotates:
                return part.rotate(q, k, q_pos, k_pos)
        return q, k

    def of_key_heads(self, heads: slice) -> PositionKernel:
        acting = [part for part in self.parts if part.rotates]
        return acting[0].of_key_heads(heads) if acting else self

    def scores(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        found = [s for p in self.parts if (s := p.scores(q, k, q_pos, k_pos)) is not None]
        if len(found) > 1:
            raise ValueError("two parts define whole scores, a sum has room for one")
        return found[0] if found else None


class DirectSum(Composite):
    """Two kernels side by side on the channels of one head; their biases add.

    The first acts on the first ``a.head_dim`` channels, the second on the rest.

    Raises:
        ValueError: a part that does not say how many channels it wants; ``rotate`` at positions
            that a relative part does not reach, beside a part that is not relative.

    Limits: beside a part that is not relative, positions are absolute for all: a part that grows
    with them, such as a scaled Jordan kernel, is then bound to its reach.
    """

    def __init__(self, *parts: PositionKernel) -> None:
        if len(parts) < 2:
            raise ValueError(f"a direct sum of {len(parts)} kernels: at least two are needed")
        for part in parts:
            if part.head_dim is None:
                raise ValueError(
                    f"{type(part).__name__} has no head_dim, a direct sum splits channels: add "
                    "biases with a + b"
                )
        super().__init__(list(parts))
        _ = self.bias_heads, self.rotary_heads

    @property
    def head_dim(self) -> int:
        return sum(part.head_dim for part in self.parts)

    def rotate(
        self,
        q: Tensor | None,
        k: Tensor | None,
        q_pos: Tensor | None = None,
        k_pos: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        sizes = [part.head_dim for part in self.parts]
        sides: tuple[list[Tensor], list[Tensor]] = ([], [])
        split = [[None] * len(sizes) if x is None else self._split(x, sizes) for x in (q, k)]
        self._check_reach(q, k, q_pos, k_pos)
        for part, q_part, k_part in zip(self.parts, *split, strict=True):
            for side, turned in zip(sides, part.rotate(q_part, k_part, q_pos, k_pos), strict=True):
                side.append(turned)
        return tuple(
            None if x is None else torch.cat(_widest(side), dim=-1)
            for x, side in zip((q, k), sides, strict=True)
        )

    def of_key_heads(self, heads: slice) -> PositionKernel:
        return DirectSum(*(part.of_key_heads(heads) for part in self.parts))

    def _check_reach(self, *call: Tensor | None) -> None:
        if self.claims.relative or torch.compiler.is_compiling():
            return
        q, k, q_pos, k_pos = call
        grows = [part for part in self.parts if part.claims.relative and not part.stays_in_range]
        for part in grows:
            for x, pos in ((q, q_pos), (k, k_pos)):
                if x is not None and pos is not None and pos.numel():
                    furthest, reach = int(pos.abs().max()), part.reach(wide(x))
                    if furthest > reach:
                        raise ValueError(
                            f"position {furthest} beside a part that is not relative, and "
                            f"{type(part).__name__} reaches {int(reach)}: use relative parts, whose "
                            "origin attend() can move, or less damping and shear"
                        )

    @staticmethod
    def _split(x: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
        if x.shape[-1] != sum(sizes):
            raise ValueError(f"{x.shape[-1]} channels, this direct sum was made for {sum(sizes)}")
        return x.split(sizes, dim=-1)


def _widest(tensors: list[Tensor]) -> list[Tensor]:
    """Parts in one dtype, the widest: a part that needs fp32 products keeps them."""
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]


def direct_sum(*parts: PositionKernel) -> DirectSum:
    """Kernels side by side on the channels of one head: ``direct_sum(RoPE(16), RoPE(16))``.

    Args:
        parts: kernels with a ``head_dim``; the head has their sum.

    Returns:
        a :class:`DirectSum`.
    """
    return DirectSum(*parts)
