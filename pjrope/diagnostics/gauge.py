"""The gauge of a union: other gates, other amplitudes, the same function of the lag."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from ..kernels import PJBias, PositionKernel
from ..kernels._values import softplus_inverse


@torch.no_grad()
def regauge(kernel: PositionKernel, gates: Tensor | Sequence[float]) -> PositionKernel:
    """The same function of the lag under other gates: what makes a gate alone say nothing.

    Slopes and amplitudes are multiplied by old gate / new gate, so that gate x slope and
    gate x alpha x zeta stay.

    Args:
        kernel: a :class:`PJBias` with two or three sectors, or a sum that contains one.
        gates: ``(sectors,)`` for all heads or ``(H, sectors)``, columns as in ``kernel.sectors``,
            each > 0, rows with sum 1; sums off by up to 0.01, as printed gates have, are set right.

    Returns:
        a copy; the kernel itself is left alone.

    Raises:
        ValueError: a kernel without exactly one PJBias, one with a single sector, or gates that no
            softmax can give.

    Limits: equal to the rounding of the parameters, 1e-7 of the size of a sector in fp32.

    Reference: none; the redundancy is that of the softmax over sectors. Chapter: ch-gates.
    """
    copied = copy.deepcopy(kernel)
    unions = [m for m in copied.modules() if isinstance(m, PJBias)]
    if len(unions) != 1:
        raise ValueError(
            f"{type(kernel).__name__} holds {len(unions)} PJBias: exactly 1 has gates to set"
        )
    union = unions[0]
    if len(union.sectors) == 1:
        raise ValueError(
            f"this PJBias has the one sector {union.sectors[0]!r}, whose gate is 1 exactly: there is "
            "no other gate to give it; add a sector"
        )
    old = union.gates.double()
    new = _checked(torch.as_tensor(gates, dtype=torch.float64, device=old.device), old)
    factor = dict(zip(union.sectors, (old / new).unbind(-1), strict=True))
    union.gate_logits.copy_(new.log())
    if "affine" in factor:
        slope = union.slope.double() * factor["affine"]
        if union.signed_slope:
            union.affine_slope.copy_(slope)
        else:
            union.raw_affine_slope.copy_(softplus_inverse(slope.cpu()))
    if "near" in factor:
        union.near_table.copy_(union.near_table.double() * factor["near"][:, None])
    for name in ("fj", "lc"):
        if name in factor:
            for part in ("re", "im"):
                zeta = getattr(union, f"{name}_zeta_{part}")
                zeta.copy_(zeta.double() * factor[name][:, None])
    return copied


def _checked(gates: Tensor, like: Tensor) -> Tensor:
    if gates.shape not in (like.shape, like.shape[1:]):
        raise ValueError(
            f"gates have shape {tuple(gates.shape)}, {tuple(like.shape[1:])} or {tuple(like.shape)} "
            "is needed: a column per sector"
        )
    if not bool((gates > 0).all()) or not bool(((gates.sum(-1) - 1).abs() <= 0.01).all()):
        raise ValueError(f"gates are {gates.tolist()}: a softmax gives numbers > 0 with sum 1")
    return (gates / gates.sum(-1, keepdim=True)).expand_as(like)
