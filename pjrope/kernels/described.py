"""What a kernel says of itself: its claims, which faces it has, how its numbers grow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

from .claims import Claims
from .growth import UNKNOWN, Growth, anywhere

DEFAULT_REACH = 512.0  # tokens: a block of queries about its own origin


class Described(nn.Module):
    """The answers every position kernel has, and what follows from its growth."""

    if TYPE_CHECKING:  # a kernel may answer with an attribute or with a property

        @property
        def claims(self) -> Claims: ...
        @property
        def growth(self) -> Growth: ...
        @property
        def rotates(self) -> bool: ...
        @property
        def biases(self) -> bool: ...
        @property
        def folds(self) -> bool: ...
        @property
        def scored(self) -> bool: ...
        @property
        def bias_heads(self) -> int | None: ...
        @property
        def rotary_heads(self) -> int | None: ...
        @property
        def head_dim(self) -> int | None: ...
    else:
        claims, growth = Claims(), UNKNOWN
        rotates = biases = folds = scored = False
        bias_heads = rotary_heads = head_dim = None

    @property
    def any_origin(self) -> bool:
        """True if rotated channels keep their size at any absolute position."""
        reach = self.growth.reach
        return self.claims.norm_preserving if reach is None else reach is anywhere

    def reach(self, number: torch.dtype) -> float:
        """Tokens around an origin in which ``rotate`` keeps its precision.

        Args:
            number: dtype of the queries and keys.

        Returns:
            infinity where absolute positions do no harm; within twice the reach ``attend`` uses
            one origin, beyond it every block gets its own.
        """
        if self.any_origin:
            return math.inf
        return DEFAULT_REACH if self.growth.reach is None else self.growth.reach(number)

    def unknown_growth(self) -> list[str]:
        """Names of the parts that may grow and do not say how."""
        may_grow = self.biases or self.scored or (self.rotates and not self.any_origin)
        return [type(self).__name__] if may_grow and self.growth.bound is None else []

    def overflow_at(self, number: torch.dtype) -> int | None:
        """First distance at which the kernel's numbers may leave a number type.

        ``attend`` computes biases and grown channels in fp32 at least, whatever its inputs are, and
        refuses calls that reach the answer for that type; nothing is clamped.

        Args:
            number: a floating-point dtype.

        Returns:
            largest lag, or position where the kernel is not relative, in tokens; None if no
            distance that an int64 holds does.

        Raises:
            ValueError: a dtype that is not floating-point, or a kernel that has no growth.

        Limits: ``attend`` does not ask inside graphs of ``torch.compile``, nor a kernel of degree 0
            (a stabilized Jordan block refuses by its own check, at up to a percent more tokens), nor
            where ``(steepness d)^degree`` stays below 1e24: a call whose parameters were trained
            or loaded 1e10 times beyond their initial size can then answer with inf or nan.
        """
        if not (isinstance(number, torch.dtype) and number.is_floating_point):
            raise ValueError(
                f"number is {number!r}, a floating-point dtype is needed: torch.float32"
            )
        if unknown := self.unknown_growth():
            raise ValueError(
                f"{' and '.join(unknown)} does not say how it grows: set growth = Growth(bound=...)"
            )
        return None if self.growth.bound is None else self.growth.overflow_at(number)
