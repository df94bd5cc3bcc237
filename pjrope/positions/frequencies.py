"""Frequency ladders of rotations: RoPE's geometric one, and the same one cut short."""

from __future__ import annotations

import math

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
    if not 1 < base < math.inf:
        raise ValueError(
            f"base is {base}, a ladder of frequencies needs a finite base > 1 (usual: 10000)"
        )
    # Built on the CPU: under a meta-device context the ladder would otherwise carry no numbers.
    k = torch.arange(0, dim, 2, dtype=torch.float64, device="cpu")
    return torch.exp(-math.log(base) * k / dim)


def truncated(dim: int, base: float = 10_000.0, *, kept: int) -> Tensor:
    """The ladder of p-RoPE: the ``kept`` fastest frequencies of ``geometric(dim, base)``, then zeros.

    Args:
        dim: D, the number of channels, even.
        base: ratio of the whole ladder's ends, above 1.
        kept: pairs that turn, 0 to D/2.

    Returns:
        ``(D/2,)`` fp64, radians per token.

    Raises:
        ValueError: a number of pairs that the ladder does not have.

    Reference: Barbero and others, Round and round we go! (2024).
    """
    ladder = geometric(dim, base)
    if not 0 <= kept <= len(ladder):
        raise ValueError(f"kept is {kept}, {dim} channels have 0 to {len(ladder)} pairs to turn")
    ladder[kept:] = 0.0
    return ladder
