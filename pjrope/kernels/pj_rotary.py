"""PJ-rotary: a Jordan block of fixed shear in place of every rotation, exact at any lag."""

from __future__ import annotations

import math
from numbers import Real

from torch import Tensor

from ..positions.frequencies import geometric
from ._values import check_count, check_length
from .blocks import BASE, Blocks
from .jordan_action import JordanAction
from .lag_charts import charts_of
from .shear import Shear


class PJRotary(JordanAction):
    """PJ-rotary, ``Re sum_b e^{-i omega_b d} sum_{c<=r} conj(q_r) k_c (eta d/L)^{r-c}/(r-c)!``.

    Each block holds ``order`` complex channels ``z_0 ... z_{m-1}``, stored block by block as (re,
    im) pairs. Queries at i are multiplied by ``e^{i omega i} exp(eta i/L N)``, keys at j by its
    dual ``e^{i omega j} exp(-eta j/L N^T)``; N maps slot r+1 into slot r. For order 2 a block adds
    to RoPE's two products the jet ``(eta d/L) conj(q_1) k_0``. It is :class:`JordanRoPE` without
    damping, with the channels of each block in reverse order; eta = 0 is RoPE on its ladder.

    Args:
        head_dim: D, a multiple of ``2 order``.
        length: L, tokens.
        order: m >= 2, channels that share a frequency.
        eta: shear, no unit; a constant, never trained. ``JordanRoPE(gamma=0, eta=...)`` learns it.
        base: of the ladder ``omega_b = base^(-b/n)`` over the ``n = D/(2m)`` blocks.
        omega: ``(n,)`` radians per token, replaces the ladder; an ``nn.Parameter`` trains.
        coordinate: "linear", or "lightcone": phases follow ``L asinh(p/L)``, the shear ``L beta(p)``
            with ``beta = p / sqrt(p^2 + L^2)``.
        parts: of the light cone: "both"; "phase" keeps the shear of p; "amplitude" its phase.

    Raises:
        ValueError: an order below 2, a head_dim that does not split into blocks, an eta that is no
            finite number, a base or a ladder that does not fit, an unknown coordinate or part.
        RuntimeError: from ``load_state_dict``, where another eta was saved.

    Limits: scores grow like ``(eta d/L)^(m-1)``, and so does the trouble of models that read past L.
    ``rotate`` alone grows with position as scores do with the lag, and bf16 then loses the
    difference: ``attend`` counts positions from a near origin and joins far ones in fp32. Measured
    in the last row of 131,072 tokens (L = 1024, eta = 1, orders 2 and 3), a score differs from the
    closed form by less than 2e-6 of the row's largest in fp32, 1e-2 in bf16. A light cone belongs to
    the position, not to the lag: the kernel is then not relative, as for :class:`JordanRoPE`.

    Reference: PJ-RoPE paper, exact PJ-rotary. Chapter: ch-union.
    """

    learns_eta = False
    mirrored = True

    def __init__(
        self,
        head_dim: int,
        length: float,
        *,
        order: int = 2,
        eta: float = 1.0,
        base: float = BASE,
        omega: Tensor | None = None,
        coordinate: str = "linear",
        parts: str = "both",
    ) -> None:
        check_count("head_dim", head_dim)
        if check_count("order", order) < 2:
            raise ValueError("order is 1, which has no Jordan block: use RoPE or order=2")
        if isinstance(eta, bool) or not (isinstance(eta, Real) and math.isfinite(eta)):
            raise ValueError(
                f"eta is {eta!r}, one finite number is needed: JordanRoPE has one a head and block"
            )
        shear = Shear(charts_of(check_length(length), coordinate, parts))
        ladder = geometric(2 * max(1, head_dim // (2 * order)), base)
        super().__init__(
            Blocks(head_dim, None, order, shear, omega, 0.0, eta, ladder),
            order=order,
            eta=eta,
            base=base,
            coordinate=coordinate,
            parts=parts,
        )
