"""Composition: sums of kernels and direct sums of their channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from ..conventions import wide
from ._values import added, common, joined
from .base import Claims, K, PositionKernel, Q, kernel_from_spec
from .characteristic import Root, merge_roots
from .growth import Growth, anywhere, of_parts

if TYPE_CHECKING:

    class _Parts(nn.ModuleList):
        def __iter__(self) -> Iterator[PositionKernel]: ...

else:
    _Parts = nn.ModuleList


class Composite(PositionKernel, register=False):
    """A kernel made of parts; the spec holds theirs."""

    def __init__(self, parts: Sequence[PositionKernel], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.parts = _Parts(parts)

    @property
    def spec(self) -> dict[str, Any]:
        return {"kernel": type(self).__name__, "parts": [part.spec for part in self.parts]}

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> Composite:
        if set(arguments) != {"parts"} or not arguments["parts"]:
            raise ValueError(f"a {cls.__name__} is made of parts, its spec has {sorted(arguments)}")
        build = cast(Callable[..., Composite], cls)
        return build(*(kernel_from_spec(spec) for spec in arguments["parts"]))

    @property
    def claims(self) -> Claims:
        claims = Claims()
        for part in self.parts:
            claims = claims & part.claims
        return claims

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
        return common("heads", [part.bias_heads for part in self.parts])

    @property
    def rotary_heads(self) -> int | None:
        return common("key heads", [part.rotary_heads for part in self.parts])

    @property
    def growth(self) -> Growth:
        free = all(part.any_origin for part in self.parts if part.rotates)
        return of_parts([part.growth for part in self.parts], anywhere if free else self._reach)

    def _reach(self, number: torch.dtype) -> float:
        return min([part.reach(number) for part in self.parts if part.rotates], default=math.inf)

    def unknown_growth(self) -> list[str]:
        return [name for part in self.parts for name in part.unknown_growth()]

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for part in self.parts:
            part.reset_parameters(generator)

    def lag_bias(self, lags: Tensor) -> Tensor | None:
        found = [part.lag_bias(lags) for part in self.parts if part.biases]
        return added([bias for bias in found if bias is not None]) if found else None

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor] | None:
        if not self.folds:
            return None
        sides = [s for p in self.parts if p.biases and (s := p.fold(q_pos, k_pos)) is not None]
        q_sides, k_sides = zip(*sides, strict=True)
        return torch.cat(q_sides, dim=-1), torch.cat(k_sides, dim=-1)

    def roots(self) -> list[list[Root]] | None:
        found = [rows for part in self.parts if (rows := part.roots()) is not None]
        if len(found) < len(self.parts):
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
        return common("head_dim", [part.head_dim for part in self.parts])

    def rotate(
        self,
        q: Q,
        k: K,
        q_pos: Tensor | None = None,
        k_pos: Tensor | None = None,
    ) -> tuple[Q, K]:
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
        return sum(part.head_dim or 0 for part in self.parts)

    def rotate(
        self,
        q: Q,
        k: K,
        q_pos: Tensor | None = None,
        k_pos: Tensor | None = None,
    ) -> tuple[Q, K]:
        none = [None] * len(self.parts)
        q_parts = none if q is None else self._split(q)
        k_parts = none if k is None else self._split(k)
        self._check_reach(q, k, q_pos, k_pos)
        turned = [
            part.rotate(own_q, own_k, q_pos, k_pos)
            for part, own_q, own_k in zip(self.parts, q_parts, k_parts, strict=True)
        ]
        return (
            None if q is None else joined([own_q for own_q, _ in turned]),
            None if k is None else joined([own_k for _, own_k in turned]),
        )

    def of_key_heads(self, heads: slice) -> PositionKernel:
        return DirectSum(*(part.of_key_heads(heads) for part in self.parts))

    def _check_reach(self, *call: Tensor | None) -> None:
        if self.claims.relative or torch.compiler.is_compiling():
            return
        q, k, q_pos, k_pos = call
        grows = [part for part in self.parts if part.claims.relative and not part.any_origin]
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

    def _split(self, x: Tensor) -> tuple[Tensor, ...]:
        if x.shape[-1] != self.head_dim:
            raise ValueError(
                f"{x.shape[-1]} channels, this direct sum was made for {self.head_dim}"
            )
        return x.split([part.head_dim or 0 for part in self.parts], dim=-1)


def direct_sum(*parts: PositionKernel) -> DirectSum:
    """Kernels side by side on the channels of one head: ``direct_sum(RoPE(16), RoPE(16))``.

    Args:
        parts: kernels with a ``head_dim``; the head has their sum.

    Returns:
        a :class:`DirectSum`.
    """
    return DirectSum(*parts)
