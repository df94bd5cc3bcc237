"""Where a PJ-bias starts: its sectors, its initial values and the checks of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._values import check_count, check_number, parameter, per_head, softplus_inverse
from .fourier_jet import DAMPING

if TYPE_CHECKING:
    from .pj import PJBias

SECTORS = ("fj", "affine", "lc")  # the papers' three
KNOWN = (*SECTORS, "near")  # and the root that they leave out
JETS = ("fj", "lc")
CHOSEN, OTHER = 2.0, -2.0  # logits of a chosen gate or order and of the rest, as in the protocol
# What softplus of an fp32 parameter can give; the inverse of less would come back as 0.
SMALLEST, LARGEST = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max


@dataclass(frozen=True)
class PJInit:
    """Where a :class:`PJBias` starts; the gate it starts from often decides the gate it ends at.

    Attributes:
        gates: "uniform", or a sector whose logit starts at +2 and the others' at -2.
        order: None for uniform orders, or the order whose logit starts at +2.
        slope: initial affine slope, nats per L tokens; > 0 unless the slope is signed.
        damping: initial Fourier-jet damping c > 0.
        zeta_scale: standard deviation of the initial amplitudes, >= 0.
        seed: of the initial amplitudes.
    """

    gates: str = "uniform"
    order: int | None = None
    slope: float = 2.0
    damping: float = DAMPING
    zeta_scale: float = 0.02
    seed: int = 0


def checked_sectors(sectors: Any) -> tuple[str, ...]:
    """The sectors asked for, in the order of KNOWN."""
    listed = isinstance(sectors, Iterable) and not isinstance(sectors, str)
    asked = tuple(sectors) if listed else ()
    if not asked or any(s not in KNOWN for s in asked):
        raise ValueError(
            f"sectors are {asked if listed else sectors!r}, at least one of {KNOWN} is needed, "
            "in a tuple such as ('fj',)"
        )
    return tuple(s for s in KNOWN if s in asked)


def check_init(init: PJInit, sectors: tuple[str, ...], max_order: int, signed: bool) -> None:
    """Raise unless a PJ-bias of these sectors and orders can start so."""
    if not isinstance(init, PJInit):
        raise ValueError(f"init is {init!r}, a PJInit is needed: PJInit(gates='uniform')")
    check_count("max_order", max_order, least=0)
    if init.gates not in ("uniform", *sectors):
        raise ValueError(f"init.gates is {init.gates!r}, enabled are {('uniform', *sectors)}")
    if init.order is not None and not (_whole(init.order) and 0 <= init.order <= max_order):
        raise ValueError(
            f"init.order is {init.order!r}, orders are integers from 0 to {max_order}: None starts "
            "all alike"
        )
    for name in ("slope", "damping", "zeta_scale"):
        default = getattr(PJInit, name)
        check_number(f"init.{name}", getattr(init, name), f"{default:.4g} is the default")
    if not (_whole(init.seed) and -(2**63) <= init.seed < 2**64):
        raise ValueError(f"init.seed is {init.seed!r}, an integer of 64 bits is needed: 0, 1, ...")
    if init.zeta_scale < 0:
        raise ValueError(
            f"init.zeta_scale is {init.zeta_scale!r}, a standard deviation >= 0 is needed"
        )
    if not SMALLEST <= init.damping <= LARGEST:
        raise ValueError(
            f"init.damping is {init.damping!r}, a number > 0 that fp32 holds, {SMALLEST:.2g} to "
            f"{LARGEST:.2g}, is needed"
        )
    if not signed and not SMALLEST <= init.slope <= LARGEST:
        raise ValueError(
            f"init.slope is {init.slope!r}: a number > 0 that fp32 holds, {SMALLEST:.2g} to "
            f"{LARGEST:.2g}, or any with signed_slope=True"
        )


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def register(kernel: PJBias, ladder: Tensor) -> None:
    """Parameters of the enabled sectors at their initial values."""
    heads, init, sectors = kernel.bias_heads, kernel.init, kernel.sectors
    if set(sectors) & set(JETS):
        kernel.omega = parameter(ladder)
    if not kernel.share_omega and {"fj", "lc"} <= set(sectors):
        kernel.lc_omega = parameter(ladder)
    if len(sectors) > 1:
        kernel.gate_logits = parameter(_logits(sectors, init.gates).expand(heads, -1))
    for name in (s for s in JETS if s in sectors):
        orders = _logits(range(kernel.max_order + 1), init.order).expand(heads, -1)
        setattr(kernel, f"{name}_alpha_logits", parameter(orders))
        for part in ("re", "im"):
            empty = torch.empty(heads, kernel.max_order + 1, device="cpu")
            setattr(kernel, f"{name}_zeta_{part}", parameter(empty))
    if "fj" in sectors:
        damping = per_head("damping", init.damping, heads)
        kernel.raw_fj_damping = parameter(softplus_inverse(damping))
    if "near" in sectors:
        kernel.near_table = parameter(torch.zeros(heads, kernel.near_size, device="cpu"))
    if "affine" in sectors:
        slope = per_head("slope", init.slope, heads)
        if kernel.signed_slope:
            kernel.affine_slope = parameter(slope)
        else:
            kernel.raw_affine_slope = parameter(softplus_inverse(slope))


def _logits(names: Any, chosen: Any) -> Tensor:
    names = list(names)
    if chosen not in names:  # uniform
        return torch.zeros(len(names), dtype=torch.float64, device="cpu")
    return torch.tensor([CHOSEN if n == chosen else OTHER for n in names], device="cpu")
