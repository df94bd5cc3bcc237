"""Claims P-G1 to P-G3 from the rows, by rules written before a learner was trained here.

The protocol's own figures (three seeds, from its own gates) were known, ours were not. A *run* is
one start of one seed at one frequency. "From the protocol's start" means from gate logits 0, -0.2,
-0.2 of fj, affine and lc; in the grid of frequencies also with restarts that each prefer another
order, as the protocol's own probe has them.

Added after the first record was seen, and without a part in any verdict: runs that name the wrong
sector or order are told apart by their fit. Where R² on d < 4L is below 0.9 the kernel holds another
function than the teacher's, and names that are wrong of the teacher may be right of the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.words import listed
from ...engine.store import Result, select
from ..fixed_kernel import TARGETS
from ..teachers import TEACHERS
from .named import (
    FITTED,
    Right,
    Row,
    by_gate,
    by_mass,
    by_rms,
    by_spectrum,
    by_worth,
    fitted,
    has_order,
    misses,
    order_is_right,
    rest,
    sector_far,
    sector_is_right,
    split,
)

__all__ = ["CYCLED", "INITIAL", "PROTOCOL", "claims_g"]

PROTOCOL = (0.0, -0.2, -0.2)
CYCLED = "cycled"  # the protocol's gates, and another preferred order in each restart
INITIAL = ("protocol", "uniform", "fj", "affine", "lc")
PURE = ("phase", "first_jet", "second_jet", "third_jet")  # made of one order alone
NAMERS = ("gate", "mass", "rms")  # of sectors
SPECTRA = ("mass", "energy", "loo")  # of orders
NEGLIGIBLE = 0.05  # of what the teacher's order is worth
REPRODUCED, CAVEAT, NOT = "reproduced", "reproduced with a caveat", "not reproduced"

Rows = Sequence[Row]


def claims_g(result: Result) -> list[str]:
    """Sentences on the three claims and on each teacher; none for a filtered run.

    From one seed none of the three is judged.
    """
    rows = result.rows
    if {row["target"] for row in rows} != {*TARGETS} or not _own(rows) or not _uniform(rows):
        return []
    claims = {"P-G1": sector_claim, "P-G2": order_claim, "P-G3": spectrum_claim}
    if _seeds(rows) < 2:
        told = [f"{name}, not tested: from one seed nothing follows." for name in claims]
    else:
        told = [sentence for claim in claims.values() for sentence in claim(rows)]
    return [
        *told,
        *recovery(rows),
        *(_teacher(select(rows, {"target": target}), target) for target in TARGETS),
        _disagreement(rows),
        _windows(rows),
        _without_order(rows),
    ]


def sector_claim(rows: Rows) -> list[str]:
    """G1: the largest gate is that of the teacher's sector.

    Rule: *reproduced* if in every run; *with a caveat* if in every run from the protocol's start,
    but not from some others; *not reproduced* otherwise.
    """
    return _claim("P-G1", "the largest gate is that of the teacher's sector", rows, by_gate)


def order_claim(rows: Rows) -> list[str]:
    """G2: the order of the largest mass is the teacher's. Rule as for G1; linear has no order."""
    what = "the order of the largest mass is the teacher's"
    return _claim("P-G2", what, _with_order(rows), by_mass)


def spectrum_claim(rows: Rows) -> list[str]:
    """G3: only the teacher's order is worth something, and its energy is the largest.

    For the phase and the three jets, which are made of one order. Rule: *reproduced* if in every
    run energy and leave-one-out are largest at the teacher's order and leave-one-out at every
    other order is at most 5 % of that; *with a caveat* if in every run from the protocol's start
    both are largest there; *not reproduced* otherwise.
    """
    pure = select(rows, {"target": PURE})
    own = _own(pure)

    def alone(row: Row) -> bool:
        return by_spectrum(row) and rest(row) <= NEGLIGIBLE

    fallback = CAVEAT if all(map(by_spectrum, own)) else NOT
    worst = max(map(rest, own))
    up_to = f"up to {worst:.1%} of the teacher's" if worst > 0 else "nothing"
    if worst >= 1:
        up_to = "as much as the teacher's or more"
    return [
        f"P-G3, {REPRODUCED if all(map(alone, pure)) else fallback}: on the phase and the jets "
        f"energy and leave-one-out are both largest at the teacher's order in "
        f"{_count(pure, by_spectrum)} runs, {_count(own, by_spectrum)} from the protocol's start; "
        f"no other order is worth more than {NEGLIGIBLE:.0%} of it in {_count(pure, alone)} and "
        f"{_count(own, alone)}. From the protocol's start another order is worth {up_to}.",
        f"P-G3, runs in which another order is the largest: {split(pure, by_spectrum)}.",
    ]


def recovery(rows: Rows) -> list[str]:
    """From uniform gates: which teachers are recovered, sector and order, by which diagnostic."""
    uniform = _uniform(rows)
    ways: tuple[tuple[str, Right, Right], ...] = (
        ("gate and mass", by_gate, by_mass),
        ("rms on d < L and leave-one-out", by_rms, by_worth),
    )
    told = []
    for name, sector, order in ways:
        kept: list[str] = []
        lost: list[str] = []
        for target in TARGETS:
            runs = select(uniform, {"target": target})
            both = [r for r in runs if sector(r) and (not has_order(r) or order(r))]
            told_of = kept if len(both) == len(runs) else lost
            told_of.append(target if len(both) == len(runs) else f"{target} ({_of(both, runs)})")
        told.append(
            f"From uniform gates, {name} name sector and order of {len(kept)} of {len(TARGETS)} "
            f"teachers in every run{'' if lost else '.'}"
            + (f"; not always of {listed(lost)}." if lost else "")
        )
    return told


def _teacher(rows: Rows, target: str) -> str:
    """One teacher: in how many runs, from all initial gates, each diagnostic is right."""
    teacher = TEACHERS[target]
    sectors = ", ".join(f"{n} {_count(rows, sector_is_right(n))}" for n in NAMERS)
    error = max(row["train_mse"] for row in rows)
    told = f"{target} ({teacher.formula}): sector {teacher.sector} named by {sectors}"
    if teacher.order is not None:
        orders = ", ".join(f"{n} {_count(rows, order_is_right(n))}" for n in SPECTRA)
        told += f"; order {teacher.order} by {orders}"
    lost = misses(rows, by_gate, teachers=False)
    return (
        f"{told}; gates mistaken {lost}; largest train error {error:.1e}, R² on d < 4L below "
        f"{FITTED} in {_count(rows, lambda row: not fitted(row))}."
    )


def _disagreement(rows: Rows) -> str:
    differ = [row for row in rows if row["sector_by_gate"] != row["sector_by_rms"]]
    right = _count(differ, by_rms)
    worst = max(differ, key=lambda row: row[f"gate_{row['sector_by_gate']}"], default=None)
    told = f"Gate and rms name different sectors in {len(differ)} of {len(rows)} runs"
    if worst is None:
        return f"{told}."
    gate, rms = worst["sector_by_gate"], worst["sector_by_rms"]
    return (
        f"{told}; rms is right in {right} of these. The clearest: on {worst['target']} from "
        f"{worst['method']} the gate of {gate} ends at {worst[f'gate_{gate}']:.2f}, while the rms "
        f"of {rms} is {worst[f'rms_{rms}']:.3g} and that of {gate} {worst[f'rms_{gate}']:.3g}."
    )


def _windows(rows: Rows) -> str:
    """Runs in which rms would name another sector on the lags of the other diagnostics.

    Of a teacher of two sectors, the larger one depends on the window: a jet outgrows a distance.
    """
    found: dict[str, list[str]] = {}
    for row in rows:
        if sector_far(row) != row["sector_by_rms"]:
            found.setdefault(row["target"], []).append(sector_far(row))
    told = (
        "Rms names the sector on d < L; on d < 4L, the lags of energies and leave-one-out, it "
        f"names another in {sum(map(len, found.values()))} of {len(rows)} runs"
    )
    each = [
        f"{sector} on {target} ({sectors.count(sector)} of {len(select(rows, {'target': target}))})"
        for target, sectors in found.items()
        for sector in dict.fromkeys(sectors)
    ]
    return f"{told}: {listed(each)}." if each else f"{told}."


def _without_order(rows: Rows) -> str:
    linear = select(rows, {"target": "linear"})
    tops = sorted({row["order_by_mass"] for row in linear})
    share = max(row["rms_fj"] + row["rms_lc"] for row in linear)
    rms = min(row["rms_affine"] for row in linear)
    return (
        "Order masses leave the affine sector out: linear, which has no order, gets top order "
        f"{listed(map(str, tops))}, from jets of rms at most {share:.2g} beside a distance of "
        f"rms {rms:.2g} or more."
    )


def _claim(name: str, what: str, rows: Rows, right: Right) -> list[str]:
    own = _own(rows)
    word = REPRODUCED if all(map(right, rows)) else CAVEAT if all(map(right, own)) else NOT
    return [
        f"{name}, {word}: {what} in {_count(rows, right)} runs, {_count(own, right)} from the "
        f"protocol's start; tried: {listed(_starts(rows))}.",
        f"{name}, runs in which it is another: {split(rows, right)}.",
    ]


def _own(rows: Rows) -> list[Row]:
    """Runs from the protocol's start: of the grid of frequencies, "cycled"."""
    return select(rows, {"method": CYCLED}) or select(rows, {"method": "protocol"})


def _seeds(rows: Rows) -> int:
    """How many seeds there are of the teacher and start that has the fewest."""
    found: dict[tuple, set[int]] = {}
    for row in rows:
        found.setdefault((row["target"], row["method"], row["cycles"]), set()).add(row["seed"])
    return min(map(len, found.values()))


def _starts(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _uniform(rows: Rows) -> list[Row]:
    return select(rows, {"method": "uniform"})


def _with_order(rows: Rows) -> list[Row]:
    return [row for row in rows if has_order(row)]


def _of(some: Rows, rows: Rows) -> str:
    return f"{len(some)} of {len(rows)}"


def _count(rows: Rows, right: Right) -> str:
    return f"{sum(map(right, rows))} of {len(rows)}"
