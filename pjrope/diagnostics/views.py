"""Sectors of a bias as the diagnostics see them, whichever kernel they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ..attention import AttentionLayer
from ..kernels import (
    Affine,
    ALiBi,
    DirectSum,
    FourierJet,
    LightCone,
    NearTable,
    PJBias,
    PositionKernel,
    Sum,
)
from ..kernels.near import read_table

JETS = ("fj", "lc")
SECTORS = ("fj", "affine", "lc", "near")
ACCEPTED = (
    "a PJBias with a jet sector, a FourierJet, a LightCone, or a sum that contains one is needed"
)


@dataclass(frozen=True)
class Sector:
    """One sector of a bias; its function is ``gate * components(lags).sum(1)``.

    Attributes:
        name: "fj", "affine", "lc" or "near".
        gate: ``(H,)``; ones for a kernel that has no gates.
        components: lags ``(n,)`` to ``(H, orders, n)``, the gate not applied.
        amplitudes: real and imaginary part of ``alpha_r zeta_r``, each ``(H, R+1)``; jets only.
        omega: ``(H,)``, radians per token; jets only.
        slope: ``(H,)`` before the gate, nats per L tokens; affine only, None for ALiBi (no L).
        slope_per_token: ``(H,)`` gate x slope / L, nats per token; affine only.
        length: L, tokens; None for ALiBi and for tables.
        table: ``(H, size)`` before the gate, nats; near only.
    """

    name: str
    gate: Tensor
    components: Callable[[Tensor], Tensor]
    amplitudes: tuple[Tensor, Tensor] | None = None
    omega: Tensor | None = None
    slope: Tensor | None = None
    slope_per_token: Tensor | None = None
    length: float | None = None
    table: Tensor | None = None

    def gated(self, lags: Tensor) -> Tensor:
        """``(H, orders, n)``, the gate applied: these add up to the sector's share of the bias."""
        found = self.components(lags)
        return self.gate.to(found.dtype)[:, None, None] * found

    def mass(self) -> Tensor:
        """``(H, R+1)`` gate x alpha_r x |zeta_r| of a jet sector; ``(H, 1)`` gate x rms of a table."""
        if self.table is not None:
            return (self.gate * self.table.square().mean(1).sqrt())[:, None]
        assert self.amplitudes is not None, f"{self.name} has no orders"
        return self.gate[:, None] * modulus(*self.amplitudes)


def modulus(re: Tensor, im: Tensor) -> Tensor:
    """``sqrt(re^2 + im^2)`` with gradient 0 at 0, where plain ``hypot`` gives NaN."""
    zero = (re == 0) & (im == 0)
    return torch.where(zero, 0.0, torch.hypot(torch.where(zero, 1.0, re), im))


def sectors_of(kernel: PositionKernel, names: tuple[str, ...] = SECTORS) -> dict[str, Sector]:
    """The sectors of a bias, in the order "fj", "affine", "lc", "near".

    Args:
        kernel: :class:`PJBias`, :class:`FourierJet`, :class:`LightCone`, :class:`Affine`,
            :class:`ALiBi`, :class:`NearTable`, or a sum; parts of it without a sector, such as RoPE, are passed over.
        names: which sectors to look for.

    Returns:
        name to :class:`Sector`; empty for a kernel without one.

    Raises:
        ValueError: a sum in which two parts bring the same sector.
    """
    found: dict[str, Sector] = {}
    for part in leaves(kernel):
        for sector in _sectors_of_leaf(part):
            if sector.name not in names:
                continue
            if sector.name in found:
                raise ValueError(
                    f"two parts of this sum bring the sector {sector.name!r}: ask each part alone"
                )
            found[sector.name] = sector
    return {name: found[name] for name in SECTORS if name in found}


def leaves(kernel: PositionKernel) -> Iterator[PositionKernel]:
    """The kernels that a sum or direct sum is made of; any other kernel itself."""
    if isinstance(kernel, Sum | DirectSum):
        for part in kernel.parts:
            assert isinstance(part, PositionKernel)
            yield from leaves(part)
    else:
        yield kernel


def _sectors_of_leaf(kernel: PositionKernel) -> Iterator[Sector]:
    if isinstance(kernel, PJBias):
        yield from (_sector_of_union(kernel, name) for name in kernel.sectors)
    elif isinstance(kernel, FourierJet | LightCone):
        yield Sector(
            "fj" if isinstance(kernel, FourierJet) else "lc",
            torch.ones_like(kernel.omega).detach(),
            kernel.order_components,
            amplitudes=(kernel.zeta_re, kernel.zeta_im),
            omega=kernel.omega,
            length=kernel.length,
        )
    elif isinstance(kernel, Affine | ALiBi):
        yield _recency(kernel)
    elif isinstance(kernel, NearTable):
        yield _near(kernel.table, torch.ones_like(kernel.table[:, 0]).detach())


def _recency(kernel: Affine | ALiBi) -> Sector:
    def components(lags: Tensor) -> Tensor:
        return kernel.lag_bias(lags)[:, None]

    if isinstance(kernel, ALiBi):
        slopes = kernel.get_buffer("slopes")
        return Sector("affine", torch.ones_like(slopes), components, slope_per_token=slopes)
    return Sector(
        "affine",
        torch.ones_like(kernel.slope).detach(),
        components,
        slope=kernel.slope,
        slope_per_token=kernel.slope / kernel.length,
        length=kernel.length,
    )


def _near(table: Tensor, gate: Tensor) -> Sector:
    return Sector("near", gate, lambda lags: read_table(table, lags)[:, None], table=table)


def _sector_of_union(kernel: PJBias, name: str) -> Sector:
    gate = kernel.gate(name)
    if name == "near":
        return _near(kernel.near_table, gate)

    def components(lags: Tensor) -> Tensor:
        return kernel.sector_components(lags)[name]

    if name == "affine":
        return Sector(
            name,
            gate,
            components,
            slope=kernel.slope,
            slope_per_token=gate * kernel.slope / kernel.length,
            length=kernel.length,
        )
    own = getattr(kernel, "lc_omega", None) if name == "lc" else None
    re, im = kernel.amplitudes(name)
    return Sector(
        name,
        gate,
        components,
        amplitudes=(re, im),
        omega=kernel.omega if own is None else own,
        length=kernel.length,
    )


def jets_of(kernel: PositionKernel, sectors: Sequence[str] = JETS) -> dict[str, Sector]:
    """The jet sectors of a kernel among those asked for.

    Raises:
        ValueError: no kernel, a kernel without jets, or a sector that is unknown or not there.
    """
    if not isinstance(kernel, PositionKernel):
        raise ValueError(
            f"{type(kernel).__name__} is no position kernel: {ACCEPTED}; of a whole model, ask for "
            "each of kernels_by_layer(model)"
        )
    if isinstance(sectors, str) or not sectors or not set(sectors) <= set(JETS):
        raise ValueError(
            f"sectors are {sectors!r}: some of {JETS} are allowed, affine has no orders"
        )
    found = sectors_of(kernel, JETS)
    if not found:
        raise ValueError(f"{type(kernel).__name__} has no jets: {ACCEPTED}")
    if not set(sectors) & set(found):
        raise ValueError(f"sectors are {sectors!r}, this kernel has {tuple(found)}: ask for those")
    return {name: s for name, s in found.items() if name in sectors}


def padded(orders: list[Tensor]) -> Tensor:
    """Sum of ``(H, orders, ...)`` tensors, missing high orders counted as 0."""
    most = max(x.shape[1] for x in orders)
    wide = [pad(x, (0, 0) * (x.ndim - 2) + (0, most - x.shape[1])) for x in orders]
    return torch.stack(wide).sum(0)


def kernels_by_layer(model: nn.Module) -> list[tuple[int, PositionKernel]]:
    """The position kernel of every attention layer.

    Args:
        model: a :class:`~pjrope.Decoder`, or any module with :class:`~pjrope.AttentionLayer` in it.

    Returns:
        (number of the layer from 0, its kernel), in the order the model holds them.

    Raises:
        ValueError: a model without attention layers.
    """
    layers = attention_layers(model)
    return [(n, layer.kernel) for n, layer in enumerate(layers)]


def attention_layers(model: nn.Module) -> list[AttentionLayer]:
    """Every attention layer of a model, in the order it holds them.

    Raises:
        ValueError: a model without one.
    """
    found = [m for m in model.modules() if isinstance(m, AttentionLayer)]
    if not found:
        raise ValueError(
            f"{type(model).__name__} holds no AttentionLayer: a Decoder, or a model built from "
            "AttentionLayer, is needed"
        )
    return found
