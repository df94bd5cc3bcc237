"""Arguments that every kernel made of Jordan blocks takes, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..conventions import phase_dtype
from ..positions.frequencies import geometric
from ._values import block_ladder, block_rates, check_count, check_length, positions_of
from .base import PositionKernel
from .shear import Shear

BASE = 10_000.0


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of ``order`` complex channels that share a frequency, a damping and a shear.

    Attributes:
        head_dim: D, a multiple of ``2 order``.
        heads: key heads, None where all share their rates.
        order: m, channels that share a frequency.
        shear: time and unit of the rates; holds L.
        omega: ``(blocks,)`` or ``(heads, blocks)`` radians per token, None for ``ladder``.
        gamma: damping, None for the shear's own; all rates > 0, or 0 for none.
        eta: shear, None for a learned one that starts at 0; 0 for none.
        ladder: default frequencies, None for the papers'.
        damping_name: what the kernel calls its damping, for errors.
    """

    head_dim: int
    heads: int | None
    order: int
    shear: Shear
    omega: Tensor | None = None
    gamma: float | Tensor | None = None
    eta: float | Tensor | None = None
    ladder: Tensor | None = None
    damping_name: str = "gamma"

    def __post_init__(self) -> None:
        if self.heads is not None:
            check_count("heads", self.heads)
        check_length(self.shear.length)
        check_count("head_dim", self.head_dim)
        wanted = 2 * self.order
        if self.head_dim < wanted or self.head_dim % wanted:
            below = max(1, self.head_dim // wanted) * wanted
            raise ValueError(
                f"head_dim is {self.head_dim}: a block of order {self.order} takes {wanted} "
                f"channels, so use a multiple of {wanted} such as {below}"
            )

    @property
    def count(self) -> int:
        """Blocks of a head."""
        return self.head_dim // (2 * self.order)

    @property
    def rows(self) -> int:
        """Heads with rates of their own."""
        return 1 if self.heads is None else self.heads

    def frequencies(self) -> tuple[Tensor, list[float] | None, str | None]:
        """The frequencies, what the spec says of them, and their dtype's name if they train."""
        default = (
            geometric(self.head_dim, BASE)[: self.count] if self.ladder is None else self.ladder
        )
        return block_ladder(self.omega, default, self.rows)

    def dampings(self) -> Tensor | None:
        """``(rows, blocks)`` initial damping, fp64, or None."""
        given = self.shear.damping if self.gamma is None else self.gamma
        rates = block_rates(self.damping_name, given, self.rows, self.count)
        if bool((rates > 0).all()):
            return rates
        if bool((rates == 0).all()):
            return None
        raise ValueError(
            f"damping is {rates.tolist()}: every rate > 0, or one 0 for no damping at all"
        )

    def shears(self) -> Tensor | None:
        """``(rows, blocks)`` initial shear, fp64, or None."""
        if self.eta is None:
            zeros = torch.zeros(self.rows, self.count, dtype=torch.float64, device="cpu")
            return zeros if self.order > 1 else None
        rates = block_rates("eta", self.eta, self.rows, self.count)
        return rates if self.order > 1 and bool((rates != 0).any()) else None


def rates_of_heads(rates: Tensor, heads: int) -> Tensor:
    """Rates in the phase dtype for so many heads: query head h reads row h // groups.

    Args:
        rates: ``(blocks,)`` or ``(key heads, blocks)``.
        heads: of queries or keys.

    Returns:
        ``(1, blocks)`` or ``(heads, 1, blocks)``.
    """
    if rates.ndim > 1 and len(rates) not in (1, heads):
        if heads % len(rates):
            raise ValueError(f"{heads} heads, this kernel has rates for {len(rates)} key heads")
        rates = rates.repeat_interleave(heads // len(rates), dim=0)
    return rates.to(phase_dtype(rates.device)).unsqueeze(-2)


def positions_by_head(kernel: PositionKernel, x: Tensor, pos: Tensor | None, name: str) -> Tensor:
    """Integer positions, one per token, with an axis for heads: ``(1 or B, 1, N, 1)``.

    Args:
        kernel: made for the channels of x.
        x: ``(B, H, N, D)``.
        pos: ``(N,)`` or ``(B, N)``.
        name: of the argument, for the error.
    """
    if x.shape[-1] != kernel.head_dim:
        raise ValueError(
            f"{x.shape[-1]} channels, this {type(kernel).__name__} was made for {kernel.head_dim}"
        )
    pos = positions_of(x, pos, name)
    return pos[None, None, :, None] if pos.ndim == 1 else pos[:, None, :, None]
