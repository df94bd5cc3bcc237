"""The action of Jordan blocks on channels: what every kernel made of them shares."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ..conventions import phase_dtype, wide
from ..positions.coordinates import bounded_shear
from ..positions.frequencies import geometric
from ._values import (
    block_ladder,
    block_rates,
    check_count,
    check_length,
    constant,
    parameter,
    positions_of,
    softplus_inverse,
    with_trained_omega,
)
from .base import Claims, PositionKernel
from .characteristic import Root, turning_roots
from .growth import steepness
from .jordan_growth import LARGEST_EXPONENT, JordanGrowth
from .paths import Paths

DEFAULT_GAMMA = {"scaled": 1.0, "exact": 1e-4, "stabilized": 1e-4, "lag": 1e-4}
BASE = 10_000.0


class JordanAction(JordanGrowth, register=False):
    """Blocks of ``order`` complex channels that share a frequency, a damping and a shear.

    What :class:`JordanRoPE`, :class:`DampedRoPE` and their kin have in common; they say what it
    computes.

    Attributes:
        learns_eta: the shear is a parameter, else a constant.
        mirrored: a block's slots are counted from its end, so N and its transpose change places.
    """

    learns_eta = True
    mirrored = False

    def __init__(
        self,
        head_dim: int,
        heads: int | None,
        length: float,
        order: int,
        form: str,
        omega: Tensor | None,
        gamma: float | Tensor | None,
        eta: float | Tensor | None,
        own: dict[str, Any],
        ladder: Tensor | None = None,
        paths: Paths | None = None,
    ) -> None:
        if heads is not None:
            own = {"heads": check_count("heads", heads), **own}
        check_length(length)
        check_count("head_dim", head_dim)
        if head_dim < 2 * order or head_dim % (2 * order):
            below = max(1, head_dim // (2 * order)) * 2 * order
            raise ValueError(
                f"head_dim is {head_dim}: a block of order {order} takes {2 * order} channels, so "
                f"use a multiple of {2 * order} such as {below}"
            )
        blocks = head_dim // (2 * order)
        rows = 1 if heads is None else heads
        default = geometric(head_dim, BASE)[:blocks] if ladder is None else ladder
        ladder, listed, trained = block_ladder(omega, default, rows)
        damping = DEFAULT_GAMMA[form] if gamma is None else gamma
        rates = block_rates("c" if "c" in own else "gamma", damping, rows, blocks)
        shears = (
            torch.zeros(rows, blocks, dtype=torch.float64)
            if eta is None
            else block_rates("eta", eta, rows, blocks)
        )
        damped = bool((rates > 0).all())
        if not damped and not bool((rates == 0).all()):
            raise ValueError(
                f"damping is {rates.tolist()}: every rate > 0, or one 0 for no damping at all"
            )
        super().__init__(head_dim=head_dim, length=length, omega=listed, trained=trained, **own)
        self.head_dim = head_dim
        self.rotary_heads, self.length, self.order, self.form = heads, length, order, form
        self.rotates, self.scored = form != "lag", form == "lag"
        self.paths = Paths(length) if paths is None else paths
        steepest = 0.0 if eta is None else float(shears.abs().max())
        self.steepness = steepness(length if form == "scaled" else 1.0, steepest)
        if isinstance(ladder, nn.Parameter):
            self.omega = ladder
        else:
            self.register_buffer("omega", constant(ladder))
        sheared = order > 1 and (eta is None or bool((shears != 0).any()))
        self.gamma_raw = parameter(softplus_inverse(rates)) if damped else None
        if not sheared or self.learns_eta:
            self.eta = parameter(shears) if sheared else None
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
    def claims(self) -> Claims:
        plain = self.gamma_raw is None and self.eta is None
        bent = self.eta is not None and self.form in ("stabilized", "lag")
        cone = self.paths.bent_phase or (self.paths.bent_amplitude and not plain)
        grows = self.eta is not None and self.gamma_raw is None
        grows = grows and not (bent or self.paths.bent_amplitude)
        return Claims(
            relative=not (cone or (bent and self.form == "stabilized")),
            finite_rank=not (cone or bent),
            bounded=not grows,
            norm_preserving=plain,
        )

    @property
    def in_range(self) -> bool:
        straight = not (self.paths.bent_amplitude or self.form == "stabilized")
        damped = self.gamma_raw is not None and not self.paths.bent_amplitude
        return not damped and (self.eta is None or not straight)

    # The action -----------------------------------------------------------------------------

    def rotate(
        self,
        q: Tensor | None,
        k: Tensor | None,
        q_pos: Tensor | None = None,
        k_pos: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        if self.form == "lag":
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
        pos = self._positions(x, pos, name)
        out = self._mixed(self._turned(x, pos, key=key), pos, key=key).flatten(-3)
        return out.to(x.dtype) if self.claims.norm_preserving else out

    def _positions(self, x: Tensor, pos: Tensor | None, name: str) -> Tensor:
        """Integer positions, one per token, with an axis for heads: ``(1 or B, 1, N, 1)``."""
        if x.shape[-1] != self.head_dim:
            raise ValueError(
                f"{x.shape[-1]} channels, this {type(self).__name__} was made for {self.head_dim}"
            )
        pos = positions_of(x, pos, name)
        return pos[None, None, :, None] if pos.ndim == 1 else pos[:, None, :, None]

    def _turned(self, x: Tensor, pos: Tensor, *, key: bool) -> Tensor:
        """Slots ``(B, H, N, blocks, order, 2)`` turned by omega p; keys grow, queries shrink."""
        number = wide(x)
        phase = self.paths.phase(pos) * self._rows(self.omega, x.shape[1])
        cos, sin = phase.cos(), phase.sin()  # (1 or B, 1 or H, N, blocks)
        if self.gamma_raw is not None:
            rate = self._rows(self.gamma, x.shape[1]) * self.per_token
            t = self.paths.amplitude(pos)
            exponent = (t if key else -t) * rate
            self._check_range(exponent, number)
            grown = torch.exp(exponent)
            cos, sin = grown * cos, grown * sin
        cos, sin = cos.to(number)[..., None], sin.to(number)[..., None]
        slots = x.to(number).unflatten(-1, (-1, self.order, 2))
        if torch.compiler.is_compiling():  # inductor has no complex numbers
            u, v = slots.unbind(-1)
            return torch.stack([u * cos - v * sin, u * sin + v * cos], dim=-1)
        if slots.stride(-1) != 1 or any(step % 2 for step in slots.stride()[:-1]):
            slots = slots.contiguous()
        if slots.storage_offset() % 2:
            slots = slots.clone()
        return torch.view_as_real(torch.view_as_complex(slots) * torch.complex(cos, sin))

    def _rows(self, rates: Tensor, heads: int) -> Tensor:
        """Rates in the phase dtype for so many heads: query head h reads row h // groups."""
        if rates.ndim > 1 and len(rates) not in (1, heads):
            if heads % len(rates):
                raise ValueError(f"{heads} heads, this kernel has rates for {len(rates)} key heads")
            rates = rates.repeat_interleave(heads // len(rates), dim=0)
        return rates.to(phase_dtype(rates.device)).unsqueeze(-2)

    def _mixed(self, slots: Tensor, pos: Tensor, *, key: bool) -> Tensor:
        """Keys times ``exp(-eta s N)``, queries times its dual ``exp(eta s N^T)``, s(p) the shear.

        Mirrored: with N^T for N, as if the slots of a block stood in reverse order.
        """
        if self.eta is None:
            return slots
        t = self.paths.amplitude(pos)
        s = bounded_shear(pos, self.length) if self.form == "stabilized" else t * self.per_token
        s = s * self._rows(self.eta, slots.shape[1])
        if self.gamma_raw is not None:  # where the damping is 0 in this number type, 0 * inf is no
            faded = self._rows(self.gamma.detach(), slots.shape[1]) * self.per_token * t.abs()
            s = s.masked_fill(faded > LARGEST_EXPONENT[slots.dtype] + 50, 0.0)
        s = s.to(slots.dtype)[..., None]
        step = -s if key else s
        powers = [step]
        for n in range(2, self.order):
            powers.append(powers[-1] * step / n)
        return toeplitz_product(slots, powers, key=key != self.mirrored)

    def scores(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """``sum_s tau(i-j)^s/s! Q_s . K_s``: one product per power of the bounded lag."""
        if self.form != "lag":
            return None
        groups, origin = q.shape[1] // k.shape[1], q_pos[..., :1]
        q_slots = self._turned(q, self._positions(q, q_pos - origin, "q_pos"), key=False)
        k_slots = self._turned(k, self._positions(k, k_pos - origin, "k_pos"), key=True)
        tau = bounded_shear(q_pos[..., :, None] - k_pos[..., None, :], self.length)
        tau = (tau if tau.ndim == 2 else tau[:, None]).to(k_slots.dtype)
        total, power = 0.0, torch.ones_like(tau)
        for s in range(1 if self.eta is None else self.order):
            if s:
                power = power * tau / s
                q_slots = q_slots * self._rows(self.eta, q.shape[1]).to(tau.dtype)[..., None, None]
            left = q_slots[..., : self.order - s, :].flatten(-3)
            right = k_slots[..., s:, :].flatten(-3).repeat_interleave(groups, dim=1)
            total = total + power * (left @ right.transpose(-1, -2))
        return total

    def roots(self) -> list[list[Root]] | None:
        if not (self.claims.relative and self.claims.finite_rank):
            return None
        omega = torch.atleast_2d(self.omega.detach())
        gamma = torch.zeros_like(omega) if self.gamma_raw is None else self.gamma.detach()
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


def toeplitz_product(slots: Tensor, powers: list[Tensor], *, key: bool) -> Tensor:
    """``1 + sum_n powers[n-1] N^n`` on keys, its transpose on queries.

    Args:
        slots: ``(..., order, 2)``.
        powers: order - 1 coefficients, broadcastable to ``(..., 2)``.
        key: N maps slot r+1 into slot r for keys, r into r+1 for queries.
    """
    z, out = slots.unbind(-2), []
    for r, total in enumerate(z):
        for power, source in zip(powers, z[r + 1 :] if key else z[:r][::-1], strict=False):
            total = torch.addcmul(total, power, source)
        out.append(total)
    return torch.stack(out, dim=-2)
