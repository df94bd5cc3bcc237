"""The position methods that the trained Jordan experiments compare, each with one sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernels import (
    ALiBi,
    JordanRoPE,
    NoPE,
    PositionKernel,
    RoPE,
    direct_sum,
)
from ..positions.frequencies import geometric

BASE = 10_000.0


@dataclass(frozen=True)
class Method:
    """A position method.

    Attributes:
        about: what it is, in one sentence.
        make: (head_dim, heads, length) → kernel.
    """

    about: str
    make: Callable[[int, int, int], PositionKernel]


def truncated(head_dim: int) -> Tensor:
    """The first quarter of RoPE's ladder by channels, each frequency for two channel pairs.

    Args:
        head_dim: D, divisible by 4.

    Returns:
        ``(D/2,)`` fp64 radians per token: w_0, w_0, w_1, w_1, … w_(D/4 - 1), w_(D/4 - 1).
    """
    return geometric(head_dim, BASE)[: head_dim // 4].repeat_interleave(2)


def respread(head_dim: int) -> Tensor:
    """As many frequencies as :func:`truncated`, spread over RoPE's whole range.

    Returns:
        ``(D/2,)`` fp64 radians per token, ``base^(-b/n)`` twice for each b < n = D/4.
    """
    return geometric(head_dim // 2, BASE).repeat_interleave(2)


def _real_jordan(head_dim: int, heads: int, length: int) -> JordanRoPE:
    zeros = torch.zeros(head_dim // 4, dtype=torch.float64)
    return JordanRoPE(head_dim, heads, length, form="stabilized", omega=zeros)


def _direct_sum(head_dim: int, heads: int, length: int, omega: Tensor | None) -> PositionKernel:
    half = head_dim // 2
    return direct_sum(RoPE(half, omega=omega), _real_jordan(half, heads, length))


METHODS: dict[str, Method] = {
    "none": Method(
        "No position but the causal mask.",
        lambda d, h, n: NoPE(),
    ),
    "rope": Method(
        "RoPE with its whole ladder of D/2 frequencies.",
        lambda d, h, n: RoPE(d),
    ),
    "rope_trunc": Method(
        "RoPE with the first D/4 frequencies, each twice: the ladder of an order-2 Jordan kernel "
        "without damping and shear.",
        lambda d, h, n: RoPE(d, omega=truncated(d)),
    ),
    "rope_respread": Method(
        "RoPE with D/4 frequencies, each twice, spread over the whole range of RoPE's ladder.",
        lambda d, h, n: RoPE(d, omega=respread(d)),
    ),
    "alibi": Method(
        "ALiBi: a fixed penalty per token of distance.",
        lambda d, h, n: ALiBi(h),
    ),
    "rope_alibi": Method(
        "RoPE and ALiBi together.",
        lambda d, h, n: RoPE(d) + ALiBi(h),
    ),
    "damped": Method(
        "The truncated ladder with a damping that starts at 1e-4 per token, and no shear: the "
        "stabilized kernel with its shear held at 0.",
        lambda d, h, n: JordanRoPE(d, h, n, form="stabilized", eta=0),
    ),
    "damped_c1": Method(
        "The truncated ladder with a damping that starts at e^(-d/L), and no shear: the scaled "
        "kernel with its shear held at 0.",
        lambda d, h, n: JordanRoPE(d, h, n, form="scaled", eta=0),
    ),
    "direct_sum": Method(
        "Half the channels RoPE on every second frequency, half a real Jordan block: phase and "
        "distance side by side, not coupled.",
        lambda d, h, n: _direct_sum(d, h, n, None),
    ),
    "direct_sum_grid": Method(
        "The direct sum with the first D/4 frequencies of RoPE's own ladder.",
        lambda d, h, n: _direct_sum(d, h, n, geometric(d, BASE)[: d // 4]),
    ),
    "stabilized": Method(
        "Jordan blocks of order 2 with a shear that saturates in the absolute position; not "
        "relative.",
        lambda d, h, n: JordanRoPE(d, h, n, form="stabilized"),
    ),
    "stabilized_no_gamma": Method(
        "The stabilized kernel without damping.",
        lambda d, h, n: JordanRoPE(d, h, n, form="stabilized", gamma=0),
    ),
    "exact": Method(
        "Jordan blocks of order 2 with a shear that grows with every token of the lag.",
        lambda d, h, n: JordanRoPE(d, h, n, form="exact"),
    ),
    "scaled": Method(
        "The exact kernel in units of L, with a damping that starts at e^(-d/L).",
        lambda d, h, n: JordanRoPE(d, h, n, form="scaled"),
    ),
    "lag": Method(
        "The stabilized kernel with a shear that saturates in the lag: relative.",
        lambda d, h, n: JordanRoPE(d, h, n, form="lag"),
    ),
}


def make_kernel(name: str, head_dim: int, heads: int, length: int) -> PositionKernel:
    """The kernel of a method.

    Args:
        name: one of ``METHODS``.
        head_dim: D, divisible by 8 for the direct sums and by 4 for the other Jordan methods.
        heads: H.
        length: L, training length in tokens.

    Raises:
        ValueError: an unknown name.
    """
    if name not in METHODS:
        raise ValueError(f"method {name!r}: there are {', '.join(METHODS)}")
    return METHODS[name].make(head_dim, heads, length)
