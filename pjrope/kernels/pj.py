"""PJ-bias: Fourier jets, affine recency and light cone under one softmax of gates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ..positions import coordinates
from . import jets
from ._values import (
    check_count,
    check_length,
    check_number,
    parameter,
    per_head,
    real_lags,
    softplus_inverse,
)
from .affine import RHO, rho_at
from .alibi import fold_line
from .base import Claims, PositionKernel, _plain
from .characteristic import Root, merge_roots
from .fourier_jet import DAMPING, draw
from .growth import jet_bound, steepness

SECTORS = ("fj", "affine", "lc")
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


class PJBias(PositionKernel):
    """The union, ``b = g_fj sum_r FJ_r - g_aff s d/L + g_lc sum_r LC_r``.

    Gates are a softmax over the enabled sectors. Each jet order carries ``alpha_r zeta_r`` with
    alpha a softmax over orders; FJ_r and LC_r are as in :class:`FourierJet`, :class:`LightCone`.
    Parameters of disabled sectors do not exist; a single sector has gate 1 exactly.

    Args:
        heads: query heads H.
        length: L, tokens.
        max_order: R, the highest order of both jet sectors.
        sectors: some of "fj", "affine", "lc".
        omega_cycles: fastest initial frequency, turns per L tokens.
        share_omega: True uses one frequency a head for both jet sectors.
        signed_slope: True learns the slope s itself, of either sign (``affine_slope``), where False
            learns ``softplus^-1(s)`` (``raw_affine_slope``). A negative slope prefers far keys.
        coordinate: of the affine sector, as of :class:`Affine`: "linear" d/L or "lightcone"
            asinh(d/L), which is the line near the query and a logarithm far out.
        init: a :class:`PJInit`.

    Raises:
        ValueError: no sector, an unknown one, an initial choice that is not enabled, or an initial
            value that is no number or out of its range.

    Limits: only products gate x slope and gate x alpha x zeta are identified by the function
    (gauge freedom), so read gates together with them. The slope changes sign only if it is signed,
    and a negative one grows without bound.

    Reference: PJ-RoPE paper, sections on PJ-bias. Chapter: ch-union.
    """

    def __init__(
        self,
        heads: int,
        length: float,
        *,
        max_order: int = 2,
        sectors: tuple[str, ...] = SECTORS,
        omega_cycles: float = 17.0,
        share_omega: bool = True,
        signed_slope: bool = False,
        coordinate: str = "linear",
        init: PJInit | None = None,
    ) -> None:
        init = PJInit() if init is None else init
        if not isinstance(init, PJInit):
            raise ValueError(f"init is {init!r}, a PJInit is needed: PJInit(gates='uniform')")
        check_count("heads", heads)
        check_count("max_order", max_order, least=0)
        check_length(length)
        if coordinate not in RHO:
            raise ValueError(f"coordinate is {coordinate!r}, known are {sorted(RHO)}")
        sectors = _checked_sectors(sectors)
        _check_init(init, sectors, max_order, signed_slope)
        check_number("omega_cycles", omega_cycles, "17.0 is the default")
        super().__init__(
            heads=heads,
            length=length,
            max_order=max_order,
            sectors=list(sectors),
            omega_cycles=omega_cycles,
            share_omega=share_omega,
            signed_slope=signed_slope,
            coordinate=coordinate,
            init={name: _plain(value) for name, value in asdict(init).items()},
        )
        self.bias_heads, self.length, self.max_order = heads, length, max_order
        self.sectors, self.share_omega, self.init = sectors, share_omega, init
        self.signed_slope, self.coordinate = signed_slope, coordinate
        self.steepness = steepness(length, init.slope, init.zeta_scale)
        ladder = jets.cycles_ladder(heads, length, omega_cycles)
        if set(sectors) != {"affine"}:
            self.omega = parameter(ladder)
        if not share_omega and {"fj", "lc"} <= set(sectors):
            self.lc_omega = parameter(ladder)
        if len(sectors) > 1:
            self.gate_logits = parameter(self._logits(sectors, init.gates).expand(heads, -1))
        for name in (s for s in JETS if s in sectors):
            orders = self._logits(range(max_order + 1), init.order).expand(heads, -1)
            setattr(self, f"{name}_alpha_logits", parameter(orders))
            for part in ("re", "im"):
                setattr(
                    self,
                    f"{name}_zeta_{part}",
                    parameter(torch.empty(heads, max_order + 1, device="cpu")),
                )
        if "fj" in sectors:
            self.raw_fj_damping = parameter(
                softplus_inverse(per_head("damping", init.damping, heads))
            )
        if "affine" in sectors:
            slope = per_head("slope", init.slope, heads)
            if signed_slope:
                self.affine_slope = parameter(slope)
            else:
                self.raw_affine_slope = parameter(softplus_inverse(slope))
        self.reset_parameters(torch.Generator().manual_seed(int(init.seed)))

    @staticmethod
    def _logits(names: Any, chosen: Any) -> Tensor:
        names = list(names)
        if chosen not in names:  # uniform
            return torch.zeros(len(names), dtype=torch.float64, device="cpu")
        return torch.tensor([CHOSEN if n == chosen else OTHER for n in names], device="cpu")

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> PJBias:
        arguments = dict(arguments)
        if isinstance(arguments.get("init"), dict):
            arguments["init"] = PJInit(**arguments["init"])
        return cls(**arguments)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for name in JETS:
            if name in self.sectors:
                for part in ("re", "im"):
                    draw(getattr(self, f"{name}_zeta_{part}"), self.init.zeta_scale, generator)

    @property
    def claims(self) -> Claims:
        return Claims(
            finite_rank=self.folds,
            bounded=not (self.signed_slope and "affine" in self.sectors),
            identity_at_zero=self.sectors == ("affine",),
        )

    @property
    def folds(self) -> bool:
        bent = self.coordinate == "lightcone" and "affine" in self.sectors
        return "lc" not in self.sectors and not bent

    @property
    def gates(self) -> Tensor:
        """``(H, enabled sectors)``, rows sum to 1, columns as in ``self.sectors``."""
        if len(self.sectors) == 1:
            anchor = self.slope if self.sectors == ("affine",) else self.omega
            return torch.ones_like(anchor)[:, None].detach()
        return self.gate_logits.softmax(-1)

    def gate(self, sector: str) -> Tensor:
        """``(H,)`` gate of one sector; exactly 0 if it is disabled."""
        if sector not in SECTORS:
            raise ValueError(f"sector is {sector!r}, known are {SECTORS}")
        gates = self.gates
        if sector not in self.sectors:
            return torch.zeros_like(gates[:, 0])
        return gates[:, self.sectors.index(sector)]

    def _needs(self, sector: str, what: str) -> None:
        if sector not in self.sectors:
            raise ValueError(
                f"{what} belongs to {sector!r}, this PJBias has the sectors {self.sectors}: enable "
                "it with sectors=..."
            )

    def amplitudes(self, sector: str) -> tuple[Tensor, Tensor]:
        """Real and imaginary part of ``alpha_r zeta_r`` of a jet sector, each ``(H, R+1)``.

        Raises:
            ValueError: a sector that has no amplitudes, or is not enabled.
        """
        if sector not in JETS:
            raise ValueError(f"sector is {sector!r}: only {JETS} have amplitudes")
        self._needs(sector, f"amplitudes({sector!r})")
        alpha = getattr(self, f"{sector}_alpha_logits").softmax(-1)
        re, im = (getattr(self, f"{sector}_zeta_{part}") for part in ("re", "im"))
        return alpha * re, alpha * im

    @property
    def damping(self) -> Tensor:
        """``(H,)`` Fourier-jet damping c > 0; a ValueError without that sector."""
        self._needs("fj", "damping")
        return softplus(self.raw_fj_damping)

    @property
    def slope(self) -> Tensor:
        """``(H,)`` affine slope before its gate, nats per L tokens; a ValueError without one."""
        self._needs("affine", "slope")
        return self.affine_slope if self.signed_slope else softplus(self.raw_affine_slope)

    def sector_components(self, lags: Tensor) -> dict[str, Tensor]:
        """Each enabled sector by order, gates not applied.

        Returns:
            "fj" and "lc": ``(H, R+1, n)``; "affine": ``(H, 1, n)``.
        """
        d = real_lags(lags)
        found = {}
        if "fj" in self.sectors:
            amplitudes = jets.fourier_amplitudes(d, self.length, self.max_order, self.damping)
            theta = self.omega.to(d.dtype)[:, None] * d
            found["fj"] = jets.components(amplitudes, theta, *self.amplitudes("fj"))
        if "affine" in self.sectors:
            x = RHO[self.coordinate](d, self.length)
            found["affine"] = -(self.slope.to(d.dtype)[:, None] * x)[:, None]
        if "lc" in self.sectors:
            omega = getattr(self, "lc_omega", None)
            omega = self.omega if omega is None else omega
            theta = omega.to(d.dtype)[:, None] * coordinates.phase(d, self.length)
            amplitudes = jets.lightcone_amplitudes(d, self.length, self.max_order)
            found["lc"] = jets.components(amplitudes, theta, *self.amplitudes("lc"))
        return found

    def lag_bias(self, lags: Tensor) -> Tensor:
        parts = self.sector_components(lags)
        return sum(self.gate(s).to(c.dtype)[:, None] * c.sum(1) for s, c in parts.items())

    @property
    def degree(self) -> int:
        straight = "affine" in self.sectors and self.coordinate == "linear"
        return max(self.max_order if "fj" in self.sectors else 0, int(straight))

    def largest(self, distance: float) -> float:
        x, total = distance / self.length, 0.0
        for sector in self.sectors:
            gate = self.gate(sector).detach()
            if sector == "affine":
                total += jet_bound((gate * self.slope)[:, None], None, 0.0) * rho_at(self, distance)
                continue
            size = gate[:, None] * torch.hypot(*(part.detach() for part in self.amplitudes(sector)))
            if sector == "fj":
                total += jet_bound(size, self.damping, x)
            else:  # beta < 1, so every order stays below its amplitude
                total += jet_bound(size.sum(-1, keepdim=True), None, 0.0)
        return total

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor] | None:
        if not self.folds:
            return None
        sides = []
        if "fj" in self.sectors:
            re, im = (self.gate("fj")[:, None] * part for part in self.amplitudes("fj"))
            sides.append(
                jets.fold_jets(re, im, self.omega, self.damping, self.length, q_pos, k_pos)
            )
        if "affine" in self.sectors:
            sides.append(fold_line(self.gate("affine") * self.slope / self.length, q_pos, k_pos))
        return tuple(torch.cat(side, dim=-1) for side in zip(*sides, strict=True))

    def roots(self) -> list[list[Root]] | None:
        if not self.folds:
            return None
        found = [[] for _ in range(self.bias_heads)]
        if "fj" in self.sectors:
            found = jets.fourier_roots(self.omega, self.damping, self.length, self.max_order)
        if "affine" in self.sectors:
            found = [merge_roots(own, [Root(1, 2)]) for own in found]
        return found


def _checked_sectors(sectors: Any) -> tuple[str, ...]:
    """The sectors asked for, in the order of SECTORS."""
    listed = isinstance(sectors, Iterable) and not isinstance(sectors, str)
    asked = tuple(sectors) if listed else ()
    if not asked or any(s not in SECTORS for s in asked):
        raise ValueError(
            f"sectors are {asked if listed else sectors!r}, at least one of {SECTORS} is needed, "
            "in a tuple such as ('fj',)"
        )
    return tuple(s for s in SECTORS if s in asked)


def _check_init(init: PJInit, sectors: tuple[str, ...], max_order: int, signed: bool) -> None:
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
