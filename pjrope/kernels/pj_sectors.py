"""What each sector of a PJ-bias adds: by order, as a bound, as channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..positions import coordinates
from . import jets
from .affine import RHO, rho_at
from .alibi import fold_line
from .characteristic import Root, merge_roots
from .growth import jet_bound
from .near import read_table

if TYPE_CHECKING:
    from .pj import PJBias


def components(kernel: PJBias, d: Tensor) -> dict[str, Tensor]:
    """Each enabled sector by order, gates not applied.

    Args:
        d: ``(n,)`` lags >= 0 in the phase dtype, tokens.

    Returns:
        "fj" and "lc": ``(H, R+1, n)``; "affine" and "near": ``(H, 1, n)``.
    """
    found = {}
    if "fj" in kernel.sectors:
        amplitudes = jets.fourier_amplitudes(d, kernel.length, kernel.max_order, kernel.damping)
        theta = kernel.omega.to(d.dtype)[:, None] * d
        found["fj"] = jets.components(amplitudes, theta, *kernel.amplitudes("fj"))
    if "affine" in kernel.sectors:
        x = RHO[kernel.coordinate](d, kernel.length)
        found["affine"] = -(kernel.slope.to(d.dtype)[:, None] * x)[:, None]
    if "lc" in kernel.sectors:
        omega = getattr(kernel, "lc_omega", None)
        omega = kernel.omega if omega is None else omega
        theta = omega.to(d.dtype)[:, None] * coordinates.phase(d, kernel.length)
        amplitudes = jets.lightcone_amplitudes(d, kernel.length, kernel.max_order)
        found["lc"] = jets.components(amplitudes, theta, *kernel.amplitudes("lc"))
    if "near" in kernel.sectors:
        found["near"] = read_table(kernel.near_table, d).to(d.dtype)[:, None]
    return found


def bound(kernel: PJBias, distance: float) -> float:
    """Largest size of the bias up to this distance, nats."""
    x, total = distance / kernel.length, 0.0
    for sector in kernel.sectors:
        gate = kernel.gate(sector).detach()
        if sector == "affine":
            most = jet_bound((gate * kernel.slope)[:, None], None, 0.0)
            total += most * rho_at(kernel.coordinate, kernel.length, distance)
            continue
        if sector == "near":
            table = kernel.near_table.detach().abs().amax(1)
            total += jet_bound((gate * table)[:, None], None, 0.0)
            continue
        size = gate[:, None] * torch.hypot(*(part.detach() for part in kernel.amplitudes(sector)))
        if sector == "fj":
            total += jet_bound(size, kernel.damping, x)
        else:  # beta < 1, so every order stays below its amplitude
            total += jet_bound(size.sum(-1, keepdim=True), None, 0.0)
    return total


def fold(kernel: PJBias, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor]:
    """The Fourier jets and the line as channels; gates worked in."""
    sides = []
    if "fj" in kernel.sectors:
        re, im = (kernel.gate("fj")[:, None] * part for part in kernel.amplitudes("fj"))
        sides.append(
            jets.fold_jets(re, im, kernel.omega, kernel.damping, kernel.length, q_pos, k_pos)
        )
    if "affine" in kernel.sectors:
        sides.append(fold_line(kernel.gate("affine") * kernel.slope / kernel.length, q_pos, k_pos))
    q_sides, k_sides = zip(*sides, strict=True)
    return torch.cat(q_sides, dim=-1), torch.cat(k_sides, dim=-1)


def roots(kernel: PJBias) -> list[list[Root]]:
    """Roots of the sectors that have some: jets turn and fade, the line is 1 twice, the table 0."""
    found: list[list[Root]] = [[] for _ in range(kernel.bias_heads)]
    if "fj" in kernel.sectors:
        found = jets.fourier_roots(kernel.omega, kernel.damping, kernel.length, kernel.max_order)
    if "affine" in kernel.sectors:
        found = [merge_roots(own, [Root(1, 2)]) for own in found]
    if "near" in kernel.sectors:
        found = [merge_roots(own, [Root(0, kernel.near_size)]) for own in found]
    return found
