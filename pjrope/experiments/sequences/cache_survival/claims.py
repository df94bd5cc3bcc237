"""Claim J-K9 from the numbers: what of the Jordan mode a rounded cache leaves.

The rule was written before the run of the book's grid, after unrounded pilots of two seeds; that runs
which never trained are left out came after it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from ...analysis.claims import (
    SMALLEST_EFFECT,
    Evidence,
    Finding,
    Verdict,
    gap,
    measured,
    not_tested,
)
from ...analysis.words import listed
from ...engine.result import Result
from ..claims import CONTROLS, scale_of, trained
from .serving import PLAIN, ROTATED

COUPLED = ("exact", "stabilized")
BOTH = "keys, values"
Fewest = dict[str, int | None]


def claim_k9(result: Result) -> Verdict:
    """At how many bits of keys and values does a lead of the coupled mode survive?

    A coupled method *leads* if, unrounded, it is better than each control by at least 0.03 with a
    95 % interval that leaves out 0; it is judged at the longest exam at which it leads. The mode
    *survives* b bits there if, against each control rounded alike, it still leads, and the mean is
    at most 0.03 below the unrounded one. Keys are rounded after the position action; plain and
    rotated coordinates apart.

    For the method that goes furthest: *reproduced* if the mode survives at 4 bits and more in plain
    coordinates; *in part* if in rotated ones alone, or at more than 4 bits alone; *contradicted* if
    at no number of bits; *undecided* if no method leads. What the shear is worth to one model, and
    how the signal-to-noise ratio goes with the fall of accuracy, are told and decide nothing.
    """
    kept, out = trained(result)
    coupled = [m for m in COUPLED if kept.where(method=m).rows]
    if reason := _untested(kept, coupled):
        return not_tested("J-K9", reason, result)
    found: list[Finding] = []
    reached: list[Fewest] = []
    for method in coupled:
        times = _judged_at(kept, method)
        found += _leads(kept, method, times or max(_times(kept)), store="nothing")
        if times is not None:
            reached.append({b: _fewest(kept, method, times, b) for b in (PLAIN, ROTATED)})
            for basis, bits in reached[-1].items():
                if bits is not None:
                    found += _leads(kept, method, times, store=BOTH, basis=basis, bits=bits)
    beside = [f for method in coupled for f in (*_use(kept, method), *_correlation(kept, method))]
    seeds = min(f.summary.n for f in found)
    evidence = Evidence((*found, *beside), scale_of(result), seeds, (out,))
    return _judge(reached, evidence)


def _judge(reached: Sequence[Fewest], evidence: Evidence) -> Verdict:
    if not reached:
        because = (
            f"no trained model leads {listed(CONTROLS)} unrounded: there is nothing to survive"
        )
        return Verdict("J-K9", "undecided", because, evidence)
    plain = [bits for fewest in reached if (bits := fewest[PLAIN]) is not None]
    rotated = [bits for fewest in reached if (bits := fewest[ROTATED]) is not None]
    if plain and min(plain) <= 4:
        because = f"the lead survives down to {min(plain)} bits"
        return Verdict("J-K9", "reproduced", because, evidence)
    if rotated and min(rotated) <= 4:
        because = f"the lead survives down to {min(rotated)} bits in rotated coordinates alone"
        return Verdict("J-K9", "reproduced in part", because, evidence)
    if plain or rotated:
        because = f"the lead survives down to {min(plain + rotated)} bits only"
        return Verdict("J-K9", "reproduced in part", because, evidence)
    because = "the lead survives no rounding that was tried"
    return Verdict("J-K9", "contradicted", because, evidence)


def _untested(result: Result, coupled: Sequence[str]) -> str:
    """Why the rows cannot decide the claim; "" if they can."""
    methods = (*coupled, *CONTROLS)
    if not coupled or any(not result.where(method=m, store="nothing").rows for m in methods):
        return "it takes a coupled method and both controls, unrounded"
    bits = _bits(result)
    clean: list[dict[str, Any]] = [{"store": "nothing", "method": m} for m in methods]
    rounded: list[dict[str, Any]] = [
        {"store": BOTH, "method": m, "basis": basis, "bits": b}
        for m in methods
        for basis in (PLAIN, ROTATED)
        for b in bits
    ]
    needed = [result.where(**where).rows for where in (*clean, *rounded)]
    if not bits or not all(needed):
        return f"not every method has rounded keys and values in {PLAIN} and {ROTATED} coordinates"
    if len(set.intersection(*({row["seed"] for row in rows} for rows in needed))) < 2:
        return "from one seed nothing follows about what survives"
    fields = [f"accuracy_x{times}" for times in _times(result)]
    lost = {r["method"] for rows in needed for r in rows if any(r.get(f) is None for f in fields)}
    return f"accuracies of {listed(sorted(lost))} are not all finite" if lost else ""


def survives(clean: Finding, rounded: Finding) -> bool:
    """Whether a lead over one control is still there: see the rule of :func:`claim_k9`."""
    if clean.summary.mean is None or rounded.summary.mean is None:
        return False
    smallest = SMALLEST_EFFECT["accuracy"]
    return rounded.word == "better" and rounded.summary.mean >= clean.summary.mean - smallest


def _bits(result: Result) -> list[int]:
    """Bits tried of keys and values, most first."""
    return sorted({row["bits"] for row in result.where(store=BOTH).rows}, reverse=True)


def _times(result: Result, name: str = "accuracy") -> list[int]:
    """Multiples of L at which rows have a number, ``NAME_xTIMES``."""
    start = f"{name}_x"
    known = {field for row in result.rows for field in row if field.startswith(start)}
    return sorted(int(field.removeprefix(start)) for field in known)


def _leads(result: Result, method: str, times: int, **variant: Any) -> list[Finding]:
    how = f"{variant['bits']} bits, {variant['basis']}" if "bits" in variant else "unrounded"
    return [
        gap(
            result,
            f"accuracy_x{times}",
            method=method,
            baseline=control,
            where=variant,
            name=f"{method} - {control} at {times} L, {how}",
        )
        for control in CONTROLS
    ]


def _judged_at(result: Result, method: str) -> int | None:
    ahead = [
        times
        for times in _times(result)
        if all(f.word == "better" for f in _leads(result, method, times, store="nothing"))
    ]
    return max(ahead, default=None)


def _fewest(result: Result, method: str, times: int, basis: str) -> int | None:
    """The fewest bits at which, as at all more, the mode survives; None if at none."""
    clean, fewest = _leads(result, method, times, store="nothing"), None
    for bits in _bits(result):
        rounded = _leads(result, method, times, store=BOTH, basis=basis, bits=bits)
        if not all(map(survives, clean, rounded)):
            break
        fewest = bits
    return fewest


def _use(result: Result, method: str) -> Iterator[Finding]:
    """How much accuracy the shear is worth within one model, unrounded and rounded."""
    for times in _times(result.where(method=method), "unsheared"):
        with_, without = f"accuracy_x{times}", f"unsheared_x{times}"
        mine = [row for row in result.where(method=method).rows if without in row]
        for bits in sorted({row["bits"] for row in mine}, key=lambda b: (b > 0, -b)):
            here = [row for row in mine if row["bits"] == bits]
            how = f"{bits} bits" if bits else "unrounded"
            yield measured(
                f"accuracy that its shear is worth to {method} at {times} L, {how}",
                [None if None in (r[with_], r[without]) else r[with_] - r[without] for r in here],
            )


def _correlation(result: Result, method: str) -> Iterator[Finding]:
    """Pearson's r over the roundings of keys of one model, then mean over seeds."""
    rows = [row for row in result.where(method=method).rows if row.get("snr_far")]
    times = max(_times(Result(rows, result.card), "drop"), default=0)
    rows = [row for row in rows if row.get(f"drop_x{times}") is not None]
    found: list[float | None] = []
    for seed in sorted({row["seed"] for row in rows}):
        mine = [row for row in rows if row["seed"] == seed]
        x, y = [math.log10(r["snr_far"]) for r in mine], [r[f"drop_x{times}"] for r in mine]
        if len(mine) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
            return
        found.append(statistics.correlation(x, y))
    if found:
        what = f"Pearson's r of log SNR_J at far lags and the fall at {times} L"
        yield measured(f"{what}, {method}", found, digits=2)
