"""Claims P-S1 to P-S5 and P-X1 from the rows of the teachers' grids: rules that give verdicts.

What counts was fixed before the runs, 0.03 in an accuracy or a lead; Holm's correction, the split of
P-S4 into sector and order, and the outcomes "reproduced in part" and "undecided" came after them.
Beside no position a method that learns nothing is no failure, so that only runs of the methods which
a claim praises are disqualified by a training loss above a coin's.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...analysis.claims import (
    Evidence,
    Finding,
    Outcome,
    Scale,
    Verdict,
    holm,
    measured,
)
from ...analysis.words import listed
from ...engine.result import Result
from .judging import (
    INIT_TEACHERS,
    JETS,
    ONE_RATE,
    InsufficientData,
    Rows,
    ahead,
    graded,
    growth,
    judged,
    lead,
    learners,
    named,
    pick,
)

LEADS = {  # claim → what names the sector or the order
    "P-S4a": {"gate_lead": "gate", "sector_lead": "function"},
    "P-S4b": {"mass_lead": "mass", "order_lead": "function"},
}


@judged("P-S1")
def claim_s1(result: Result) -> Verdict:
    """An affine attention teacher: recency and the union beat no position and the majority vote."""
    here = result.where(teacher="affine", times=1)
    sharpest = max((r["sharpness"] for r in here.rows if r["sharpness"]), default=None)
    here, out = learners(here.where(sharpness=sharpest), "affine", "full")
    found = {
        rival: [
            ahead(f"{m} - {rival}", pick(here, method=m), pick(here, method=rival))
            for m in ("affine", "full")
        ]
        for rival in ("none", "majority")
    }
    evidence = Evidence(scale=Scale.of(result), excluded=(out,))
    return graded("P-S1", found["none"], found["majority"], evidence=evidence)


@judged("P-S2")
def claim_s2(result: Result) -> Verdict:
    """A narrower support of the teacher widens the lead over no position, from every initial slope.

    The lead over the majority vote must grow too, and at the widest support no method lose to it.
    """
    swept = result.where(teacher="recency_weak_jet", times=1)
    sharpness = sorted({row["sharpness"] for row in swept.rows})
    if len(sharpness) < 2:
        raise InsufficientData("two sharpnesses")
    methods, ends = ("affine", "full"), (sharpness[0], sharpness[-1])
    slopes = sorted({row["slope"] for row in swept.where(method=methods).rows})
    if not slopes:
        raise InsufficientData(listed(methods))
    swept, out = learners(swept, *methods)
    votes = pick(swept, method="majority", sharpness=ends[0])
    core, rest, floor = [], [], []
    for slope in slopes:
        for m in methods:
            name = f"{m} from slope {slope:g}"
            core.append(growth(f"{name}, growth over none", swept, m, "none", ends, slope))
            rest.append(growth(f"{name}, growth over the vote", swept, m, "majority", ends, slope))
            wide = pick(swept, method=m, slope=slope, sharpness=ends[0])
            floor.append(ahead(f"{name} - the vote, widest", wide, votes))
    support = measured("lags that the widest support reaches", float(votes[0]["support"]), digits=0)
    evidence = Evidence((support,), Scale.of(result), excluded=(out,))
    return graded("P-S2", core, rest, floor, evidence=evidence)


@judged("P-S3")
def claim_s3(result: Result) -> Verdict:
    """Signed jets: Fourier jets beat recency and no position, with frequencies held and trained."""
    here, out = learners(result.where(teacher=JETS, sharpness=None), "fj")
    found: dict[tuple[str, int], list[Finding]] = {}
    for omega in ("frozen", "trained"):
        for times in (1, 2):
            found[omega, times] = [
                ahead(
                    f"fj - {m}, {jet} at {times} L, frequencies {omega}",
                    pick(here, method="fj", omega=omega, teacher=jet, times=times),
                    pick(here, method=m, teacher=jet, times=times),
                )
                for jet in JETS
                for m in ("affine", "none")
            ]
    core, *rest = found.values()
    others = [f for group in rest for f in group]
    evidence = Evidence(scale=Scale.of(result), excluded=(out,))
    return graded("P-S3", core, others, evidence=evidence)


def union_finds(claim: str, result: Result) -> Verdict:
    """Does the union find the sector (P-S4a) or the order (P-S4b) of a jet by itself?

    A lead is the share of the right one minus the largest other share, in the head that starts at
    the teacher's frequency. From uniform gates and orders, by gate or mass and by function, on all
    jets, at the protocol's rate: reproduced; at ten times the rate, or from the right start only:
    in part; else not at this scale.
    """
    slow = any(row.get("gate_lr") == ONE_RATE for row in result.rows)
    here = result.where(method="full", sharpness=None, times=1, teacher=JETS)
    rate = {"gate_lr": ONE_RATE} if slow else {}
    starts = {
        gates: {
            value: [(jet, pick(here, gates=gates, teacher=jet, **rate)) for jet in JETS]
            for value in LEADS[claim]
        }
        for gates in ("uniform", "right")
    }
    found = holm(
        lead(f"by {LEADS[claim][value]} from {gates} start, {jet}", rows, value)
        for gates, by in starts.items()
        for value, picked in by.items()
        for jet, rows in picked
    )
    half = len(found) // 2
    uniform, right = named(found[:half]), named(found[half:])
    begun = [
        measured(
            f"{LEADS[claim][value]} before training, right start, {jet}",
            [row[f"{value}_start"] for row in rows],
        )
        for value, picked in list(starts["right"].items())[:1]
        for jet, rows in picked
    ]
    speed = "gates and orders at " + ("the protocol's rate" if slow else "ten times the rate")
    because = (
        f"{speed}: the right one leads in {uniform} of {half} cases from uniform starts and in "
        f"{right} of {half} from the right start"
    )
    if claim == "P-S4a" and (told := _wrong_starts(result)):
        because += f"; {told}"
    outcome: Outcome = "reproduced in part" if half in (uniform, right) else "not at this scale"
    if uniform == half and slow:
        outcome = "reproduced"
    elif half not in (uniform, right) and not {f.word for f in found} & {"worse", "equal"}:
        outcome = "undecided"
    return Verdict(claim, outcome, because, Evidence((*found, *begun), Scale.of(result), _n(found)))


def _n(found: Iterable[Finding]) -> int:
    return min(f.summary.n for f in found)


def _wrong_starts(result: Result) -> str:
    """What gates read that started at a wrong sector and learned at ten times the rate."""
    here = result.where(method="full", times=1, gates="wrong")
    if not here.rows:
        return ""
    told = [
        lead(teacher, pick(here, gates="wrong", teacher=teacher, sharpness=sharp), "gate_lead")
        for teacher, sharp in INIT_TEACHERS
    ]
    return (
        f"at ten times the rate the gate names the sector from a wrong start too, for {named(told)} "
        f"of {len(told)} teachers: gates read their rate x steps"
    )


@judged("P-S4a")
def claim_s4a(result: Result) -> Verdict:
    """Does the union find the sector of a jet by itself? See :func:`union_finds`."""
    return union_finds("P-S4a", result)


@judged("P-S4b")
def claim_s4b(result: Result) -> Verdict:
    """Does the union find the order of a jet by itself? See :func:`union_finds`."""
    return union_finds("P-S4b", result)


@judged("P-S5")
def claim_s5(result: Result) -> Verdict:
    """The light-cone teacher: light-cone kernels lead at 4 L and keep what they had, jets do not."""
    ours, rivals = ("lc_affine", "full"), ("fj", "none")
    here, out = learners(result.where(teacher="lc_core", sharpness=None), *ours)
    at = {
        (m, times): pick(here, method=m, times=times) for m in (*ours, *rivals) for times in (1, 4)
    }
    core = [ahead(f"{m} - {r} at 4 L", at[m, 4], at[r, 4]) for m in ours for r in rivals]
    falls = [ahead("fj at L - at 4 L", at["fj", 1], at["fj", 4])]
    keeps = [ahead(f"{m} at 4 L - at L", at[m, 4], at[m, 1]) for m in ours]
    evidence = Evidence(scale=Scale.of(result), excluded=(out,))
    return graded("P-S5", core, falls, keeps, evidence=evidence)


@judged("P-X1")
def claim_x1(result: Result) -> Verdict:
    """On a jet, Fourier jets beat the order-0 bias and RoPE proper; q and k are free."""
    here, out = learners(result.where(sharpness=None, qk="free"), "fj")

    def at(method: str, teacher: str = "first_jet", times: int = 1) -> Rows:
        return pick(here, method=method, teacher=teacher, times=times, qk="free")

    core = [ahead("fj - order0", at("fj"), at("order0"))]
    rest = [ahead(f"fj - {m}", at("fj"), at(m)) for m in ("rope", "rope_given")]
    beside = [
        ahead(f"{m} - rope_given, {t} at {n} L", at(m, t, n), at("rope_given", t, n))
        for t in ("phase", "first_jet")
        for n in (1, 4)
        for m in ("rope", "order0", "fj")
        if (m, t, n) != ("fj", "first_jet", 1)
    ]
    slopes = [
        measured(f"{m} on a line that prefers far keys", [r["accuracy"] for r in at(m, "affine")])
        for m in ("none", "affine", "affine_signed")
    ]
    evidence = Evidence((*beside, *slopes), Scale.of(result), excluded=(out,))
    return graded("P-X1", core, rest, evidence=evidence)
