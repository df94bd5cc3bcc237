"""Claim J-K9 from the numbers: what of the Jordan mode a rounded cache leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...analysis.statistics import Summary, summary, verdict
from ...analysis.words import listed
from ...codes.resolution_claim import shared_seeds
from ...engine.store import Result, select
from ..phase_claim import CONTROLS
from ..training import SMALLEST_EFFECT
from .serving import PLAIN, ROTATED

__all__ = ["COUPLED", "claim_k9", "survives"]

COUPLED = ("exact", "stabilized")
BOTH = "keys, values"
Rows = Sequence[Mapping[str, Any]]


def claim_k9(result: Result | Rows) -> list[str]:
    """Say how many bits of keys and values the Jordan mode survives, from paired differences.

    The rule, written before the run of the book's grid; unrounded pilots of two seeds were seen.

    *Advantage* of a coupled method: its accuracy minus that of a control, seed by seed, both
    rounded alike. It *has* one if, unrounded, it is better than each control (rope_trunc,
    direct_sum_grid) by at least 0.03 with a 95 % interval that leaves out 0. It is judged at the
    longest exam at which it has one.

    The mode *survives* b bits there if, against each control, the rounded advantage exceeds 0.03
    with an interval that leaves out 0, and its mean is at most 0.03 below the unrounded one. Keys
    and values are rounded, keys after the position action; plain and rotated coordinates apart.

    Claim J-K9, for the coupled method that goes furthest: *reproduced* if the mode survives at 4
    bits and more in plain coordinates; *with a caveat* if it does so in rotated coordinates alone,
    or needs more than 4 bits; *not reproduced* if it survives at no number of bits. If no coupled
    method has an advantage at any length there is nothing to survive, and the claim is not decided.

    Besides, the *use* of the mode: accuracy minus that of the same weights served with a shear of
    0, rounded alike. It is a mean and no part of the verdict.

    Args:
        result: rows of ``cache_survival``.

    Returns:
        Sentences; none where a method, a control or the unrounded rows are missing. The claim is
        *not tested* where rounded rows are missing, where fewer than two seeds have every row that
        is needed, and where one of these has no finite accuracy.
    """
    rows = result.rows if isinstance(result, Result) else result
    methods = {row["method"] for row in rows}
    coupled = [m for m in COUPLED if m in methods]
    if not coupled or not methods >= set(CONTROLS):
        return []
    if (reason := _untested(rows, (*coupled, *CONTROLS))) is not None:
        return [f"{reason} Claim J-K9: not tested."] if reason else []
    said, reached = [], []
    for method in coupled:
        times = _judged_at(rows, method)
        if times is None:
            said.append(
                f"{method} has no advantage over {listed(CONTROLS)} at any length, unrounded "
                f"({_gaps_text(rows, method, max(_times(rows)))} at {max(_times(rows))} L): there is "
                "nothing to survive."
            )
        else:
            fewest = {b: _fewest(rows, method, times, b) for b in (PLAIN, ROTATED)}
            reached.append(fewest)
            said.append(
                f"At {times} L {method} is ahead of its controls, unrounded "
                f"({_gaps_text(rows, method, times)}). That advantage {_bits_text(fewest)}."
            )
        said += _use(rows, method)
    return [*said, *_correlation(rows, coupled), _verdict(reached)]


def _untested(rows: Rows, methods: Sequence[str]) -> str | None:
    """Why the rows cannot decide the claim: "" if unrounded ones are missing, None if they can."""
    bits = sorted({row["bits"] for row in select(rows, {"store": BOTH})})
    clean = [{"store": "nothing", "method": m} for m in methods]
    rounded = [
        {"store": BOTH, "method": m, "basis": basis, "bits": b}
        for m in methods
        for basis in (PLAIN, ROTATED)
        for b in bits
    ]
    if shared_seeds(rows, clean) is None:
        return ""
    seeds = shared_seeds(rows, [*clean, *rounded])
    if not bits or seeds is None:
        return f"Not every method has rounded keys and values in {PLAIN} and {ROTATED} coordinates."
    if len(seeds) < 2:
        return "From one seed nothing follows about what survives."
    read = [row for where in (*clean, *rounded) for row in select(rows, where)]
    fields = [f"accuracy_x{times}" for times in _times(rows)]
    lost = sorted({row["method"] for row in read if any(row.get(f) is None for f in fields)})
    return f"Accuracies of {listed(lost)} are not all finite." if lost else None


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def survives(clean: Summary, rounded: Summary) -> bool:
    """Whether an advantage over one control is still there: see the rule of :func:`claim_k9`."""
    if clean.mean is None or rounded.mean is None:
        return False
    return (
        verdict(rounded, SMALLEST_EFFECT, "higher") == "better"
        and rounded.mean >= clean.mean - SMALLEST_EFFECT
    )


def _times(rows: Rows, name: str = "accuracy") -> list[int]:
    """Multiples of L at which rows have a number, ``NAME_xTIMES``."""
    start = f"{name}_x"
    known = {field for row in rows for field in row if field.startswith(start)}
    return sorted(int(field.removeprefix(start)) for field in known)


def _gap(rows: Rows, method: str, control: str, times: int, **variant: Any) -> Summary:
    here = select(rows, variant)
    sides = [
        {row["seed"]: row[f"accuracy_x{times}"] for row in select(here, {"method": m})}
        for m in (method, control)
    ]
    shared = sorted(sides[0].keys() & sides[1].keys())
    return summary(_minus(sides[0][s], sides[1][s]) for s in shared)


def _clean(rows: Rows, method: str, control: str, times: int) -> Summary:
    return _gap(rows, method, control, times, store="nothing")


def _judged_at(rows: Rows, method: str) -> int | None:
    ahead = [
        times
        for times in _times(rows)
        if all(
            verdict(_clean(rows, method, c, times), SMALLEST_EFFECT, "higher") == "better"
            for c in CONTROLS
        )
    ]
    return max(ahead, default=None)


def _gaps_text(rows: Rows, method: str, times: int) -> str:
    return listed(f"{_clean(rows, method, c, times).text(sign=True)} to {c}" for c in CONTROLS)


def _fewest(rows: Rows, method: str, times: int, basis: str) -> int | None:
    """The fewest bits at which, as at all more, the mode survives; None if at none."""
    tried = sorted({row["bits"] for row in select(rows, {"store": BOTH})}, reverse=True)
    fewest = None
    for bits in tried:
        here = {"store": BOTH, "basis": basis, "bits": bits}
        if not all(
            survives(_clean(rows, method, c, times), _gap(rows, method, c, times, **here))
            for c in CONTROLS
        ):
            break
        fewest = bits
    return fewest


def _bits_text(fewest: Mapping[str, int | None]) -> str:
    def part(basis: str) -> str:
        bits = fewest[basis]
        if bits is None:
            return f"survives no rounding in {basis} coordinates"
        return f"survives {bits} bits and more in {basis} coordinates"

    return f"{part(PLAIN)} and {part(ROTATED)}"


def _use(rows: Rows, method: str) -> list[str]:
    """How much accuracy the shear is worth within one model, unrounded and rounded."""
    said = []
    for times in _times(select(rows, {"method": method}), "unsheared"):
        without = f"unsheared_x{times}"
        mine = [r for r in select(rows, {"method": method}) if without in r]
        parts = []
        for bits in sorted({row["bits"] for row in mine}, key=lambda b: (b > 0, -b)):
            here = select(mine, {"bits": bits})
            worth = summary(_minus(r[f"accuracy_x{times}"], r[without]) for r in here)
            parts.append(f"{worth.text(sign=True)} {f'at {bits} bits' if bits else 'unrounded'}")
        said.append(f"Its shear is worth to it, in accuracy at {times} L: {listed(parts)}.")
    return said


def _correlation(rows: Rows, coupled: Sequence[str]) -> list[str]:
    """Pearson's r over the variants of rounded keys of one model, then mean over seeds."""
    said = []
    for method in coupled:
        here = [r for r in select(rows, {"method": method}) if r.get("snr_far")]
        times = max(_times(here, "drop"), default=0)
        here = [r for r in here if r.get(f"drop_x{times}") is not None]
        if not here:
            continue
        found = []
        for seed in sorted({row["seed"] for row in here}):
            mine = select(here, {"seed": seed})
            x = [math.log10(r["snr_far"]) for r in mine]
            found.append(_pearson(x, [r[f"drop_x{times}"] for r in mine]))
        if all(r is not None for r in found):
            said.append(
                f"{method}: Pearson's r of log SNR_J at far lags and the fall of accuracy at "
                f"{times} L, over the roundings of keys of one model: "
                f"{summary(found).text(2, sign=True)}."
            )
    return said


def _pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    if len(x) < 3:
        return None
    mx, my = sum(x) / len(x), sum(y) / len(y)
    xy = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    xx, yy = sum((a - mx) ** 2 for a in x), sum((b - my) ** 2 for b in y)
    return xy / math.sqrt(xx * yy) if xx > 0 and yy > 0 else None


def _verdict(reached: Sequence[Mapping[str, int | None]]) -> str:
    if not reached:
        return "Claim J-K9: not decided, no trained model has an advantage that could survive."
    plain = [bits for f in reached if (bits := f[PLAIN]) is not None]
    turned = [bits for f in reached if (bits := f[ROTATED]) is not None]
    if plain and min(plain) <= 4:
        return f"Claim J-K9: reproduced, the advantage survives down to {min(plain)} bits."
    if turned and min(turned) <= 4:
        return (
            f"Claim J-K9: reproduced with a caveat: down to {min(turned)} bits, but in rotated "
            "coordinates alone."
        )
    if plain or turned:
        return f"Claim J-K9: reproduced with a caveat: only down to {min(plain + turned)} bits."
    return "Claim J-K9: not reproduced, the advantage survives no rounding that was tried."
