"""PJ-bias: Fourier jets, affine recency and light cone under one softmax of gates."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ..positions import coordinates
from . import jets
from ._values import check_count, check_length, parameter, per_head, real_lags, softplus_inverse
from .affine import RHO
from .alibi import fold_line
from .base import Claims, PositionKernel
from .characteristic import Root, merge_roots
from .fourier_jet import DAMPING, draw

SECTORS = ("fj", "affine", "lc")
CHOSEN, OTHER = 2.0, -2.0  # logits of a chosen gate or order and of the rest, as in the protocol


@dataclass(frozen=True)
class PJInit:
    """Where a :class:`PJBias` starts; the gate it starts from often decides the gate it ends at.

    Attributes:
        gates: "uniform", or a sector whose logit starts at +2 and the others' at -2.
        order: None for uniform orders, or the order whose logit starts at +2.
        slope: initial affine slope, nats per L tokens; > 0 unless the slope is signed.
        damping: initial Fourier-jet damping c.
        zeta_scale: standard deviation of the initial amplitudes.
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
        ValueError: no sector, an unknown one, or an initial choice that is not enabled.

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
        self._check_sectors(tuple(sectors), max_order, signed_slope, init)
        sectors = tuple(s for s in SECTORS if s in sectors)
        super().__init__(
            heads=heads,
            length=length,
            max_order=max_order,
            sectors=list(sectors),
            omega_cycles=omega_cycles,
            share_omega=share_omega,
            signed_slope=signed_slope,
            coordinate=coordinate,
            init=asdict(init),
        )
        self.bias_heads, self.length, self.max_order = heads, length, max_order
        self.sectors, self.share_omega, self.init = sectors, share_omega, init
        self.signed_slope, self.coordinate = signed_slope, coordinate
        ladder = jets.cycles_ladder(heads, length, omega_cycles)
        if set(sectors) != {"affine"}:
            self.omega = parameter(ladder)
        if not share_omega and {"fj", "lc"} <= set(sectors):
            self.lc_omega = parameter(ladder)
        if len(sectors) > 1:
            self.gate_logits = parameter(self._logits(sectors, init.gates).expand(heads, -1))
        for name in (s for s in ("fj", "lc") if s in sectors):
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
        self.reset_parameters(torch.Generator().manual_seed(init.seed))

    @staticmethod
    def _check_sectors(
        sectors: tuple[str, ...], max_order: int, signed_slope: bool, init: PJInit
    ) -> None:
        unknown = [s for s in sectors if s not in SECTORS]
        if unknown or not sectors:
            raise ValueError(f"sectors are {sectors}, at least one of {SECTORS} is needed")
        if init.gates not in ("uniform", *sectors):
            raise ValueError(f"init.gates is {init.gates!r}, enabled are {('uniform', *sectors)}")
        if init.order is not None and not 0 <= init.order <= max_order:
            raise ValueError(f"init.order is {init.order}, orders run from 0 to {max_order}")
        for name, value in (("slope", init.slope), ("damping", init.damping)):
            if not (isinstance(value, int | float) and math.isfinite(value)):
                raise ValueError(f"init.{name} is {value!r}, one finite number is needed")
        if init.damping <= 0:
            raise ValueError(f"init.damping is {init.damping!r}, a number > 0 is needed")
        if init.slope <= 0 and not signed_slope:
            raise ValueError(
                f"init.slope is {init.slope!r}: a number > 0, or any with signed_slope=True"
            )

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
        for name in ("fj", "lc"):
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

    def amplitudes(self, sector: str) -> tuple[Tensor, Tensor]:
        """Real and imaginary part of ``alpha_r zeta_r`` of a jet sector, each ``(H, R+1)``."""
        alpha = getattr(self, f"{sector}_alpha_logits").softmax(-1)
        return (alpha * getattr(self, f"{sector}_zeta_{part}") for part in ("re", "im"))

    @property
    def damping(self) -> Tensor:
        """``(H,)`` Fourier-jet damping c > 0."""
        return softplus(self.raw_fj_damping)

    @property
    def slope(self) -> Tensor:
        """``(H,)`` affine slope before its gate, nats per L tokens."""
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
