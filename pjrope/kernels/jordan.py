"""Jordan-RoPE: a frequency that is a repeated root, so that lag times phase becomes one mode."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ..conventions import as_positions, phase_dtype, wide
from ..positions.coordinates import bounded_shear
from ..positions.frequencies import geometric
from ._values import check_count, check_length, constant, parameter, softplus_inverse
from .algebra import DirectSum, direct_sum
from .base import Claims, PositionKernel
from .rope import RoPE

FORMS = ("scaled", "exact", "stabilized", "lag")
DEFAULT_GAMMA = {"scaled": 1.0, "exact": 1e-4, "stabilized": 1e-4, "lag": 1e-4}
BASE = 10_000.0
# One origin serves positions as long as the damping stays below e^GROWTH and the largest entry of
# the shear below SHEAR: what a product of a grown and a shrunken channel loses in each number type.
GROWTH = {torch.float16: 4.0, torch.bfloat16: 40.0, torch.float32: 40.0, torch.float64: 100.0}
SHEAR = {torch.float16: 1.0, torch.bfloat16: 1.0, torch.float32: 64.0, torch.float64: 1e6}
LARGEST_EXPONENT = {torch.float32: 80.0, torch.float64: 700.0}  # of e^x, before it overflows


class JordanAction(PositionKernel, register=False):
    """Blocks of ``order`` complex channels that share a frequency, a damping and a shear.

    What :class:`JordanRoPE` and :class:`DampedRoPE` have in common; they say what it computes.
    """

    def __init__(
        self,
        head_dim: int,
        heads: int,
        length: float,
        order: int,
        form: str,
        omega: Tensor | None,
        gamma: float | Tensor | None,
        eta: float | Tensor | None,
        own: dict[str, Any],
    ) -> None:
        check_count("heads", heads)
        check_length(length)
        check_count("head_dim", head_dim)
        if head_dim < 2 * order or head_dim % (2 * order):
            below = max(1, head_dim // (2 * order)) * 2 * order
            raise ValueError(
                f"head_dim is {head_dim}: a block of order {order} takes {2 * order} channels, so "
                f"use a multiple of {2 * order} such as {below}"
            )
        blocks = head_dim // (2 * order)
        ladder, listed, trained = _ladder(omega, head_dim, heads, blocks)
        damping = DEFAULT_GAMMA[form] if gamma is None else gamma
        rates = _rates("c" if "c" in own else "gamma", damping, heads, blocks)
        shears = (
            torch.zeros(heads, blocks, dtype=torch.float64)
            if eta is None
            else _rates("eta", eta, heads, blocks)
        )
        damped = bool((rates > 0).all())
        if not damped and not bool((rates == 0).all()):
            raise ValueError(
                f"damping is {rates.tolist()}: every rate > 0, or one 0 for no damping at all"
            )
        super().__init__(
            head_dim=head_dim, heads=heads, length=length, omega=listed, trained=trained, **own
        )
        self.head_dim = head_dim
        self.rotary_heads, self.length, self.order, self.form = heads, length, order, form
        self.rotates, self.scored = form != "lag", form == "lag"
        if isinstance(ladder, nn.Parameter):
            self.omega = ladder
        else:
            self.register_buffer("omega", constant(ladder))
        sheared = order > 1 and (eta is None or bool((shears != 0).any()))
        self.gamma_raw = parameter(softplus_inverse(rates)) if damped else None
        self.eta = parameter(shears) if sheared else None

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> PositionKernel:
        arguments = dict(arguments)
        if trained := arguments.pop("trained", None):
            dtype = {"float32": torch.float32, "float64": torch.float64}[trained]
            values = torch.tensor(arguments["omega"], dtype=dtype, device="cpu")
            arguments["omega"] = nn.Parameter(values)
        return cls(**arguments).to(torch.get_default_device())

    @property
    def gamma(self) -> Tensor | None:
        """``(H, blocks)`` damping in the form's unit, or None."""
        return None if self.gamma_raw is None else softplus(self.gamma_raw)

    @property
    def claims(self) -> Claims:
        plain = self.gamma_raw is None and self.eta is None
        bent = self.eta is not None and self.form in ("stabilized", "lag")
        grows = self.eta is not None and self.gamma_raw is None and not bent
        return Claims(
            relative=not (bent and self.form == "stabilized"),
            finite_rank=not bent,
            bounded=not grows,
            norm_preserving=plain,
        )

    @property
    def in_range(self) -> bool:
        return self.gamma_raw is None and (self.eta is None or self.form == "stabilized")

    @property
    def per_token(self) -> float:
        """What turns a rate of this form into one per token: 1/L for the scaled form, else 1."""
        return 1 / self.length if self.form == "scaled" else 1.0

    def reach(self, number: torch.dtype) -> float:
        if self.stays_in_range:
            return math.inf
        tokens = math.inf
        if self.gamma_raw is not None:
            tokens = GROWTH[number] / max(self._largest_gamma(), 1e-30)
        if self.eta is not None and self.form in ("scaled", "exact"):
            power = self.order - 1
            most = (SHEAR[number] * math.factorial(power)) ** (1 / power)
            tokens = min(tokens, most / max(_largest(self.eta.abs()) * self.per_token, 1e-30))
        return tokens

    def _largest_gamma(self) -> float:
        """Damping of the steepest block, per token; in Python's floats, as decoding asks often."""
        raw = _largest(self.gamma_raw)
        return (max(raw, 0.0) + math.log1p(math.exp(-abs(raw)))) * self.per_token

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
        if pos is None or pos.shape[-1] != x.shape[-2]:
            given = "not given" if pos is None else f"of shape {tuple(pos.shape)}"
            raise ValueError(f"{name} are {given}, {x.shape[-2]} tokens need as many positions")
        pos = as_positions(pos, name)
        return pos[None, None, :, None] if pos.ndim == 1 else pos[:, None, :, None]

    def _turned(self, x: Tensor, pos: Tensor, *, key: bool) -> Tensor:
        """Slots ``(B, H, N, blocks, order, 2)`` turned by omega p; keys grow, queries shrink."""
        real, number = phase_dtype(x.device), wide(x)
        p = pos.to(real)
        phase = p * self._rows(self.omega, x.shape[1])  # (1 or B, 1 or H, N, blocks)
        cos, sin = phase.cos(), phase.sin()
        if self.gamma_raw is not None:
            rate = self._rows(self.gamma, x.shape[1]) * self.per_token
            exponent = (p if key else -p) * rate
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

    def _check_range(self, exponent: Tensor, number: torch.dtype) -> None:
        if torch.compiler.is_compiling() or exponent.is_meta or not exponent.numel():
            return
        most, rate = float(exponent.detach().max()), self._largest_gamma()
        if most > LARGEST_EXPONENT[number]:
            raise ValueError(
                f"keys about {most / rate:.0f} tokens ahead of the origin, or queries as far behind "
                f"it, grow by e^{most:.0f} at gamma {rate:.3g} per token, beyond {number}. rotate() "
                "alone needs positions counted from a nearer origin. In attend() it takes keys far "
                "ahead of their query: use causal=True with positions that do not fall back, or "
                "less damping"
            )

    def _rows(self, rates: Tensor, heads: int) -> Tensor:
        """Rates in the phase dtype for so many heads: query head h reads row h // groups."""
        if rates.ndim > 1 and heads != len(rates):
            if heads % len(rates):
                raise ValueError(f"{heads} heads, this kernel has rates for {len(rates)} key heads")
            rates = rates.repeat_interleave(heads // len(rates), dim=0)
        return rates.to(phase_dtype(rates.device)).unsqueeze(-2)

    def _mixed(self, slots: Tensor, pos: Tensor, *, key: bool) -> Tensor:
        """Keys times ``exp(-eta s N)``, queries times its dual ``exp(eta s N^T)``, s(p) the shear."""
        if self.eta is None:
            return slots
        p = pos.to(phase_dtype(pos.device))
        s = bounded_shear(pos, self.length) if self.form == "stabilized" else p * self.per_token
        s = s * self._rows(self.eta, slots.shape[1])
        if self.gamma_raw is not None:  # where the damping is 0 in this number type, 0 * inf is no
            faded = self._rows(self.gamma.detach(), slots.shape[1]) * self.per_token * p.abs()
            s = s.masked_fill(faded > LARGEST_EXPONENT[slots.dtype] + 50, 0.0)
        s = s.to(slots.dtype)[..., None]
        step = -s if key else s
        powers = [step]
        for n in range(2, self.order):
            powers.append(powers[-1] * step / n)
        return toeplitz_product(slots, powers, key=key)

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


def _largest(rates: Tensor) -> float:
    return 0.0 if rates.is_meta else float(rates.detach().max())


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


def _rates(name: str, value: float | Tensor, heads: int, blocks: int) -> Tensor:
    """``value`` as ``(heads, blocks)`` fp64, a single number repeated."""
    tensor = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach()
    if tensor.ndim == 0:
        tensor = tensor.expand(heads, blocks)
    if tensor.shape != (heads, blocks) or not bool(torch.isfinite(tensor).all()):
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}: {value}; one finite number or ({heads}, "
            f"{blocks}) of them are needed"
        )
    if name != "eta" and bool((tensor < 0).any()):
        raise ValueError(f"{name} is {value}: damping is >= 0")
    return tensor.clone()


def _ladder(
    omega: Tensor | None, head_dim: int, heads: int, blocks: int
) -> tuple[Tensor, list | None, str | None]:
    """The frequencies, their spec, and their dtype's name if they train."""
    if omega is None:
        return geometric(head_dim, BASE)[:blocks], None, None
    ladder = omega
    if not isinstance(ladder, Tensor):
        ladder = torch.as_tensor(ladder, dtype=torch.float64, device="cpu")
    if ladder.shape not in ((blocks,), (heads, blocks)):
        raise ValueError(
            f"omega has shape {tuple(ladder.shape)}, ({blocks},) or ({heads}, {blocks}) is needed"
        )
    if not bool(torch.isfinite(ladder.detach()).all()):
        raise ValueError(f"omega is {ladder.tolist()}: finite frequencies are needed")
    trained = isinstance(omega, nn.Parameter)
    if trained and ladder.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"omega is {ladder.dtype}, which holds no frequency: use fp32 or fp64")
    if ladder.requires_grad and not trained:
        raise ValueError("omega requires a gradient: wrap it, nn.Parameter(omega), to train it")
    name = str(ladder.dtype).removeprefix("torch.") if trained else None
    return ladder, ladder.detach().tolist(), name


def _plain(value: float | Tensor | None) -> float | list | None:
    return (
        value
        if value is None or isinstance(value, int | float)
        else torch.as_tensor(value, device="cpu").tolist()
    )


class JordanRoPE(JordanAction):
    """Jordan-RoPE, ``Re sum_{r<=c} conj(q_r) k_c e^{-(gamma + i omega) d} (eta t)^{c-r}/(c-r)!``.

    Each block holds ``order`` complex channels ``z_0 ... z_{m-1}``, stored block by block as (re,
    im) pairs. Keys are multiplied by ``exp(-j J)``, queries by the dual ``exp(i J)^T``, with
    ``J = (-gamma - i omega) I + eta N``; the product then knows ``d = i - j`` alone. The forms
    differ in the shear time t:

    - "scaled": ``t = d/L``, and gamma means ``c/L``: a one-parameter group, the default;
    - "exact": ``t = d`` tokens, the same group in units per token;
    - "stabilized": ``t = tau(i) - tau(j)`` with ``tau(p) = p/(1 + p/L)``, the papers' trained form:
      not relative, since absolute positions are bent;
    - "lag": ``t = tau(i - j)``: relative and bounded, but no action on channels, so eager only.

    Args:
        head_dim: D, a multiple of ``2 order``.
        heads: key heads.
        length: L, tokens.
        order: m >= 2, channels that share a frequency.
        form: "scaled", "exact", "stabilized" or "lag".
        omega: ``(blocks,)`` or ``(heads, blocks)`` radians per token, ``blocks = D/(2m)``; an
            ``nn.Parameter`` trains. Default: the papers' ladder, RoPE's first ``blocks``
            frequencies.
        gamma: initial damping > 0, one number or ``(heads, blocks)``: c for "scaled", else per
            token; 0 registers no damping. Default 1 for "scaled", else 1e-4.
        eta: initial shear, one number or ``(heads, blocks)``: no unit for "scaled", else per
            token; 0 registers no shear. Default: learned, starting at 0.

    Raises:
        ValueError: an order below 2, a head_dim that does not split into blocks, an unknown form,
            rates of another shape or sign; ``rotate`` at positions where e^{gamma p} overflows.

    Limits: measured at position 131,072 (L = 1024, c = 1, eta = 0.1, orders 2 to 4) a score differs
    from the closed form by less than 2e-6 of the row's largest in fp32, 1e-2 in bf16. Without damping the shear grows like d^(m-1). With gamma = eta = 0 this is RoPE on its
    ladder. Under ``causal=False`` future keys grow by e^{gamma |d|}. ``torch.compile`` leaves the
    graph to read gamma and eta, so fullgraph=True refuses the scaled and exact forms.

    Reference: Jordan-RoPE paper, sections on exact, scaled and stabilised forms. Chapter: ch-jordan.
    """

    def __init__(
        self,
        head_dim: int,
        heads: int,
        length: float,
        *,
        order: int = 2,
        form: str = "scaled",
        omega: Tensor | None = None,
        gamma: float | Tensor | None = None,
        eta: float | Tensor | None = None,
    ) -> None:
        if form not in FORMS:
            raise ValueError(f"form is {form!r}, known are {FORMS}")
        if check_count("order", order) < 2:
            raise ValueError(
                "order is 1, which has no Jordan block: use RoPE, DampedRoPE or order=2"
            )
        super().__init__(
            head_dim,
            heads,
            length,
            order,
            form,
            omega,
            gamma,
            eta,
            {"order": order, "form": form, "gamma": _plain(gamma), "eta": _plain(eta)},
        )


class DampedRoPE(JordanAction):
    """RoPE whose scores fade, ``Re sum_k conj(q_k) k_k e^{-c_k d/L - i omega_k d}``.

    Args:
        head_dim: D, even.
        heads: key heads.
        length: L, tokens.
        c: initial damping > 0, one number or ``(heads, D/2)``, no unit.
        omega: ``(D/2,)`` or ``(heads, D/2)`` radians per token; default RoPE's ladder.

    Raises:
        ValueError: as :class:`JordanRoPE`; c = 0, which is RoPE.

    Limits: a damped score tends to 0, not to minus infinity: far keys keep a weight of e^0 each.

    Reference: Jordan-RoPE paper, "RoPE with learned damping". Chapter: ch-jordan.
    """

    def __init__(
        self,
        head_dim: int,
        heads: int,
        length: float,
        *,
        c: float | Tensor = 1.0,
        omega: Tensor | None = None,
    ) -> None:
        super().__init__(head_dim, heads, length, 1, "scaled", omega, c, 0.0, {"c": _plain(c)})
        if self.gamma_raw is None:
            raise ValueError("c is 0, which is RoPE without damping: use RoPE")


def direct_sum_grid(
    head_dim: int,
    heads: int,
    length: float,
    *,
    half_ladder: bool = False,
    gamma: float | Tensor | None = None,
    eta: float | Tensor | None = None,
) -> DirectSum:
    """RoPE beside a real Jordan block: phase and distance on channels of their own.

    The rival of the coupled mode: half the channels turn, half hold a stabilized block of order 2
    at omega = 0.

    Args:
        head_dim: D, a multiple of 8.
        heads: key heads.
        length: L, tokens.
        half_ladder: False gives the turning half RoPE's first D/4 frequencies; True the papers'
            baseline, the ladder of a head with D/2 channels, which holds every second of them.
        gamma, eta: of the real block, as for :class:`JordanRoPE`.

    Raises:
        ValueError: a head_dim that is no multiple of 8.

    Reference: Jordan-RoPE paper, direct-sum baseline. Chapter: ch-phase-language.
    """
    if head_dim < 8 or head_dim % 8:
        raise ValueError(
            f"head_dim is {head_dim}: two halves of pairs of pairs need a multiple of 8"
        )
    half = head_dim // 2
    omega = None if half_ladder else geometric(head_dim, BASE)[: half // 2]
    real = JordanRoPE(
        half,
        heads,
        length,
        form="stabilized",
        omega=torch.zeros(half // 4, dtype=torch.float64),
        gamma=gamma,
        eta=eta,
    )
    return direct_sum(RoPE(half, omega=omega), real)
