"""Jordan-RoPE: a frequency that is a repeated root, so that lag times phase becomes one mode."""

from __future__ import annotations

import torch
from torch import Tensor

from ..positions.frequencies import geometric
from ._values import check_count, check_length, plain_rate
from .blocks import BASE, Blocks
from .composition import DirectSum, direct_sum
from .jordan_action import JordanAction
from .lag_charts import LagCharts, charts_of
from .rope import RoPE
from .shear import Shear, shear_of


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
        coordinate: "linear", or "lightcone", for the scaled and exact forms: phases follow
            ``L asinh(p/L)``, damping and shear ``L beta(p)`` with ``beta = p / sqrt(p^2 + L^2)``.
        parts: of the light cone: "both"; "phase" keeps damping and shear of p; "amplitude" keeps
            the phase of p.

    Raises:
        ValueError: an order below 2, a head_dim that does not split into blocks, an unknown form,
            coordinate or part, rates of another shape or sign; ``rotate`` at positions where
            e^{gamma p} overflows.

    Limits: measured at position 131,072 (L = 1024, c = 1, eta = 0.1, orders 2 to 4) a score differs
    from the closed form by less than 2e-6 of the row's largest in fp32, 1e-2 in bf16. Without
    damping the shear grows like d^(m-1). With gamma = eta = 0 this is RoPE on its ladder. Under
    ``causal=False`` future keys grow by e^{gamma |d|}. ``torch.compile`` leaves the graph to read
    gamma and eta, so fullgraph=True refuses the scaled and exact forms. A light cone belongs to the
    position, not to the lag: the kernel is not relative, and lags much shorter than the position
    fade into lag 0. With bent amplitudes nothing grows with position; with parts="phase" the shear
    and the damping do, about position 0.

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
        coordinate: str = "linear",
        parts: str = "both",
    ) -> None:
        shear = shear_of(form, charts_of(check_length(length), coordinate, parts))
        if check_count("order", order) < 2:
            raise ValueError(
                "order is 1, which has no Jordan block: use RoPE, DampedRoPE or order=2"
            )
        super().__init__(
            Blocks(head_dim, heads, order, shear, omega, gamma, eta),
            order=order,
            form=form,
            gamma=plain_rate(gamma),
            eta=plain_rate(eta),
            coordinate=coordinate,
            parts=parts,
        )
        self.form = form


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
        shear = Shear(LagCharts(check_length(length)))
        blocks = Blocks(head_dim, heads, 1, shear, omega, c, 0.0, damping_name="c")
        super().__init__(blocks, c=plain_rate(c))
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
