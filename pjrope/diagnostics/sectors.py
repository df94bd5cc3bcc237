"""Sector by sector: what a function shows that gates hide, and how far both have moved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from ..kernels import PositionKernel, kernel_from_spec
from .views import Sector, kernels_by_layer, sectors_of

GAUGE_FREE = ("rms", "slope_per_token", "mass", "omega_cycles")
GAUGE_DEPENDENT = ("gate", "slope")
FACTS = ("gate", "slope", "slope_per_token", "mass", "omega_cycles")  # of a row, besides its rms


def sector_functions(kernel: PositionKernel, lags: Tensor) -> dict[str, Tensor]:
    """Each sector's share of the bias, gates applied.

    Args:
        kernel: as for :func:`sector_summary`.
        lags: ``(n,)`` tokens.

    Returns:
        sector to ``(H, n)``, nats; they add up to the kernel's bias.

    Raises:
        ValueError: a kernel without a sector, or a sum in which two parts bring the same one.
    """
    return {name: s.gated(lags).sum(1) for name, s in _some_sectors(kernel).items()}


@torch.no_grad()
def sector_summary(
    kernel: PositionKernel | nn.Module, lengths: Sequence[int]
) -> list[dict[str, Any]]:
    """What each sector and each of its orders adds, in numbers that no change of gauge moves.

    A bias is unchanged when gates move and slopes and amplitudes make up for it
    (:func:`~pjrope.diagnostics.regauge`), so a gate alone says nothing; gate x slope and the size of the sector's
    function do. That size is the root mean square about the mean over d < T, for softmax cannot
    see a constant.

    Args:
        kernel: :class:`PJBias`, :class:`FourierJet`, :class:`LightCone`, :class:`Affine`,
            :class:`ALiBi`, or a sum that contains one; or a model, whose rows also say "layer".
        lengths: windows T, tokens: usually L and the longest context.

    Returns:
        rows by sector, order, length and head; order None is the whole sector, sector "total" the
        whole bias. Each has ``length``, ``rms`` (nats), ``mass`` and ``omega_cycles`` (turns per L
        tokens) of jets, ``slope_per_token`` (gate x slope / L, nats per token) of the affine
        sector; and, not gauge-free, ``gate`` and ``slope``. What does not apply is None.

    Raises:
        ValueError: a kernel without a sector, or windows that are no list of integers >= 2.

    Limits: with a light-cone coordinate, the slope per token is that of short lags. Where "fj" and
    "lc" span nearly the same functions (a turn per L tokens or slower), the split between them is
    not defined by the function either.

    Reference: none; the PJ-RoPE paper reports gates and masses. Chapter: ch-gates.
    """
    if not isinstance(kernel, PositionKernel):
        return [
            {"layer": n, **row}
            for n, part in kernels_by_layer(kernel)
            for row in sector_summary(part, lengths)
        ]
    windows, sectors = _windows(lengths), _some_sectors(kernel)
    lags = torch.arange(max(windows), device=next(iter(sectors.values())).gate.device)
    columns = [c for name in sectors for c in _columns(sectors[name], lags)]
    whole = kernel.lag_bias(lags)
    assert whole is not None, "a kernel with sectors has a bias"
    columns.append(({"sector": "total", "order": None}, {}, whole))
    return [
        {"head": head, **which, "length": length, "rms": float(rms)}
        | {key: float(facts[key][head]) if key in facts else None for key in FACTS}
        for which, facts, function in columns
        for length in windows
        for head, rms in enumerate(function[:, :length].std(-1, correction=0))
    ]


def _columns(
    sector: Sector, lags: Tensor
) -> list[tuple[dict[str, Any], dict[str, Tensor], Tensor]]:
    """The sector and then each of its orders: which it is, facts ``(H,)``, function ``(H, n)``."""
    orders = sector.gated(lags)
    facts = {"gate": sector.gate}
    if sector.slope is not None:
        facts["slope"] = sector.slope
    if sector.slope_per_token is not None:
        facts["slope_per_token"] = sector.slope_per_token
    if sector.table is not None:
        facts["mass"] = sector.mass()[:, 0]
    if sector.amplitudes is None or sector.omega is None or sector.length is None:
        return [({"sector": sector.name, "order": None}, facts, orders.sum(1))]
    facts["omega_cycles"] = sector.omega * sector.length / (2 * math.pi)
    mass = sector.mass()
    whole = ({"sector": sector.name, "order": None}, facts | {"mass": mass.sum(1)}, orders.sum(1))
    return [whole] + [
        ({"sector": sector.name, "order": r}, facts | {"mass": mass[:, r]}, orders[:, r])
        for r in range(orders.shape[1])
    ]


def _windows(lengths: Sequence[Any]) -> list[int]:
    if not isinstance(lengths, Iterable):
        raise ValueError(f"lengths is {lengths!r}: a list of windows is needed, [{lengths!r}]")
    windows = list(lengths)
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in windows)
    if not windows or not whole or min(windows) < 2:
        raise ValueError(f"lengths are {windows}: integers, windows of 2 tokens or more are needed")
    return windows


def _some_sectors(kernel: PositionKernel) -> dict[str, Sector]:
    found = sectors_of(kernel)
    if not found:
        raise ValueError(
            f"{type(kernel).__name__} has no sector: a PJBias, FourierJet, LightCone, Affine or "
            "ALiBi is needed, or a sum that contains one"
        )
    return found


def initial_kernel(kernel: PositionKernel) -> PositionKernel:
    """The kernel as its spec builds it: what it was before training.

    Args:
        kernel: any kernel.

    Returns:
        a new one on the same device and in the same precision.

    Limits: a :class:`~pjrope.Decoder` draws the amplitudes of its layers from its own seed, not
    from the spec's: there, build ``Decoder(model.config, seed=seed)`` again and compare the models.
    Values set by hand after construction are not in the spec.
    """
    fresh = kernel_from_spec(kernel.spec)
    like = next(kernel.parameters(), None)
    return fresh if like is None else fresh.to(like.device, like.dtype)


def change_from(
    before: PositionKernel | nn.Module,
    after: PositionKernel | nn.Module,
    lengths: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """How far masses, gates and functions have moved, for instance from their initial values.

    Args:
        before: a kernel or a model, for instance :func:`initial_kernel` of the other.
        after: the same kind of kernel or model, later.
        lengths: windows of the rms, tokens; default the training length L alone.

    Returns:
        the rows of :func:`sector_summary` of ``after``, with each number of ``before`` beside it as
        ``<name>_before``; ``mass_ratio`` and ``rms_ratio`` are after / before, None where before
        is 0.

    Raises:
        ValueError: two that differ in layers, heads, sectors or orders; no L to take as window.
    """
    lengths = [_length(after)] if lengths is None else lengths
    old, new = sector_summary(before, lengths), sector_summary(after, lengths)
    if [_identity(row) for row in old] != [_identity(row) for row in new]:
        raise ValueError(
            "before and after differ in layers, heads, sectors or orders: compare a kernel with "
            "itself at another time"
        )
    return [_compared(a, b) for a, b in zip(old, new, strict=True)]


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(key) for key in ("layer", "head", "sector", "order", "length"))


def _compared(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    row = dict(new)
    for key in ("rms", *FACTS):
        row[f"{key}_before"] = old[key]
    for key in ("mass", "rms"):
        row[f"{key}_ratio"] = new[key] / old[key] if old[key] else None
    return row


def _length(kernel: PositionKernel | nn.Module) -> int:
    kernels = (
        [kernel] if isinstance(kernel, PositionKernel) else dict(kernels_by_layer(kernel)).values()
    )
    found = {s.length for k in kernels for s in _some_sectors(k).values() if s.length is not None}
    if len(found) != 1:
        raise ValueError(f"training lengths found: {sorted(found)}; pass lengths=[...] in tokens")
    return round(found.pop())
