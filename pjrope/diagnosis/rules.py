"""The rule of a diagnosis: from evidence to a verdict.

Written before the planted series were run, but for point 4. It made the sector of least loss lead until
sixteen planted series had been seen; what it says now was written before the ten of the record
``simplest_first``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from . import words
from .arms import ARMS, NAMES, SINGLES, UNION
from .evidence import Evidence, interval

__all__ = ["FEWEST_TOKENS", "Decision", "SectorFinding", "decide", "too_little"]

FEWEST_TOKENS = 20_000
FLOOR = 0.01  # nats per token that matter at all
SHARE = 0.05  # of what position is worth: smaller differences do not matter
FALLING = 0.1  # of all that was learned: more than that in the second half is no flat curve
# Simplest first: what is recommended where several do.
BY_SIMPLICITY = ("none", "alibi", "affine", "near", "rope", "lc", "fj", "union")
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


def decide(evidence: Evidence) -> Decision:
    """Apply the rule.

    1. Fewer than 20,000 tokens: *too little data*.
    2. The best arm is not below the unigram loss by more than its interval: *no structure*, or
       *cannot tell* if as long a training again would bring it 0.01 below at the rate at which its loss
       fell in the second half. Intervals are t-intervals over held-out segments, 95 %
       for all arms together.
    3. No arm is below "no position" by more than its interval and 0.01 nats: *order does not
       matter*. What position is worth, W, is the loss without position minus the least loss. A
       difference matters from m = max(0.01, W/20) on.
    4. The *leading* sector is the simplest (recency, near lags, Fourier jets, light cone, in this order)
       whose loss alone is less than m above the least. A simpler one is its rival unless its lag behind
       excludes 0, for all three comparisons together, and has the same sign in every seed. A lag that
       learning might undo is none: the loss of the simpler one fell more in the second half of its training
       than the leader's by at least the lag. A less simple one is a rival if the interval of what it gains
       over the leader reaches above m.
    5. A sector is *used* if leaving it out of the union costs at least m, with an interval over all
       runs (starts and seeds) above 0, and at least m/2 in three of four starts; *not needed* if the
       upper end is below m; else *cannot tell*. An order of a jet counts by the first two.
    6. *Found* if one sector leads without rivals and the curve is flat: the union's loss fell in the
       second half by at most a tenth of all that it learned. Else *cannot tell*.
    7. *Recommended* is the simplest arm within m of the least loss both at L and at the longest
       length; if there is none, the one with the least worst lag behind. Where the curve is not flat the
       recommendation is for now.

    Args:
        evidence: the summaries.
    """
    if evidence.tokens < FEWEST_TOKENS:
        return too_little(evidence.tokens)
    best = min(ARMS, key=lambda arm: sum(evidence.loss(arm)))
    pairs = zip(evidence.unigram, evidence.loss(best), strict=True)
    gain = interval([u - v for u, v in pairs], len(ARMS))
    falling = evidence.falls[UNION] > max(FLOOR, FALLING * evidence.learned)
    if gain.low is None or gain.low <= 0:
        fall = evidence.falls[best]
        return _without_structure(
            best, gain.text(sign=False), fall > FLOOR and gain.mean + fall > FLOOR
        )
    worth = evidence.gap("none", best, comparisons=len(ARMS) - 1)
    if best == "none" or worth.low is None or worth.low <= 0 or worth.mean < FLOOR:
        return _without_order(evidence, worth.text(sign=False), falling)
    matters = max(FLOOR, SHARE * worth.mean)
    leading, rivals = _leader(evidence, matters)
    sectors = tuple(_finding(evidence, s, matters, worth.mean) for s in SINGLES)
    kernel, behind = _recommended(evidence, matters)
    stable = {f.sector: f.stable for f in sectors if f.status == "cannot tell"}
    found = not rivals and not falling
    return Decision(
        "found" if found else "cannot tell",
        leading=None if rivals else leading,
        rivals=(leading, *rivals) if rivals else (),
        kernel=kernel,
        headline=words.headline(kernel, leading, rivals, falling),
        because=words.because(
            evidence,
            leading,
            rivals,
            (kernel, behind),
            gain.text(sign=False),
            worth.text(sign=False),
            matters,
        ),
        would_decide=words.still_open(evidence, leading, rivals, stable, falling),
        sectors=sectors,
    )


def _without_structure(best: str, gain: str, falling: bool) -> Decision:
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


def _without_order(evidence: Evidence, worth: str, falling: bool) -> Decision:
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


def _leader(evidence: Evidence, matters: float) -> tuple[str, tuple[str, ...]]:
    loss = {s: sum(evidence.loss(s)) / len(evidence.loss(s)) for s in SINGLES}
    leading = next(s for s in SINGLES if loss[s] < min(loss.values()) + matters)
    place = SINGLES.index(leading)
    simpler = [s for s in SINGLES[:place] if not _behind(evidence, s, leading)]
    richer = [s for s in SINGLES[place + 1 :] if _may_gain(evidence, s, leading, matters)]
    return leading, (*simpler, *richer)


def _behind(evidence: Evidence, other: str, leading: str) -> bool:
    """Whether a simpler sector is behind for good."""
    lag = evidence.gap(other, leading, comparisons=len(SINGLES) - 1)
    clear = lag.low is not None and lag.low > 0 and evidence.same_sign(other, leading)
    return clear and evidence.falls[other] - evidence.falls[leading] < lag.mean


def _may_gain(evidence: Evidence, other: str, leading: str, matters: float) -> bool:
    """Whether a less simple sector may be better than the leading one by what matters."""
    gain = evidence.gap(leading, other, comparisons=len(SINGLES) - 1)
    return gain.high is None or gain.high > matters


def _finding(evidence: Evidence, sector: str, matters: float, worth: float) -> SectorFinding:
    by_start = evidence.left_out[sector]
    runs = interval([v for values in by_start.values() for v in values])
    stable = sum(sum(v) / len(v) >= matters / 2 for v in by_start.values())
    clear = runs.low is not None and runs.low > 0 and runs.mean >= matters
    if clear and stable >= 0.75 * len(by_start):
        status = "used"
    elif runs.high is not None and runs.high < matters:
        status = "not needed"
    else:
        status = "cannot tell"
    orders = []
    for part, starts in evidence.left_out.items():
        if part.startswith(f"{sector} "):
            found = interval([v for values in starts.values() for v in values])
            if found.low is not None and found.low > 0 and found.mean >= matters:
                orders.append(int(part.split()[1]))
    return SectorFinding(
        sector,
        status,
        left_out=runs.to_json(),
        stable=(stable, len(by_start)),
        alone=evidence.gap(sector, UNION).to_json(),
        share=evidence.gap("none", sector).mean / worth,
        orders=tuple(orders),
    )


def _recommended(evidence: Evidence, matters: float) -> tuple[str, float]:
    """The arm, and how far it is behind the best at worse of the two lengths."""
    behind = {}
    for arm in ARMS:
        gaps = []
        for far in (False, True):
            mean = {a: sum(v) / len(v) for a in ARMS for v in [evidence.loss(a, far=far)]}
            gaps.append(mean[arm] - min(mean.values()))
        behind[arm] = max(gaps)
    near_enough = [arm for arm in BY_SIMPLICITY if behind[arm] <= matters]
    arm = near_enough[0] if near_enough else min(ARMS, key=lambda a: behind[a])
    return arm, behind[arm]
