"""What became of a kernel: gates and masses as the paper reads them, and the functions themselves.

Gates, masses and rms are means over heads and layers. *Leads* ask who is ahead in one head, that
which starts at the teacher's frequency (of the last layer): the share of the teacher's sector or
order minus the largest other share. Gate and mass leads are the paper's reading, and can be moved
without touching the function; sector and order leads compare the centered rms of what each sector
and each order adds to the logit over the lags below L, which cannot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ....diagnostics import effective_mass, order_components, sector_functions
from ....kernels import PJBias, PositionKernel
from .language import TEACHERS

ALL_SECTORS = ("fj", "affine", "lc")


def lead(sizes: Sequence[float], ours: int) -> float:
    """Share of one among several minus the largest share of the others.

    Args:
        sizes: at least two numbers >= 0.
        ours: which of them.

    Returns:
        Between -1 and 1; 0 for a tie, and where all are zero: nobody leads.
    """
    others = [size for i, size in enumerate(sizes) if i != ours]
    total = math.fsum(sizes)
    return (sizes[ours] - max(others)) / total if total else 0.0


def _rms(functions: Tensor) -> Tensor:
    """Root mean square about the mean over the lags, the last axis: what softmax can see."""
    return functions.std(-1, correction=0)


@torch.no_grad()
def state(kernels: Sequence[PositionKernel], lengths: Sequence[int]) -> dict[str, float]:
    """Numbers that describe kernels at one time.

    Args:
        kernels: of every layer.
        lengths: L and the longest exam, tokens.

    Returns:
        ``gate_S``, ``rms_S`` (nats, over lags below L) and ``far_rms_S`` (below the longest exam)
        for each enabled sector S, ``mass_r`` summed over the jet sectors for each order r,
        ``gated_slope`` (gate x slope, nats per L tokens) and ``cycles``, the frequency of the last head
        in turns per L tokens; nothing for a kernel without sectors.
    """
    biases = [kernel for kernel in kernels if isinstance(kernel, PJBias)]
    rows = [_state_of(kernel, lengths) for kernel in biases]
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]} if rows else {}


def _state_of(kernel: PJBias, lengths: Sequence[int]) -> dict[str, float]:
    found: dict[str, float] = {}
    for prefix, length in zip(("rms", "far_rms"), lengths, strict=True):
        for name, values in sector_functions(kernel, torch.arange(length)).items():
            found[f"gate_{name}"] = float(kernel.gate(name).mean())
            found[f"{prefix}_{name}"] = float(_rms(values).mean())
    if "affine" in kernel.sectors:
        found["gated_slope"] = float((kernel.gate("affine") * kernel.slope).mean())
    if set(kernel.sectors) != {"affine"}:
        masses = torch.stack(list(effective_mass(kernel).values())).sum(0).mean(0)
        found |= {f"mass_{r}": float(mass) for r, mass in enumerate(masses)}
        found["cycles"] = float(kernel.omega[-1]) * kernel.length / (2 * math.pi)
    return found


@torch.no_grad()
def leads(kernel: PositionKernel, teacher: str, length: int) -> dict[str, float]:
    """Who is ahead in the last head, by gates and masses and by function.

    Args:
        kernel: of the last layer.
        teacher: one of ``TEACHERS``.
        length: L, tokens.

    Returns:
        ``gate_lead`` and ``sector_lead`` where all three sectors are enabled; ``mass_lead`` and
        ``order_lead`` (both jet sectors together) where, besides, the teacher has an order.
    """
    if not isinstance(kernel, PJBias) or kernel.sectors != ALL_SECTORS:
        return {}
    known, lags = TEACHERS[teacher], torch.arange(length)
    ours = ALL_SECTORS.index(known.sector)
    sizes = sector_functions(kernel, lags)
    found = {
        "gate_lead": lead([float(kernel.gate(s)[-1]) for s in ALL_SECTORS], ours),
        "sector_lead": lead([float(_rms(sizes[s])[-1]) for s in ALL_SECTORS], ours),
    }
    if known.order is not None:
        masses = torch.stack(list(effective_mass(kernel).values())).sum(0)[-1]
        orders = _rms(order_components(kernel, lags))[-1]
        found["mass_lead"] = lead(masses.tolist(), known.order)
        found["order_lead"] = lead(orders.tolist(), known.order)
    return found


def learned(
    before: Sequence[PositionKernel],
    after: Sequence[PositionKernel],
    teacher: str,
    lengths: Sequence[int],
) -> dict[str, Any]:
    """The state of trained kernels, each number with its value before training as ``…_start``.

    Args:
        before, after: the kernel of each layer.
        teacher: one of ``TEACHERS``.
        lengths: L and the longest exam, tokens.
    """
    old, new = (
        state(kernels, lengths) | leads(kernels[-1], teacher, lengths[0])
        for kernels in (before, after)
    )
    both = new | {f"{name}_start": value for name, value in old.items()}
    return {name: float(f"{value:.4g}") for name, value in both.items()}
