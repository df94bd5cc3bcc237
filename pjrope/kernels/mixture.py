"""Jet mixtures: a Jordan block whose orders have amplitudes of their own."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..positions.coordinates import bounded_shear, linear
from ._values import added, check_count, check_length, parameter, plain_rate
from .base import Claims
from .blocks import Blocks
from .growth import ROOM, Growth, anywhere, jet_bound, steepness
from .jordan_action import JordanAction
from .jordan_growth import SHEAR, grown
from .lag_charts import LagCharts
from .shear import Shear, toeplitz_product

FORMS = ("relative", "absolute")


class JordanMixture(JordanAction):
    """Jet mixture, ``Re sum_{r<=c} conj(q_r) k_c e^{-(c/L + i omega) d} a_s x^s/s!``, s = c - r.

    A Jordan block has ``a_s = eta^s``; here every order has its own amplitude, ``a_0 = 1``.

    - "relative": ``x = d/L``. No action of this kind exists on m channels (a polynomial is a
      one-parameter group only if ``a_s = a_1^s``), so each block widens to m(m+1)/2 slots;
    - "absolute": the papers' form, ``P(-i)^{-1} P(-j)`` with ``P(p) = sum_s a_s u^s/s! N^s`` and
      ``u = (p/L)/(1 + p/L)``: as many channels, and not relative.

    Args:
        head_dim: D, a multiple of ``2 order``.
        heads: key heads.
        length: L, tokens.
        order: m >= 2.
        form: "relative" or "absolute".
        omega: ``(blocks,)`` or ``(heads, blocks)``, as for :class:`JordanRoPE`.
        c: initial damping >= 0, no unit; 0 registers none.
        alpha: initial amplitudes of the orders 1 ... m-1, one number or ``(m-1,)``.

    Raises:
        ValueError: as :class:`JordanRoPE`.

    Limits: ``rotate`` of the relative form returns ``D (m+1)/2`` channels. A learned a_0, as in the
    papers' "full" mixtures, would cancel between query and key: it is left out.

    Reference: Jordan-RoPE paper, jet mixtures. Chapter: ch-jordan.
    """

    def __init__(
        self,
        head_dim: int,
        heads: int,
        length: float,
        *,
        order: int = 4,
        form: str = "relative",
        omega: Tensor | None = None,
        c: float | Tensor = 1.5,
        alpha: float | Tensor = 0.1,
    ) -> None:
        if form not in FORMS:
            raise ValueError(f"form is {form!r}, known are {FORMS}")
        check_count("order", order, least=2)
        amplitudes = torch.as_tensor(alpha, dtype=torch.float64, device="cpu")
        if amplitudes.shape not in ((), (order - 1,)):
            raise ValueError(
                f"alpha has shape {tuple(amplitudes.shape)}, order {order} needs one number or "
                f"({order - 1},)"
            )
        if not bool(torch.isfinite(amplitudes).all()):
            raise ValueError(f"alpha is {alpha}: finite amplitudes are needed")
        shear = Shear(LagCharts(check_length(length)))
        super().__init__(
            Blocks(head_dim, heads, order, shear, omega, c, 0.0, damping_name="c"),
            order=order,
            form=form,
            c=plain_rate(c),
            alpha=plain_rate(alpha),
        )
        self.absolute = form == "absolute"
        self._steepness = steepness(length, float(amplitudes.abs().max()))
        self.alpha = parameter(amplitudes.expand(heads, head_dim // (2 * order), order - 1))

    @property
    def claims(self) -> Claims:
        damped = self.gamma_raw is not None
        return Claims(
            relative=not self.absolute,
            finite_rank=not self.absolute,
            bounded=damped or self.absolute,
            norm_preserving=False,
        )

    @property
    def multiplicity(self) -> int:
        return self.order

    @property
    def growth(self) -> Growth:
        still = self.gamma_raw is None and self.absolute
        return Growth(
            bound=self._bound,
            reach=anywhere if still else self._reach,
            degree=0 if self.absolute else self.order - 1,
            steepness=self._steepness,
            refusal=self.sizes.refusal if self.absolute and not still else None,
        )

    def _reach(self, number: torch.dtype) -> float:
        tokens = self.sizes.reach(number)
        if self.absolute or self.alpha.is_meta:
            return tokens
        for s, most in enumerate(self.alpha.detach().abs().amax((0, 1)).tolist(), 1):
            x = (SHEAR[number] * math.factorial(s) / max(most, 1.0)) ** (1 / s)  # q has bare powers
            tokens = min(tokens, self.length * x)
        return tokens

    def _bound(self, distance: float) -> float:
        p = torch.tensor(distance, dtype=torch.float64, device="cpu")
        shear = bounded_shear(p, self.length).item()
        x = (shear if self.absolute else distance) / self.length
        bound = jet_bound(self._shears(), None if self.absolute else self.gamma, x)
        if not self.absolute:
            return ROOM * bound
        # P of a key times the power series of 1/P of a query, which ends with its nilpotency.
        bound *= sum((bound - 1) ** n for n in range(self.order))
        damped = self.gamma_raw is not None
        return ROOM * bound * (grown(distance * self.sizes.largest_damping()) if damped else 1.0)

    def _shears(self) -> Tensor:
        # The relative form's queries hold bare powers beside those with an amplitude.
        alpha = self.alpha.detach().abs()
        alpha = alpha if self.absolute else alpha.clamp(min=1.0)
        return torch.cat([torch.ones_like(alpha[..., :1]), alpha], dim=-1)

    def _mixed(self, slots: Tensor, pos: Tensor, *, key: bool) -> Tensor:
        alpha = self.alpha.repeat_interleave(slots.shape[1] // len(self.alpha), dim=0)
        alpha = alpha.to(slots.dtype)[:, None]  # (H, 1, blocks, m-1)
        if self.absolute:
            u = (bounded_shear(pos, self.length) / self.length).to(slots.dtype)[..., None]
            jet = [alpha[..., s - 1 : s] * u**s / math.factorial(s) for s in range(1, self.order)]
            return toeplitz_product(slots, _at_minus(jet) if key else _inverse(jet), key=key)
        # d^s/s! = (i - j)^s/s! splits into products of i^t/t! and (-j)^(s-t)/(s-t)!: the query of
        # slot (r, t) carries the former, its key gathers all orders above.
        x = linear(-pos if key else pos, self.length).to(slots.dtype)[..., None]
        z = slots.unbind(-2)
        powers = [x**t / math.factorial(t) for t in range(self.order)]
        if not key:
            return torch.stack(
                [z[r] * powers[t] for r in range(self.order) for t in range(self.order - r)], -2
            )
        return torch.stack(
            [
                added(
                    [
                        z[c] * powers[c - r - t] * (1 if c == r else alpha[..., c - r - 1 : c - r])
                        for c in range(r + t, self.order)
                    ]
                )
                for r in range(self.order)
                for t in range(self.order - r)
            ],
            -2,
        )


def _at_minus(jet: list[Tensor]) -> list[Tensor]:
    """Coefficients of P(-p) from those of P(p)."""
    return [coefficient * (-1) ** s for s, coefficient in enumerate(jet, 1)]


def _inverse(jet: list[Tensor]) -> list[Tensor]:
    """Coefficients of 1/P(-p), a power series in N that ends at its nilpotency."""
    a = _at_minus(jet)
    b: list[Tensor] = []
    for n in range(len(jet)):
        b.append(-a[n] if n == 0 else -a[n] - added([a[s] * b[n - 1 - s] for s in range(n)]))
    return b
