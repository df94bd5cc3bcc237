"""Sections forward, backward and rotate: single calls on normal tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from .cases import inputs, make_kernel, ours, plain
from .pairing import Contestant, Run, rows_of
from .peers import attention_peers, flex_plain, imported
from .settings import Settings
from .targets import ROTARY

__all__ = ["backward", "forward", "rotate"]

NAMED = (("fj_affine", "toeplitz"), ("fj_affine", "fold"))


def forward(settings: Settings) -> Iterator[dict[str, Any]]:
    """Rows of attention without gradients, against plain causal attention."""
    yield from _attention("forward", settings, train=False)


def backward(settings: Settings) -> Iterator[dict[str, Any]]:
    """Rows of forward and backward, against plain causal attention."""
    yield from _attention("backward", settings, train=True)


def _attention(section: str, settings: Settings, *, train: bool) -> Iterator[dict[str, Any]]:
    if settings.other_dims:
        for dim in (settings.head_dim, *settings.other_dims):
            one = replace(settings, head_dim=dim, other_dims=())
            for row in _attention(section, one, train=train):
                yield {**row, "passes": f"{dim} channels"}
        return
    for n in settings.lengths:
        qkv = inputs(settings, n, train=train)
        contestants = [ours(name, qkv, settings, train=train) for name in settings.kernels]
        contestants += [
            ours(name, qkv, settings, train=train, backend=backend) for name, backend in NAMED
        ]
        contestants += attention_peers(qkv, settings, train=train)
        reference = plain(qkv, train=train)
        if settings.device == "cuda":
            contestants.append(flex_plain(qkv, settings, train=train))
        yield from rows_of(section, reference, contestants, settings, n=n, batch=settings.batch)


def rotate(settings: Settings) -> Iterator[dict[str, Any]]:
    """Rows of rotary kernels on queries and keys, against rotary-embedding-torch."""
    kernels = {name: make_kernel(name, settings) for name in ROTARY if name in settings.kernels}
    for n in settings.lengths:
        q, k, _ = inputs(settings, n, train=False)
        pos = torch.arange(n, device=settings.device)

        def peer(q: torch.Tensor = q, k: torch.Tensor = k) -> Run:
            package = imported("rotary-embedding-torch")
            rotary = package.RotaryEmbedding(settings.head_dim).to(settings.device)
            turn = rotary.rotate_queries_or_keys
            return torch.no_grad()(lambda: (turn(q), turn(k)))

        def ours_alone(
            name: str, q: torch.Tensor, k: torch.Tensor, pos: torch.Tensor
        ) -> Contestant:
            turn = kernels[name].rotate
            return Contestant(name, lambda: torch.no_grad()(lambda: turn(q, k, pos, pos)))

        reference = Contestant("rotary-embedding-torch", peer)
        contestants = [ours_alone(name, q, k, pos) for name in kernels]
        yield from rows_of("rotate", reference, contestants, settings, n=n, batch=settings.batch)
