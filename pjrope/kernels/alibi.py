"""ALiBi: a fixed penalty per token of distance."""

from __future__ import annotations

import torch
from torch import Tensor

from ..conventions import as_positions, phase_dtype
from ._values import check_count, constant, real_lags
from .base import PositionKernel
from .characteristic import Root
from .growth import Growth, anywhere, jet_bound


def alibi_slopes(heads: int) -> Tensor:
    """The ALiBi paper's slopes: 8 heads -> 2^-1 … 2^-8, other counts by its interleaving rule.

    For a power of two n, ``m_h = 2^(-8(h+1)/n)``. Otherwise the slopes of the next smaller power
    of two, then every second slope of the next larger one. (A closed formula for all counts that
    circulates gives other numbers.)

    Args:
        heads: H >= 1.

    Returns:
        ``(H,)`` fp64, nats per token.

    Reference: Press and others, Train short, test long (2022), section 3 and its published code.
    """
    check_count("heads", heads)

    def power_of_two(n: int) -> Tensor:
        return 2.0 ** (-8.0 * torch.arange(1, n + 1, dtype=torch.float64, device="cpu") / n)

    below = 1 << (heads.bit_length() - 1)
    return torch.cat([power_of_two(below), power_of_two(2 * below)[0::2][: heads - below]])


class ALiBi(PositionKernel):
    """Attention with linear biases, ``b_h(d) = -m_h |d|`` with the paper's fixed slopes.

    Args:
        heads: query heads H.

    Reference: Press and others (2022). Chapter: ch-alibi.
    """

    bias_heads: int
    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__(heads=check_count("heads", heads))
        self.bias_heads = heads
        self.register_buffer("slopes", constant(alibi_slopes(heads)))

    @property
    def growth(self) -> Growth:
        return Growth(self._bound, anywhere, degree=1)

    def _bound(self, distance: float) -> float:
        return jet_bound(
            torch.stack([torch.zeros_like(self.slopes), self.slopes], -1), None, distance
        )

    def lag_bias(self, lags: Tensor) -> Tensor:
        d = real_lags(lags)
        return -(self.slopes.to(d.dtype)[:, None] * d)

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor]:
        return fold_line(self.slopes, q_pos, k_pos)

    def roots(self) -> list[list[Root]]:
        return [[Root(1, 2)] for _ in range(self.bias_heads)]


def fold_line(slopes: Tensor, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor]:
    """``-slope (i - j)`` as ``(-slope i, slope) . (1, j)``: the repeated unit root has rank 2.

    Args:
        slopes: ``(H,)`` nats per token.
        q_pos: ``(Q,)``, tokens.
        k_pos: ``(K,)``, tokens.

    Returns:
        ``(H, Q, 2)`` and ``(H, K, 2)``.
    """
    q_pos, k_pos = as_positions(q_pos, "q_pos"), as_positions(k_pos, "k_pos")
    origin = k_pos.max()  # the far past then is as large as its bias, and nothing cancels
    real = phase_dtype(q_pos.device)
    i, j = (q_pos - origin).to(real), (k_pos - origin).to(real)
    slope = slopes.to(i.dtype)[:, None]
    phi_q = torch.stack([-slope * i, slope.expand(-1, len(i))], dim=-1)
    phi_k = torch.stack([torch.ones_like(j), j], dim=-1)
    return phi_q, phi_k.expand(len(slopes), -1, -1)
