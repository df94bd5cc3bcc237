"""What is timed: tensors, kernels, and our own attention as contestants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..attention import attend, attend_plan
from ..kernels import Affine, ALiBi, JordanRoPE, NoPE, PJBias, PJInit, PositionKernel, RoPE, T5Bias
from .pairing import Contestant, Run, Skipped
from .settings import Settings

__all__ = ["KERNELS", "PLAIN", "Inputs", "make_kernel", "ours", "plain", "timed"]

Inputs = tuple[Tensor, Tensor, Tensor]
PLAIN = "plain causal, no bias"

# Amplitudes of a trained model's size: near the initial 0.02 a fold would look more precise.
LOUD = PJInit(zeta_scale=0.5)

KERNELS: dict[str, Callable[[Settings], PositionKernel]] = {
    "none": lambda s: NoPE(),
    "alibi": lambda s: ALiBi(s.heads),
    "affine": lambda s: Affine(s.heads, s.length),
    "fj_affine": lambda s: PJBias(s.heads, s.length, sectors=("fj", "affine"), init=LOUD),
    "full": lambda s: PJBias(s.heads, s.length, init=LOUD),
    "t5": lambda s: T5Bias(s.heads),
    "rope": lambda s: RoPE(s.head_dim),
    "jordan": lambda s: JordanRoPE(s.head_dim, s.heads, s.length, eta=0.1),
}


def make_kernel(name: str, settings: Settings) -> PositionKernel:
    """A kernel of :data:`KERNELS` for these heads, on the device."""
    return KERNELS[name](settings).to(settings.device)


def inputs(settings: Settings, n: int, *, train: bool) -> Inputs:
    """Normal q, k and v ``(B, H, n, D)``, the same at every call."""
    generator = torch.Generator().manual_seed(n)
    shape = (settings.batch, settings.heads, n, settings.head_dim)
    like = {"device": settings.device, "dtype": getattr(torch, settings.dtype)}
    q, k, v = (
        torch.randn(shape, generator=generator).to(**like).requires_grad_(train) for _ in range(3)
    )
    return q, k, v


def timed(forward: Callable[[], Tensor], wanted: list[Tensor]) -> Run:
    """The function to time: forward alone, or with the gradient of everything ``wanted``."""
    if not wanted:

        def run() -> Tensor:
            with torch.no_grad():
                return forward()

        return run
    upstream = torch.ones_like(forward()).detach()
    return lambda: torch.autograd.grad(forward(), wanted, upstream)


def plain(qkv: Inputs, *, train: bool) -> Contestant:
    """Causal attention that knows no positions: what a bias is to cost nothing beside."""
    q, k, v = qkv

    def prepare() -> Run:
        def forward() -> Tensor:
            return scaled_dot_product_attention(q, k, v, is_causal=True)

        return timed(forward, list(qkv) if train else [])

    return Contestant(PLAIN, prepare)


def ours(
    name: str, qkv: Inputs, settings: Settings, *, train: bool, backend: str = "auto"
) -> Contestant:
    """One of our kernels through ``attend``; a named backend that refuses the call is skipped."""
    kernel = make_kernel(name, settings)
    q, k, v = qkv
    with torch.set_grad_enabled(train):
        chosen = attend_plan(q, k, v, kernel).backend

    def prepare() -> Run:
        wanted = [*qkv, *kernel.parameters()] if train else []
        run = timed(lambda: attend(q, k, v, kernel, backend=backend), wanted)
        if backend == "auto":
            return run
        if backend == chosen:
            raise Skipped("auto takes it, see there")
        try:
            run()
        except ValueError as refusal:
            raise Skipped(str(refusal)) from refusal
        return run

    contestant = Contestant(name, prepare, backend)
    return replace(contestant, chosen=chosen) if backend == "auto" else contestant
