"""What a diagnosis answers, and the answers that need no sector."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from .arms import NAMES

__all__ = [
    "FEWEST_TOKENS",
    "Decision",
    "SectorFinding",
    "too_little",
    "without_order",
    "without_structure",
]

FEWEST_TOKENS = 20_000
Verdict = Literal[
    "too little data", "no structure", "order does not matter", "cannot tell", "found"
]


@dataclass(frozen=True)
class SectorFinding:
    """What a diagnosis says of one sector.

    Attributes:
        sector: "affine", "near", "fj" or "lc".
        status: "used", "not needed" or "cannot tell", by leaving it out of the union.
        left_out: interval over the union's runs of the loss without it minus the loss.
        stable: starts, of all, in which leaving it out costs something.
        alone: interval over segments of the loss of this sector alone minus that of the union.
        share: part of what position is worth that the sector has alone.
        orders: of a jet, the orders whose absence costs something.
    """

    sector: str
    status: str
    left_out: dict[str, Any]
    stable: tuple[int, int]
    alone: dict[str, Any]
    share: float
    orders: tuple[int, ...] = ()


@dataclass(frozen=True)
class Decision:
    """The answer of a diagnosis.

    Attributes:
        verdict: "too little data", "no structure", "order does not matter", "cannot tell" or "found".
        leading: the sector that explains the most alone; None where none leads.
        rivals: sectors that cannot be told apart from the best one.
        kernel: the recommended arm; None where there is no recommendation.
        headline: the recommendation in one sentence.
        because: what it rests on, one sentence each.
        would_decide: what would settle what is open.
        sectors: a finding per sector.
    """

    verdict: Verdict
    leading: str | None = None
    rivals: tuple[str, ...] = ()
    kernel: str | None = None
    headline: str = ""
    because: tuple[str, ...] = ()
    would_decide: tuple[str, ...] = ()
    sectors: tuple[SectorFinding, ...] = field(default_factory=tuple)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def too_little(tokens: int) -> Decision:
    """The verdict on a source that is too short to train on."""
    return Decision(
        "too little data",
        headline=f"Too little data: {tokens:,} tokens, and a diagnosis takes {FEWEST_TOKENS:,}.",
        because=("Nothing was trained: intervals would be wider than any difference.",),
        would_decide=(f"{FEWEST_TOKENS - tokens:,} more tokens of the same kind.",),
    )


def without_structure(best: str, gain: str, falling: bool) -> Decision:
    """The verdict where no model is below the unigram loss; ``gain`` is the interval of the best."""
    because = (
        f"Unigram entropy minus the loss of the best model ({NAMES[best]}): {gain} nats per token, not more "
        "than its interval.",
    )
    if falling:
        return Decision(
            "cannot tell",
            headline="Cannot tell: nothing has been learned yet, and the loss still falls.",
            because=because,
            would_decide=("A larger budget (--minutes), until the curve is flat.",),
        )
    return Decision(
        "no structure",
        headline="No structure: no model predicts these tokens better than their frequencies do.",
        because=because,
        would_decide=("More tokens, if there is structure that takes more data to learn.",),
    )


def without_order(worth: str, falling: bool) -> Decision:
    """The verdict where no position helps; ``worth`` is the interval of what it is worth."""
    because = (f"Position is worth {worth} nats per token, not more than its interval or 0.01.",)
    if falling:
        return Decision(
            "cannot tell",
            headline="Cannot tell: position is worth nothing yet, and the loss still falls.",
            because=because,
            would_decide=("A larger budget (--minutes), until the curve is flat.",),
        )
    return Decision(
        "order does not matter",
        kernel="none",
        headline="Order does not matter here: a model without position does as well as any.",
        because=because,
        would_decide=("More tokens or a longer window (--length), if order matters farther back.",),
    )
