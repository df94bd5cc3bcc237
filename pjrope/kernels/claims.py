"""What a kernel claims of itself; ``tests/contracts`` checks each claim, true and false."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Claims:
    """Properties that hold for every admissible parameter value of a kernel.

    Attributes:
        relative: the logit depends on positions through the lag only.
        finite_rank: as a function of the lag it solves a constant-coefficient difference equation,
            so its Hankel matrix has finite rank.
        bounded: what the kernel adds to or multiplies into a logit has a finite upper bound over
            d >= 0.
        identity_at_zero: at lag 0 the score is q . k.
        norm_preserving: ``rotate`` keeps the norm of q and of k.
        length_free: a pair's logit does not change when longer positions appear in the call.
    """

    relative: bool = True
    finite_rank: bool = True
    bounded: bool = True
    identity_at_zero: bool = True
    norm_preserving: bool = True
    length_free: bool = True

    def __and__(self, other: Claims) -> Claims:
        """What a composite may claim: that which both parts do."""
        return Claims(*(getattr(self, f.name) and getattr(other, f.name) for f in fields(self)))
