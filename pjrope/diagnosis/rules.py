"""The rule of a diagnosis: from evidence to a verdict.

Written before the planted series were run, but for point 4. It made the sector of least loss lead until
sixteen planted series had been seen; what it says now was written before the ten of the record
``simplest_first``.
"""

from __future__ import annotations

from . import words
from .arms import ARMS, SINGLES, UNION
from .decision import (
    FEWEST_TOKENS,
    Decision,
    SectorFinding,
    too_little,
    without_order,
    without_structure,
)
from .evidence import Evidence, interval

__all__ = ["decide"]

FLOOR = 0.01  # nats per token that matter at all
SHARE = 0.05  # of what position is worth: smaller differences do not matter
FALLING = 0.1  # of all that was learned: more than that in the second half is no flat curve
# Simplest first: what is recommended where several do. Of the two jets, the one that stays bounded.
BY_SIMPLICITY = ("none", "alibi", "affine", "near", "rope", "lc", "fj", "union")


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
    4. The *leading* sector is the simplest (recency, near lags, Fourier jets, light cone, in this order;
       the last two have equally many numbers)
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
        return without_structure(
            best, gain.text(sign=False), fall > FLOOR and gain.mean + fall > FLOOR
        )
    worth = evidence.gap("none", best, comparisons=len(ARMS) - 1)
    if best == "none" or worth.low is None or worth.low <= 0 or worth.mean < FLOOR:
        return without_order(worth.text(sign=False), falling)
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
