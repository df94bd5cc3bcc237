"""The position methods that the trained Jordan experiments compare, each with one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...kernels import ALiBi, JordanRoPE, NoPE, PositionKernel, RoPE, direct_sum_grid
from ...kernels.jordan_action import JordanAction
from ...positions.frequencies import geometric

BASE = 10_000.0

Maker = Callable[[int, int, int], PositionKernel]


@dataclass(frozen=True)
class Method:
    """A position method.

    Attributes:
        about: what it is, in one sentence.
        make: (head_dim, heads, length) → kernel.
    """

    about: str
    make: Maker


def respread(head_dim: int) -> Tensor:
    """D/4 frequencies, as many as an order-2 Jordan kernel has, spread over RoPE's whole range.

    Returns:
        ``(D/2,)`` fp64 radians per token, ``base^(-b/n)`` twice for each b < n = D/4.
    """
    return geometric(head_dim // 2, BASE).repeat_interleave(2)


def _jordan(**options: Any) -> Maker:
    return lambda d, h, n: JordanRoPE(d, h, n, **options)


METHODS: dict[str, Method] = {
    "none": Method("No position but the causal mask.", lambda d, h, n: NoPE()),
    "rope": Method("RoPE with its whole ladder of D/2 frequencies.", lambda d, h, n: RoPE(d)),
    "rope_trunc": Method(
        "RoPE with the first D/4 frequencies, each twice: the ladder of an order-2 Jordan kernel "
        "without damping and shear.",
        _jordan(gamma=0, eta=0),
    ),
    "rope_respread": Method(
        "RoPE with D/4 frequencies, each twice, spread over the whole range of RoPE's ladder.",
        lambda d, h, n: RoPE(d, omega=respread(d)),
    ),
    "alibi": Method("ALiBi: a fixed penalty per token of distance.", lambda d, h, n: ALiBi(h)),
    "rope_alibi": Method("RoPE and ALiBi together.", lambda d, h, n: RoPE(d) + ALiBi(h)),
    "damped": Method(
        "The truncated ladder with a damping that starts at 1e-4 per token, and no shear: the "
        "stabilized kernel with its shear held at 0.",
        _jordan(form="stabilized", eta=0),
    ),
    "damped_c1": Method(
        "The truncated ladder with a damping that starts at e^(-d/L), and no shear: the scaled "
        "kernel with its shear held at 0.",
        _jordan(form="scaled", eta=0),
    ),
    "direct_sum": Method(
        "Half the channels RoPE on every second frequency, half a real Jordan block: phase and "
        "distance side by side, not coupled.",
        lambda d, h, n: direct_sum_grid(d, h, n, half_ladder=True),
    ),
    "direct_sum_grid": Method(
        "The direct sum with the first D/4 frequencies of RoPE's own ladder.",
        lambda d, h, n: direct_sum_grid(d, h, n),
    ),
    "stabilized": Method(
        "Jordan blocks of order 2 with a shear that saturates in the absolute position; not "
        "relative.",
        _jordan(form="stabilized"),
    ),
    "stabilized_fast": Method(
        "The stabilized kernel with position parameters that learn ten times as fast.",
        _jordan(form="stabilized"),
    ),
    "stabilized_no_gamma": Method(
        "The stabilized kernel without damping.", _jordan(form="stabilized", gamma=0)
    ),
    "exact": Method(
        "Jordan blocks of order 2 with a shear that grows with every token of the lag.",
        _jordan(form="exact"),
    ),
    "scaled": Method(
        "The exact kernel in units of L, with a damping that starts at e^(-d/L); an equal step on "
        "its shear counts L times less, so that it stays near 0.",
        _jordan(form="scaled"),
    ),
    "lag": Method(
        "The stabilized kernel with a shear that saturates in the lag: relative.",
        _jordan(form="lag"),
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


def kernel_of(name: str, settings: Mapping[str, Any]) -> PositionKernel:
    """The kernel of a method for the ``width heads length`` of an experiment's settings."""
    heads = settings["heads"]
    return make_kernel(name, settings["width"] // heads, heads, settings["length"])


@torch.no_grad()
def learned(kernels: Sequence[nn.Module], length: int) -> dict[str, float]:
    """What became of shear and damping, as means over layers, heads and blocks.

    Args:
        kernels: the position kernel of each layer.
        length: L, tokens.

    Returns:
        ``shear``, mean of ``|eta| t`` between tokens 0 and L, and ``damping``, mean of ``gamma L``;
        0 where a kernel has none.
    """
    parts = [p for kernel in kernels for p in kernel.modules() if isinstance(p, JordanAction)]
    # Between tokens 0 and L a bounded shear reaches tau(L) = L/2.
    end = torch.tensor(length)
    shear = [
        float(p.eta.abs().mean()) * float(p.shear.time(end)) for p in parts if p.eta is not None
    ]
    damping = [float(p.gamma.mean()) * p.per_token * length for p in parts if p.gamma is not None]
    return {
        "shear": sum(shear) / len(shear) if shear else 0.0,
        "damping": sum(damping) / len(damping) if damping else 0.0,
    }
