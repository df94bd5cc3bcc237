"""NoPE: no position at all but the causal mask."""

from __future__ import annotations

from .base import PositionKernel
from .characteristic import Root
from .growth import STEADY


class NoPE(PositionKernel):
    """The kernel that does nothing: the score is q . k at every lag.

    Reference: Haviv and others, Transformer language models without positional encodings still
    learn positional information (2022). Chapter: ch-order.
    """

    growth = STEADY

    def __init__(self) -> None:
        super().__init__()

    def roots(self) -> list[list[Root]]:
        return [[]]
