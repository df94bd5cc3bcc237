"""Fourier jets: a frequency with polynomial amplitudes, what a Jordan block contributes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

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
from .base import Claims, PositionKernel
from .characteristic import Root
from .growth import Growth, anywhere, jet_bound, steepness

DAMPING = 0.1269280110429725  # softplus(-2), the initial damping of the PJ-RoPE protocol


class JetSector(PositionKernel, ABC, register=False):
    """What the two jet kernels share: heads, one frequency a head, amplitudes by order."""

    bias_heads: int

    def __init__(
        self,
        heads: int,
        length: float,
        max_order: int,
        omega: Tensor | None,
        omega_cycles: float,
        zeta_scale: float,
        seed: int,
        **more: object,
    ) -> None:
        check_count("heads", heads)
        check_count("max_order", max_order, least=0)
        check_length(length)
        check_number("omega_cycles", omega_cycles, "17.0 is the default")
        check_number("zeta_scale", zeta_scale, "0.02 is the default")
        ladder = (
            jets.cycles_ladder(heads, length, omega_cycles)
            if omega is None
            else per_head("omega", omega, heads)
        )
        super().__init__(
            heads=heads,
            length=length,
            max_order=max_order,
            omega=None if omega is None else ladder.tolist(),
            omega_cycles=omega_cycles,
            zeta_scale=zeta_scale,
            seed=seed,
            **more,
        )
        self.bias_heads, self.length, self.max_order = heads, length, max_order
        self.zeta_scale, self._steepness = zeta_scale, steepness(length, zeta_scale)
        self.omega = parameter(ladder)
        self.zeta_re = parameter(torch.empty(heads, max_order + 1, device="cpu"))
        self.zeta_im = parameter(torch.empty(heads, max_order + 1, device="cpu"))
        self.reset_parameters(torch.Generator().manual_seed(seed))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for zeta in (self.zeta_re, self.zeta_im):
            draw(zeta, self.zeta_scale, generator)

    @abstractmethod
    def order_components(self, lags: Tensor) -> Tensor:
        """Each order's share of the bias, ``(H, R+1, n)``; they sum to :meth:`lag_bias`."""

    def lag_bias(self, lags: Tensor) -> Tensor:
        return self.order_components(lags).sum(1)

    @property
    def growth(self) -> Growth:
        return Growth(self._bound, anywhere, self._degree, self._steepness)

    @property
    def _degree(self) -> int:
        return self.max_order

    def _bound(self, distance: float) -> float:
        zeta = torch.hypot(self.zeta_re.detach(), self.zeta_im.detach())
        return jet_bound(zeta, self._damping_of_bound(), distance / self.length)

    def _damping_of_bound(self) -> Tensor | None:
        """Damping that the amplitudes ``(d/L)^r/r!`` carry; None if there is none."""
        return None


def draw(values: nn.Parameter, scale: float, generator: torch.Generator | None) -> None:
    """Fill with ``scale * N(0, 1)``, drawn on the CPU so that every device gets the same."""
    with torch.no_grad():
        noise = torch.randn(values.shape, generator=generator, dtype=torch.float64, device="cpu")
        values.copy_(scale * noise)


class FourierJet(JetSector):
    """Damped Fourier jets, ``b(d) = sum_r (d/L)^r/r! e^{-c d/L} (a_r cos wd - b_r sin wd)``.

    Args:
        heads: query heads H.
        length: L, tokens.
        max_order: R, the highest order.
        omega: ``(H,)`` initial frequencies, radians per token; default ``linspace(1,
            omega_cycles, H)`` turns per L tokens.
        omega_cycles: fastest default frequency, turns per L tokens.
        damping: initial c, one number or ``(H,)``; 0 registers no damping parameter.
        zeta_scale: standard deviation of the initial amplitudes; 0 starts at no bias.
        seed: of the initial amplitudes.

    Raises:
        ValueError: counts, lengths or shapes that do not fit, a negative damping.

    Limits: without damping, orders above 0 grow without bound.

    Reference: PJ-RoPE paper, Fourier-jet component. Chapter: ch-union.
    """

    def __init__(
        self,
        heads: int,
        length: float,
        *,
        max_order: int = 2,
        omega: Tensor | None = None,
        omega_cycles: float = 17.0,
        damping: float | Tensor = DAMPING,
        zeta_scale: float = 0.02,
        seed: int = 0,
    ) -> None:
        check_count("heads", heads)
        c = per_head("damping", damping, heads)
        damped = bool((c > 0).all())
        if not damped and not bool((c == 0).all()):
            raise ValueError(f"damping is {c.tolist()}: all heads > 0, or 0 for none at all")
        super().__init__(
            heads,
            length,
            max_order,
            omega,
            omega_cycles,
            zeta_scale,
            seed,
            damping=damping if isinstance(damping, int | float) else c.tolist(),
        )
        self.raw_damping = parameter(softplus_inverse(c)) if damped else None

    @property
    def claims(self) -> Claims:
        grows = self.raw_damping is None and self.max_order > 0
        return Claims(bounded=not grows, identity_at_zero=False)

    @property
    def damping(self) -> Tensor | None:
        """``(H,)`` c > 0, or None."""
        return None if self.raw_damping is None else softplus(self.raw_damping)

    def _damping_of_bound(self) -> Tensor | None:
        return self.damping

    def order_components(self, lags: Tensor) -> Tensor:
        d = real_lags(lags)
        amplitudes = jets.fourier_amplitudes(d, self.length, self.max_order, self.damping)
        return jets.components(
            amplitudes, self.omega.to(d.dtype)[:, None] * d, self.zeta_re, self.zeta_im
        )

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor]:
        return jets.fold_jets(
            self.zeta_re, self.zeta_im, self.omega, self.damping, self.length, q_pos, k_pos
        )

    def roots(self) -> list[list[Root]]:
        return jets.fourier_roots(self.omega, self.damping, self.length, self.max_order)
