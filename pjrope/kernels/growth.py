"""How large a kernel's numbers can get by a distance, so that it can say where they leave a type."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

ROOM = 4096.0  # what an action multiplies: products of channels up to this count as content
FURTHEST = 2**63 - 1  # tokens: the largest position there is
# Powers below it leave parameters a factor of 1e10 in fp32, beside the room for content.
HARMLESS = 1e24


def nothing(distance: float) -> float:
    """Bound of what adds nothing and multiplies by nothing."""
    return 0.0


def anywhere(number: torch.dtype) -> float:
    """Reach of an action that no position harms."""
    return math.inf


@dataclass(frozen=True)
class Growth:
    """How a kernel's numbers grow with distance; what is left unset is unknown, not zero.

    A kernel need not have one. Where the bound of a bias is unknown, ``attend`` reads each table of
    it once and refuses one with numbers that are not finite.

    Attributes:
        bound: largest lag, or position where the kernel is not relative, in tokens → upper bound of
            the bias, nats, plus what the action makes of products of channels up to 4096. It must
            not fall.
        reach: number type of queries and keys → tokens around an origin in which ``rotate`` keeps
            its precision; :func:`anywhere` if positions do no harm. Unknown counts as that for an
            action that claims to preserve norms, as 512 tokens for any other.
        degree: highest power of a distance in the bias or the action, 0 where nothing grows like
            one; near distances are then harmless, and the bound is not asked. Unknown always asks.
        steepness: what one token counts for in such a power by the values at construction, >= 1.
        refusal: number type → first distance at which the kernel's own checks raise, or None.
    """

    bound: Callable[[float], float] | None = None
    reach: Callable[[torch.dtype], float] | None = None
    degree: int | None = None
    steepness: float = 1.0
    refusal: Callable[[torch.dtype], int | None] | None = None

    @property
    def harmless(self) -> float:
        """Tokens up to which the degree alone tells that the numbers stay in fp32."""
        if self.degree is None:
            return -1.0
        return HARMLESS ** (1 / self.degree) / self.steepness if self.degree else math.inf

    @property
    def asks(self) -> bool:
        """True if some distance may overflow, by what is known."""
        return self.bound is not None and self.harmless < FURTHEST

    def overflows(self, distance: float, number: torch.dtype) -> bool:
        """True if numbers of a known bound may leave a number type at this distance."""
        if self.bound is None or distance <= self.harmless:
            return False
        return not self.size_at(float(distance)) <= torch.finfo(number).max

    def size_at(self, distance: float) -> float:
        """The bound at a distance, infinity where Python's own numbers end."""
        if self.bound is None:
            raise ValueError("bound is unknown: pass Growth(bound=...), nats by distance in tokens")
        try:
            return self.bound(distance)
        except OverflowError:
            return math.inf

    def overflow_at(self, number: torch.dtype) -> int | None:
        """First distance at which numbers may leave a type, None if no int64 is so far.

        Raises:
            ValueError: an unknown bound.
        """
        first = first_beyond(self.size_at, torch.finfo(number).max)
        refused = None if self.refusal is None or first == 0 else self.refusal(number)
        return min([at for at in (first, refused) if at is not None], default=None)


UNKNOWN = Growth()
STEADY = Growth(bound=nothing, reach=anywhere, degree=0)


def of_parts(parts: list[Growth], reach: Callable[[torch.dtype], float]) -> Growth:
    """What is known of parts that act together: bounds add, the strictest limit holds.

    Args:
        parts: of a sum or a direct sum.
        reach: of all actions among them.
    """
    known = [part for part in parts if part.bound is not None]
    degrees = [part.degree for part in known]
    refusals = [part.refusal for part in parts if part.refusal is not None]

    def refusal(number: torch.dtype) -> int | None:
        return min([at for f in refusals if (at := f(number)) is not None], default=None)

    return Growth(
        bound=(lambda distance: sum(part.size_at(distance) for part in known)) if known else None,
        reach=reach,
        degree=None
        if None in degrees
        else max([d for d in degrees if d is not None], default=None),
        steepness=max(part.steepness for part in parts),
        refusal=refusal if refusals else None,
    )


def steepness(length: float, *sizes: float) -> float:
    """What one token may count for in a power of the distance: 1 at least.

    Args:
        length: L, tokens.
        sizes: constants and initial values that multiply a power of ``d/L``.
    """
    return max(1.0, 1 / length) * max(1.0, *(abs(size) for size in sizes))


def numbers(values: Tensor) -> Tensor:
    """Values in fp64 on the CPU; on the meta device there are none to read."""
    values = values.detach()
    return values if values.is_meta else values.cpu().double()


def jet_bound(amplitudes: Tensor, damping: Tensor | None, x: float) -> float:
    """Upper bound over rows and ``0 <= u <= x`` of ``sum_r |a_r| u^r/r! e^{-c u}``.

    Each term is taken at its own peak ``u = r/c``, or at x before it.

    Args:
        amplitudes: ``(..., R+1)``.
        damping: ``(...)`` c >= 0, or None.
        x: >= 0.

    Returns:
        infinity too where an amplitude or a damping is no finite number.
    """
    if amplitudes.is_meta:
        return 0.0
    a = numbers(amplitudes).abs()
    r = torch.arange(a.shape[-1], dtype=torch.float64, device="cpu")
    c = torch.zeros(1, dtype=torch.float64, device="cpu")
    if damping is not None:
        c = numbers(damping)[..., None]
    if not (bool(a.isfinite().all()) and bool(c.isfinite().all())):
        return math.inf
    u = torch.where(c > 0, r / c, math.inf).clamp(max=x)  # before its peak a term still grows
    logs = torch.xlogy(r, u) - torch.lgamma(r + 1) - c * u  # a power itself could overflow
    terms = torch.where(a > 0, (a.log() + logs).exp(), 0.0)
    return float(terms.sum(-1).max())


def first_beyond(largest: Callable[[float], float], most: float) -> int | None:
    """The first distance at which a growing bound exceeds ``most``, or None if none does.

    Args:
        largest: distance in tokens → bound, not falling.
        most: largest number allowed.
    """
    if largest(float(FURTHEST)) <= most:
        return None
    low, high = -1, FURTHEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if largest(float(middle)) <= most else (low, middle)
    return high
