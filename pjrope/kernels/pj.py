"""PJ-bias: Fourier jets, affine recency and light cone under one softmax of gates."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from . import jets, pj_sectors
from ._values import (
    added,
    check_count,
    check_length,
    check_number,
    plain_number,
    real_lags,
    whole_lags,
)
from .affine import check_coordinate
from .base import Claims, PositionKernel
from .characteristic import Root
from .fourier_jet import draw
from .growth import Growth, anywhere, steepness
from .pj_init import (
    JETS,
    KNOWN,
    SECTORS,
    PJInit,
    check_init,
    checked_sectors,
    register,
)


class PJBias(PositionKernel):
    """The union, ``b = g_fj sum_r FJ_r - g_aff s d/L + g_lc sum_r LC_r``, and ``g_near t_d`` if asked for.

    Gates are a softmax over the enabled sectors. Each jet order carries ``alpha_r zeta_r`` with
    alpha a softmax over orders; FJ_r and LC_r are as in :class:`FourierJet`, :class:`LightCone`.
    Parameters of disabled sectors do not exist; a single sector has gate 1 exactly.

    Args:
        heads: query heads H.
        length: L, tokens.
        max_order: R, the highest order of both jet sectors.
        sectors: some of "fj", "affine", "lc", and "near", a table of the nearest lags (root 0).
        omega_cycles: fastest initial frequency, turns per L tokens.
        share_omega: True uses one frequency a head for both jet sectors.
        signed_slope: True learns the slope s itself, of either sign (``affine_slope``), where False
            learns ``softplus^-1(s)`` (``raw_affine_slope``). A negative slope prefers far keys.
        coordinate: of the affine sector, as of :class:`Affine`: "linear" d/L or "lightcone"
            asinh(d/L), which is the line near the query and a logarithm far out.
        near_size: lags of the near table, which starts at 0.
        init: a :class:`PJInit`.

    Raises:
        ValueError: no sector, an unknown one, an initial choice that is not enabled, or an initial
            value that is no number or out of its range.

    Limits: only products gate x slope and gate x alpha x zeta are identified by the function
    (gauge freedom), so read gates together with them. The slope changes sign only if it is signed,
    and a negative one grows without bound.

    Reference: PJ-RoPE paper, sections on PJ-bias. Chapter: ch-union.
    """

    bias_heads: int

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
        near_size: int = 8,
        init: PJInit | None = None,
    ) -> None:
        init = PJInit() if init is None else init
        check_count("heads", heads)
        self.near_size = check_count("near_size", near_size)
        check_length(length)
        check_coordinate(coordinate)
        sectors = checked_sectors(sectors)
        check_init(init, sectors, max_order, signed_slope)
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
            init={name: plain_number(value) for name, value in asdict(init).items()},
            **({"near_size": near_size} if "near" in sectors else {}),
        )
        self.bias_heads, self.length, self.max_order = heads, length, max_order
        self.sectors, self.share_omega, self.init = sectors, share_omega, init
        self.signed_slope, self.coordinate = signed_slope, coordinate
        self._steepness = steepness(length, init.slope, init.zeta_scale)
        register(self, jets.cycles_ladder(heads, length, omega_cycles))
        self.reset_parameters(torch.Generator().manual_seed(int(init.seed)))

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
            finite_rank=self._finite,
            bounded=not (self.signed_slope and "affine" in self.sectors),
            identity_at_zero=self.sectors == ("affine",),
        )

    @property
    def _finite(self) -> bool:
        bent = self.coordinate == "lightcone" and "affine" in self.sectors
        return "lc" not in self.sectors and not bent

    @property
    def folds(self) -> bool:
        return self._finite and "near" not in self.sectors

    @property
    def gates(self) -> Tensor:
        """``(H, enabled sectors)``, rows sum to 1, columns as in ``self.sectors``."""
        if len(self.sectors) == 1:
            anchor = next(self.parameters()).reshape(self.bias_heads, -1)[:, 0]
            return torch.ones_like(anchor)[:, None].detach()
        return self.gate_logits.softmax(-1)

    def gate(self, sector: str) -> Tensor:
        """``(H,)`` gate of one sector; exactly 0 if it is disabled."""
        if sector not in KNOWN:
            raise ValueError(f"sector is {sector!r}, known are {KNOWN}")
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
            "fj" and "lc": ``(H, R+1, n)``; "affine" and "near": ``(H, 1, n)``.
        """
        d = whole_lags(lags) if "near" in self.sectors else lags
        return pj_sectors.components(self, real_lags(d))

    def lag_bias(self, lags: Tensor) -> Tensor:
        parts = self.sector_components(lags)
        return added([self.gate(s).to(c.dtype)[:, None] * c.sum(1) for s, c in parts.items()])

    @property
    def growth(self) -> Growth:
        straight = "affine" in self.sectors and self.coordinate == "linear"
        degree = max(self.max_order if "fj" in self.sectors else 0, int(straight))
        return Growth(self._bound, anywhere, degree, self._steepness)

    def _bound(self, distance: float) -> float:
        return pj_sectors.bound(self, distance)

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor] | None:
        return pj_sectors.fold(self, q_pos, k_pos) if self.folds else None

    def roots(self) -> list[list[Root]] | None:
        return pj_sectors.roots(self) if self._finite else None
