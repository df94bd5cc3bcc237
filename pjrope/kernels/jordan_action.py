"""The action of Jordan blocks on channels: what every kernel made of them shares."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ..conventions import wide
from ._values import (
    added,
    constant,
    parameter,
    positions_of,
    softplus_inverse,
    with_trained_omega,
)
from .base import Claims, K, PositionKernel, Q
from .blocks import Blocks, positions_by_head, rates_of_heads
from .characteristic import Root, turning_roots
from .growth import Growth, steepness
from .jordan_growth import LARGEST_EXPONENT, BlockSizes
from .layouts import turned_slots
from .shear import toeplitz_product


class JordanAction(PositionKernel, register=False):
    """Blocks of ``order`` complex channels that share a frequency, a damping and a shear.

    What :class:`JordanRoPE`, :class:`DampedRoPE` and their kin have in common; they say what it
    computes.

    Attributes:
        shear: the :class:`Shear` of the form.
        learns_eta: the shear is a parameter, else a constant.
        mirrored: a block's slots are counted from its end, so N and its transpose change places.
    """

    learns_eta = True
    mirrored = False
    head_dim: int
    rotary_heads: int | None
    rotates: bool = True
    scored: bool = False
    omega: Tensor
    gamma_raw: Tensor | None
    eta: Tensor | None

    def __init__(self, blocks: Blocks, **own: Any) -> None:
        ladder, listed, trained = blocks.frequencies()
        rates, shears = blocks.dampings(), blocks.shears()
        if blocks.heads is not None:
            own = {"heads": blocks.heads, **own}
        length = blocks.shear.length
        super().__init__(
            head_dim=blocks.head_dim, length=length, omega=listed, trained=trained, **own
        )
        self.shear, self.order, self.length = blocks.shear, blocks.order, length
        self.head_dim, self.rotary_heads = blocks.head_dim, blocks.heads
        self.rotates, self.scored = not self.shear.of_lag, self.shear.of_lag
        steepest = 0.0 if shears is None else float(shears.abs().max())
        self._steepness = steepness(1 / self.shear.per_token, steepest)
        if isinstance(ladder, nn.Parameter):
            self.omega = ladder
        else:
            self.register_buffer("omega", constant(ladder))
        self.gamma_raw = None if rates is None else parameter(softplus_inverse(rates))
        if shears is None or self.learns_eta:
            self.eta = None if shears is None else parameter(shears)
        else:
            self.register_buffer("eta", constant(shears))

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> PositionKernel:
        return cls(**with_trained_omega(arguments)).to(torch.get_default_device())

    @property
    def gamma(self) -> Tensor | None:
        """``(H, blocks)`` damping in the form's unit, or None."""
        return None if self.gamma_raw is None else softplus(self.gamma_raw)

    @property
    def per_token(self) -> float:
        """What turns a rate into one per token: 1/L for the scaled form, else 1."""
        return self.shear.per_token

    @property
    def claims(self) -> Claims:
        damped, sheared = self.gamma_raw is not None, self.eta is not None
        relative = self.shear.relative(sheared, damped)
        return Claims(
            relative=relative,
            finite_rank=relative and not (self.shear.of_lag and sheared),
            bounded=damped or not (sheared and self.shear.grows),
            norm_preserving=not (damped or sheared),
        )

    @property
    def sizes(self) -> BlockSizes:
        """What the rates, as they are now, make of channels."""
        relative = self.claims.relative
        return BlockSizes(
            self.shear, self.order, self.gamma_raw, self.eta, relative, self._steepness
        )

    @property
    def growth(self) -> Growth:
        return self.sizes.growth()

    # The action -----------------------------------------------------------------------------

    def rotate(
        self,
        q: Q,
        k: K,
        q_pos: Tensor | None = None,
        k_pos: Tensor | None = None,
    ) -> tuple[Q, K]:
        if self.scored:
            raise ValueError(
                "the lag form is no action on channels: it has whole scores, which attend() reads"
            )
        return (
            None if q is None else self._acted(q, q_pos, "q_pos", key=False),
            None if k is None else self._acted(k, k_pos, "k_pos", key=True),
        )

    def of_key_heads(self, heads: slice) -> PositionKernel:
        if self.rotary_heads is None:
            return self
        view, held = copy.copy(self), {**self._parameters, **self._buffers}
        view.__dict__ |= {
            "_parameters": {},  # plain tensors in their place: nothing here trains
            "_buffers": {},
            "rotary_heads": len(range(self.rotary_heads)[heads]),
            # What has one dimension, a shared ladder, is for all heads.
            **{n: v if v is None or v.ndim < 2 else v[heads] for n, v in held.items()},
        }
        return view

    def _acted(self, x: Tensor, pos: Tensor | None, name: str, *, key: bool) -> Tensor:
        pos = positions_by_head(self, x, pos, name)
        out = self._mixed(self._turned(x, pos, key=key), pos, key=key).flatten(-3)
        return out.to(x.dtype) if self.claims.norm_preserving else out

    def _turned(self, x: Tensor, pos: Tensor, *, key: bool) -> Tensor:
        """Slots ``(B, H, N, blocks, order, 2)`` turned by omega p; keys grow, queries shrink."""
        number = wide(x)
        phase = self.shear.charts.phase(pos) * rates_of_heads(self.omega, x.shape[1])
        cos, sin = phase.cos(), phase.sin()  # (1 or B, 1 or H, N, blocks)
        gamma = self.gamma
        if gamma is not None:
            rate = rates_of_heads(gamma, x.shape[1]) * self.per_token
            t = self.shear.charts.amplitude(pos)
            exponent = (t if key else -t) * rate
            self.sizes.check_exponent(exponent, number)
            grown = torch.exp(exponent)
            cos, sin = grown * cos, grown * sin
        cos, sin = cos.to(number)[..., None], sin.to(number)[..., None]
        return turned_slots(x.to(number).unflatten(-1, (-1, self.order, 2)), cos, sin)

    def _mixed(self, slots: Tensor, pos: Tensor, *, key: bool) -> Tensor:
        """Keys times ``exp(-eta s N)``, queries times its dual ``exp(eta s N^T)``, s(p) the shear.

        Mirrored: with N^T for N, as if the slots of a block stood in reverse order.
        """
        if self.eta is None:
            return slots
        s = self.shear.time(pos) * rates_of_heads(self.eta, slots.shape[1])
        gamma = self.gamma
        if gamma is not None:  # where the damping is 0 in this number type, 0 * inf is no number
            t = self.shear.charts.amplitude(pos).abs()
            faded = rates_of_heads(gamma.detach(), slots.shape[1]) * self.per_token * t
            s = s.masked_fill(faded > LARGEST_EXPONENT[slots.dtype] + 50, 0.0)
        s = s.to(slots.dtype)[..., None]
        step = -s if key else s
        powers = [step]
        for n in range(2, self.order):
            powers.append(powers[-1] * step / n)
        return toeplitz_product(slots, powers, key=key != self.mirrored)

    def scores(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """``sum_s tau(i-j)^s/s! Q_s . K_s``: one product per power of the bounded lag."""
        if not self.scored:
            return None
        q_pos, k_pos = positions_of(q, q_pos, "q_pos"), positions_of(k, k_pos, "k_pos")
        groups, origin = q.shape[1] // k.shape[1], q_pos[..., :1]
        q_slots = self._turned(q, positions_by_head(self, q, q_pos - origin, "q_pos"), key=False)
        k_slots = self._turned(k, positions_by_head(self, k, k_pos - origin, "k_pos"), key=True)
        tau = self.shear.time(q_pos[..., :, None] - k_pos[..., None, :])
        tau = (tau if tau.ndim == 2 else tau[:, None]).to(k_slots.dtype)
        terms, power = [], torch.ones_like(tau)
        for s in range(self.multiplicity):
            if s and self.eta is not None:
                power = power * tau / s
                q_slots = (
                    q_slots * rates_of_heads(self.eta, q.shape[1]).to(tau.dtype)[..., None, None]
                )
            left = q_slots[..., : self.order - s, :].flatten(-3)
            right = k_slots[..., s:, :].flatten(-3).repeat_interleave(groups, dim=1)
            terms.append(power * (left @ right.transpose(-1, -2)))
        return added(terms)

    def roots(self) -> list[list[Root]] | None:
        if not (self.claims.relative and self.claims.finite_rank):
            return None
        omega, rates = torch.atleast_2d(self.omega.detach()), self.gamma
        gamma = torch.zeros_like(omega) if rates is None else rates.detach()
        return [
            turning_roots(w, [c * self.per_token for c in row], self.multiplicity)
            for w, row in zip(
                *(x.tolist() for x in torch.broadcast_tensors(omega, gamma)), strict=True
            )
        ]

    @property
    def multiplicity(self) -> int:
        """Of the roots: the order of the blocks, 1 without shear."""
        return 1 if self.eta is None else self.order
