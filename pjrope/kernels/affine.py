"""Affine recency: ALiBi with a slope that is learned."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ..positions import coordinates
from ._values import check_count, check_length, parameter, per_head, real_lags, softplus_inverse
from .alibi import fold_line
from .base import Claims, PositionKernel
from .characteristic import Root
from .growth import Growth, anywhere, jet_bound, steepness

RHO = {"linear": coordinates.linear, "lightcone": coordinates.rapidity}


def check_coordinate(coordinate: str) -> None:
    """Raise unless an affine sector knows the coordinate."""
    if coordinate not in RHO:
        raise ValueError(f"coordinate is {coordinate!r}, known are {sorted(RHO)}")


def rho_at(coordinate: str, length: float, distance: float) -> float:
    """The coordinate of an affine sector at one distance, tokens."""
    d = torch.tensor(distance, dtype=torch.float64, device="cpu")
    return float(RHO[coordinate](d, length))


class Affine(PositionKernel):
    """Learnable recency, ``b_h(d) = -s_h rho(|d|)`` with ``s_h = softplus(raw_slope_h) > 0``.

    ``rho`` is ``d/L`` ("linear") or ``asinh(d/L)`` ("lightcone").

    Args:
        heads: query heads H.
        length: L, tokens.
        slope: initial s, one number or ``(H,)``, nats per L tokens.
        coordinate: "linear" or "lightcone".

    Raises:
        ValueError: a slope that is not positive, an unknown coordinate.

    Limits: the slope cannot change sign, so a teacher that prefers far keys is out of reach.

    Reference: PJ-RoPE paper, affine sector. Chapter: ch-alibi.
    """

    bias_heads: int

    def __init__(
        self, heads: int, length: float, *, slope: float | Tensor = 2.0, coordinate: str = "linear"
    ) -> None:
        check_coordinate(coordinate)
        slopes = per_head("slope", slope, check_count("heads", heads))
        if not bool((slopes > 0).all()):
            raise ValueError(f"slope is {slopes.tolist()}, recency needs slopes > 0")
        super().__init__(
            heads=heads,
            length=check_length(length),
            slope=slope if isinstance(slope, int | float) else slopes.tolist(),
            coordinate=coordinate,
        )
        self.bias_heads, self.length, self.coordinate = heads, length, coordinate
        self._steepness = steepness(length, float(slopes.max()))
        self.raw_slope = parameter(softplus_inverse(slopes))

    @property
    def folds(self) -> bool:
        return self.coordinate == "linear"

    @property
    def claims(self) -> Claims:
        return Claims(finite_rank=self.coordinate == "linear")

    @property
    def slope(self) -> Tensor:
        """``(H,)`` positive slopes, nats per L tokens."""
        return softplus(self.raw_slope)

    @property
    def growth(self) -> Growth:
        return Growth(self._bound, anywhere, 1 if self.folds else 0, self._steepness)

    def _bound(self, distance: float) -> float:
        most = jet_bound(self.slope[:, None], None, 0.0)
        return most * rho_at(self.coordinate, self.length, distance)

    def lag_bias(self, lags: Tensor) -> Tensor:
        rho = RHO[self.coordinate](real_lags(lags), self.length)
        return -(self.slope.to(rho.dtype)[:, None] * rho)

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor] | None:
        if self.coordinate != "linear":
            return None
        return fold_line(self.slope / self.length, q_pos, k_pos)

    def roots(self) -> list[list[Root]] | None:
        if self.coordinate != "linear":
            return None
        return [[Root(1, 2)] for _ in range(self.bias_heads)]
