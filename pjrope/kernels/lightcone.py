"""Light-cone jets: phases in rapidity, amplitudes in velocity, so nothing grows."""

from __future__ import annotations

import torch
from torch import Tensor

from ..positions import coordinates
from . import jets
from ._values import real_lags
from .base import Claims
from .characteristic import Root
from .fourier_jet import JetSector
from .growth import jet_bound

PARTS = ("both", "phase", "amplitude")


class LightCone(JetSector):
    """Light-cone sector, ``b(d) = sum_r beta^r (a_r cos w phi - b_r sin w phi)``.

    ``phi = L asinh(d/L)`` and ``beta = d / sqrt(d^2 + L^2)``. Near the query it is an undamped
    Fourier jet without factorials; far out amplitudes saturate and phases slow down to L/d.

    Args:
        heads: query heads H.
        length: L, tokens.
        max_order: R, the highest order.
        omega: ``(H,)`` initial frequencies, radians per token; default ``linspace(1,
            omega_cycles, H)`` turns per L tokens.
        omega_cycles: fastest default frequency, turns per L tokens.
        parts: "both"; "phase" keeps the amplitudes ``(d/L)^r/r!`` of an undamped Fourier jet;
            "amplitude" keeps its phase ``omega d``.
        zeta_scale: standard deviation of the initial amplitudes.
        seed: of the initial amplitudes.

    Raises:
        ValueError: counts, lengths or shapes that do not fit, an unknown part.

    Limits: not of finite rank, so it has no fold, but for parts="amplitude" at max_order 0, which is
    an undamped Fourier jet. With parts="phase" orders above 0 grow.

    Reference: PJ-RoPE paper, light-cone component. Chapter: ch-lightcone.
    """

    def __init__(
        self,
        heads: int,
        length: float,
        *,
        max_order: int = 2,
        omega: Tensor | None = None,
        omega_cycles: float = 17.0,
        parts: str = "both",
        zeta_scale: float = 0.02,
        seed: int = 0,
    ) -> None:
        if parts not in PARTS:
            raise ValueError(f"parts is {parts!r}, known are {PARTS}")
        super().__init__(
            heads, length, max_order, omega, omega_cycles, zeta_scale, seed, parts=parts
        )
        self.parts = parts

    @property
    def folds(self) -> bool:
        return self.parts == "amplitude" and self.max_order == 0  # cos and sin of omega d

    @property
    def claims(self) -> Claims:
        return Claims(
            finite_rank=self.folds,
            bounded=self.parts != "phase" or self.max_order == 0,
            identity_at_zero=False,
        )

    @property
    def _degree(self) -> int:
        return self.max_order if self.parts == "phase" else 0

    def _bound(self, distance: float) -> float:
        if self.parts == "phase":
            return super()._bound(distance)
        # beta < 1, so every order stays below its amplitude
        zeta = torch.hypot(self.zeta_re.detach(), self.zeta_im.detach())
        return jet_bound(zeta.sum(-1, keepdim=True), None, 0.0)

    def order_components(self, lags: Tensor) -> Tensor:
        d = real_lags(lags)
        if self.parts == "phase":
            amplitudes = jets.fourier_amplitudes(d, self.length, self.max_order, None)
        else:
            amplitudes = jets.lightcone_amplitudes(d, self.length, self.max_order)
        path = d if self.parts == "amplitude" else coordinates.phase(d, self.length)
        return jets.components(
            amplitudes, self.omega.to(d.dtype)[:, None] * path, self.zeta_re, self.zeta_im
        )

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor] | None:
        if not self.folds:
            return None
        return jets.fold_jets(
            self.zeta_re, self.zeta_im, self.omega, None, self.length, q_pos, k_pos
        )

    def roots(self) -> list[list[Root]] | None:
        return jets.fourier_roots(self.omega, None, self.length, 0) if self.folds else None
