"""The models that a diagnosis trains: baselines, single sectors, and the union from several starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ..diagnostics import kernels_by_layer
from ..kernels import ALiBi, NoPE, PJBias, PJInit, PositionKernel, RoPE
from ..kernels._values import softplus_inverse
from ..kernels.alibi import alibi_slopes
from ..models import Decoder, DecoderConfig
from ..positions import coordinates

__all__ = [
    "ARMS",
    "BASELINES",
    "NAMES",
    "SINGLES",
    "STARTS",
    "UNION",
    "Cell",
    "Shape",
    "build",
    "cells_of",
]

BASELINES = ("none", "alibi", "rope")
SINGLES = ("affine", "near", "fj", "lc")  # the union's sectors, each alone
UNION = "union"
ARMS = (*BASELINES, *SINGLES, UNION)
STARTS = ("uniform", "affine", "fj", "lc")  # whose gate the union starts with
NAMES = {
    "none": "no position",
    "alibi": "ALiBi",
    "rope": "RoPE",
    "affine": "learned recency",
    "near": "near-lag table",
    "fj": "Fourier jets",
    "lc": "light cone",
    "union": "all sectors",
}
# How to write what is recommended, for H heads and training length L.
CODE = {
    "none": "NoPE()",
    "alibi": "ALiBi(H)",
    "rope": "RoPE(head_dim)",
    "affine": "Affine(H, L)",
    "near": "NearTable(H, 8)",
    "fj": "FourierJet(H, L)",
    "lc": "LightCone(H, L)",
    "union": "PJBias(H, L, sectors=('fj', 'affine', 'lc', 'near'))",
}


@dataclass(frozen=True)
class Shape:
    """Size of the models and of what they read.

    Attributes:
        length: L, tokens a model is trained on.
        width, layers, heads: of the decoder.
        max_order: highest order of the jets.
        near_size: lags of the near table.
        batch: windows a step.
        reach: evaluation goes to this many times L.
        scored: scored tokens of a held-out segment.
        segments: most held-out segments.
    """

    length: int = 64
    width: int = 48
    layers: int = 2
    heads: int = 4
    max_order: int = 2
    near_size: int = 8
    batch: int = 16
    reach: int = 4
    scored: int = 64
    segments: int = 128

    @property
    def lengths(self) -> list[int]:
        """L, 2L, ... up to ``reach`` L."""
        return [self.length * 2**n for n in range(int(math.log2(self.reach)) + 1)]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Cell:
    """One training: an arm, where its gates start (union only), and a seed."""

    arm: str
    start: str
    seed: int

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.arm, self.start, str(self.seed)) if part)


def cells_of(seeds: Sequence[int], starts: Sequence[str] = STARTS) -> list[Cell]:
    """Every training of a diagnosis, in the order in which they run: seed by seed."""
    return [
        cell
        for seed in seeds
        for cell in (
            *(Cell(arm, "", seed) for arm in (*BASELINES, *SINGLES)),
            *(Cell(UNION, start, seed) for start in starts),
        )
    ]


def kernel_of(cell: Cell, shape: Shape) -> PositionKernel:
    """The position kernel of an arm as its spec builds it."""
    heads, length = shape.heads, shape.length
    if cell.arm in BASELINES:
        made = {"none": NoPE, "alibi": lambda: ALiBi(heads)}
        made["rope"] = lambda: RoPE(shape.width // heads)
        return made[cell.arm]()
    sectors = SINGLES if cell.arm == UNION else (cell.arm,)
    return PJBias(
        heads,
        length,
        max_order=shape.max_order,
        sectors=sectors,
        share_omega=False,
        near_size=shape.near_size,
        init=PJInit(gates=cell.start or "uniform", zeta_scale=0.1),
    )


def build(cell: Cell, shape: Shape, vocab: int, omega: Mapping[str, Tensor]) -> Decoder:
    """The model of a cell before training; backbones of equal seeds are equal bit for bit.

    Args:
        cell: which.
        shape: its size.
        vocab: number of ids.
        omega: jet sector → ``(H,)`` starting frequencies, radians per token.
    """
    config = DecoderConfig(
        vocab=vocab,
        width=shape.width,
        layers=shape.layers,
        heads=shape.heads,
        length=shape.length,
        mlp_ratio=2,
        norm="layer",
        kernel=kernel_of(cell, shape).spec,
    )
    model = Decoder(config, seed=cell.seed)
    for _, kernel in kernels_by_layer(model):
        if isinstance(kernel, PJBias):
            _start(kernel, shape, omega)
    return model


@torch.no_grad()
def _start(kernel: PJBias, shape: Shape, omega: Mapping[str, Tensor]) -> None:
    """Frequencies from the data, and slopes spread over the heads as ALiBi's are."""
    if jets := [s for s in ("fj", "lc") if s in kernel.sectors]:
        kernel.omega.copy_(omega[jets[0]])
    if len(jets) > 1:
        kernel.lc_omega.copy_(omega["lc"])
    if "affine" in kernel.sectors:
        slopes = torch.as_tensor(alibi_slopes(shape.heads)).double() * shape.length
        kernel.raw_affine_slope.copy_(softplus_inverse(slopes))


def match_rates(tokens: Tensor, length: int) -> Tensor:
    """Share of tokens that equal the one d before: ``(length,)`` for d = 1 ... length, fp64."""
    return torch.stack([(tokens[d:] == tokens[:-d]).double().mean() for d in range(1, length + 1)])


def starting_frequencies(tokens: Tensor, shape: Shape) -> dict[str, Tensor]:
    """Frequencies at which jets start: the strongest periods of the match rate, each sector by its clock.

    A frequency hardly moves in a short training, so it must start near the one that is needed. The
    match rate over the lags 1 ... L is a function of the data alone. Its spectral peaks over d, and over
    the light cone's phase L asinh(d/L), at least a turn apart, give a frequency a head.

    Args:
        tokens: ``(n,)`` training tokens, n > L.
        shape: heads and L.

    Returns:
        "fj" and "lc": ``(H,)`` radians per token, between one turn per L tokens and half a turn per
        token.
    """
    length = shape.length
    rate = match_rates(tokens, length)
    lags = torch.arange(1, length + 1).double()
    line = torch.stack([torch.ones_like(lags), lags, 1 / lags], 1)  # recency is no period
    rest = rate - line @ torch.linalg.lstsq(line, rate[:, None]).solution[:, 0]
    seen = lags - 1  # what repeats d tokens later is copied from d - 1 tokens back
    clocks = {"fj": seen, "lc": coordinates.phase(seen, length)}
    return {name: _peaks(rest, clock, shape) for name, clock in clocks.items()}


def _peaks(values: Tensor, clock: Tensor, shape: Shape) -> Tensor:
    length = shape.length
    turns = torch.arange(8, 4 * length + 1).double() / 8  # 1 ... L/2, an eighth apart
    waves = torch.exp(-2j * math.pi * turns[:, None] * clock / length)
    power = (waves @ values.to(torch.complex128)).abs()
    chosen: list[float] = []
    for at in power.argsort(descending=True, stable=True).tolist():
        turn = float(turns[at])
        if all(abs(turn - other) >= 1 for other in chosen):
            chosen.append(turn)
        if len(chosen) == shape.heads:
            break
    return torch.tensor(sorted(chosen)).double() * 2 * math.pi / length
