"""Characteristic roots: what a function of finite rank is made of, and how sums share them."""

from __future__ import annotations

import cmath
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ._values import check_count

SAME = 1e-12  # roots nearer than this, as numbers, are one root


@dataclass(frozen=True)
class Root:
    """A characteristic root z: the sequences ``d^r z^d`` for r below its multiplicity.

    At z = 0, where those vanish, the sequences that are 1 at one lag r below it and 0 elsewhere.

    Attributes:
        value: z, no unit; ``|z|`` is the decay and ``arg z`` the turn per token, radians.
        multiplicity: m >= 1.

    Raises:
        ValueError: a multiplicity that is no integer >= 1, or a z that is not finite.
    """

    value: complex
    multiplicity: int = 1

    def __post_init__(self) -> None:
        check_count("multiplicity", self.multiplicity)
        if not cmath.isfinite(self.value):
            raise ValueError(f"value is {self.value}, a root is one finite number")
        object.__setattr__(self, "value", complex(self.value))


def merge_roots(*lists: Iterable[Root]) -> list[Root]:
    """The roots of sums of functions: each root once, with the largest of its multiplicities.

    Jets at one root are nested, so a sum needs no more than its longest: the least common multiple
    of the polynomials, not their product.
    """
    found: list[Root] = []
    for root in (root for roots in lists for root in roots):
        near = [n for n, other in enumerate(found) if abs(other.value - root.value) <= SAME]
        if not near:
            found.append(root)
        elif root.multiplicity > found[near[0]].multiplicity:
            found[near[0]] = root
    return found


def turning_roots(omega: Iterable[float], decay: Iterable[float], order: int) -> list[Root]:
    """The pairs ``e^{-decay +- i omega}`` of real jets of ``order`` functions; one root where real.

    Args:
        omega: radians per token.
        decay: per token, as many.
        order: multiplicity of each root.
    """
    exponents = torch.tensor(
        [[complex(-c, w), complex(-c, -w)] for w, c in zip(omega, decay, strict=True)],
        dtype=torch.complex128,
        device="cpu",
    )
    return merge_roots(Root(z, order) for z in torch.exp(exponents).flatten().tolist())
