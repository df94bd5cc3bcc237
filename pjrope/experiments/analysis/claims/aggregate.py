"""What several experiments say about one claim together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .paper_claim import PaperClaim, Scale
from .verdict import OUTCOMES, Evidence, Outcome, Verdict

__all__ = ["combine"]

DECIDED: tuple[Outcome, ...] = OUTCOMES[:4]
Named = Mapping[str, Verdict]


def combine(claim: PaperClaim, verdicts: Named) -> Verdict:
    """Return one verdict for a claim from those of its experiments.

    The rule of all claims that have none of their own: experiments that did not test the claim
    count only if no other did; undecided ones only if none decided. Those that agree give their
    outcome; those that differ give "reproduced in part" if any reproduced it wholly or in part,
    "contradicted" otherwise, and the reason names who said what.

    Args:
        claim: with the reason that is given where nothing speaks to it.
        verdicts: experiment (with its grid) → its verdict.
    """
    if not verdicts:
        reason = claim.untested or "no recorded experiment has a rule for it yet"
        return Verdict(claim.id, "not tested", reason)
    return AGGREGATES.get(claim.id, _agree)(claim.id, verdicts)


def _agree(claim: str, verdicts: Named) -> Verdict:
    for outcomes in (DECIDED, ("undecided",), ("not tested",)):
        heard = {name: v for name, v in verdicts.items() if v.outcome in outcomes}
        if heard:
            break
    outcomes_heard = {v.outcome for v in heard.values()}
    if len(outcomes_heard) == 1:
        outcome = next(iter(outcomes_heard))
    elif outcomes_heard & {"reproduced", "reproduced in part"}:
        outcome = "reproduced in part"
    else:
        outcome = "contradicted"
    return _joined(claim, outcome, heard)


def _joined(claim: str, outcome: Outcome, heard: Named, lead: str = "") -> Verdict:
    if len(heard) == 1:
        only = next(iter(heard.values()))
        return Verdict(claim, outcome, only.because, only.evidence)
    told = "; ".join(f"{name} ({v.outcome}): {v.because}" for name, v in heard.items())
    return Verdict(claim, outcome, lead + told, _evidence(heard))


def _evidence(heard: Named) -> Evidence:
    parts = [v.evidence for v in heard.values()]
    return Evidence(
        tuple(f for part in parts for f in part.findings),
        max((part.scale for part in parts), key=_size),
        min((part.seeds for part in parts if part.seeds), default=0),
        tuple(e for part in parts for e in part.excluded),
    )


def _size(scale: Scale) -> tuple[int, int]:
    return (scale.longest or 0, scale.length or 0)


def _all_benchmarks(claim: str, verdicts: Named) -> Verdict:
    """P-F4: a benchmark that resolves the light cone as well as the others counts against it."""
    joined = _agree(claim, verdicts)
    wholly = [name for name, v in verdicts.items() if v.outcome == "reproduced"]
    lead = f"{len(wholly)} of {len(verdicts)} benchmarks reproduce it whole; "
    if len(verdicts) == 1:
        return joined
    return Verdict(claim, joined.outcome, lead + joined.because, joined.evidence)


def _different_models(claim: str, verdicts: Named) -> Verdict:
    """P-L5: recency alone and recency with other sectors are different models, and differ."""
    joined = _agree(claim, verdicts)
    if len({v.outcome for v in verdicts.values()} & set(DECIDED)) < 2:
        return joined
    lead = "the experiments test different models, and differ: "
    return Verdict(claim, joined.outcome, lead + joined.because, joined.evidence)


def _protocols_rate(claim: str, verdicts: Named) -> Verdict:
    """P-S4: the grid that has gates and orders learn at the protocol's rate decides."""
    joined = _agree(claim, verdicts)
    main = verdicts.get("teacher_sequences/inits")
    if main is None or main.outcome not in DECIDED:
        return joined
    return Verdict(claim, main.outcome, joined.because, main.evidence)


AGGREGATES: Mapping[str, Callable[[str, Named], Verdict]] = {
    "P-F4": _all_benchmarks,
    "P-L5": _different_models,
    "P-S4a": _protocols_rate,
    "P-S4b": _protocols_rate,
}
