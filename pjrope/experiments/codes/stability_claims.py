"""Claims P-F1 to P-F3, P-U1 and P-U2 from ``lightcone_stability``.

The rules of P-F were written from the wording of the claims before the record was made, when the
published figures were known, and P-F1 was changed since; those of P-U were written after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from ..analysis.claims import Evidence, Finding, Outcome, Scale, Verdict, measured, not_tested
from ..analysis.words import listed
from ..engine.result import Result
from .lag_codes import CYCLES, MAX_ORDER, PROTOCOLS

__all__ = ["RULES", "stability_sentences"]

GROWING = ("raw", "scaled")
CODES = ("lc", *GROWING)
PAPER_POSITIONS = 32768  # the most that the reference has
Rows = Mapping[tuple[str, str, int], Mapping[str, Any]]
Rule = Callable[[Result, Rows], Verdict]


def _rows(result: Result) -> Rows:
    """Rows by protocol, method and positions; those on number types are left out."""
    rows = [row for row in result.rows if "protocol" in row]
    return {(row["protocol"], row["method"], row["positions"]): row for row in rows}


def _positions(rows: Rows) -> list[int]:
    return sorted({positions for _, _, positions in rows})


def _bounded(rows: Rows, method: str) -> bool:
    places = [rows[p, method, n] for p in PROTOCOLS for n in _positions(rows)]
    return all(row["norm"] < 2 and row["bias"] < 1 for row in places)


def _evidence(result: Result, *findings: Finding) -> Evidence:
    return Evidence(findings, Scale.of(result), 1)


def _rough(name: str, value: float) -> Finding:
    return measured(name, value, 2, "scientific")


def bound_claim(result: Result, rows: Rows) -> Verdict:
    """P-F1, on codes: light-cone coordinates bound norms and biases.

    Rule: *reproduced* if lc has a norm below 2 and a bias below 1 at every number of positions (at
    first: "at the most positions") and by both protocols, while raw and scaled each pass both
    somewhere; *in part* if, besides, another variant is bounded as well, so that the light cone is
    not needed for it; *contradicted* otherwise.
    """
    places = _positions(rows)
    peaks = {
        (m, value): max(rows["paper", m, n][value] for n in places)
        for m in CODES
        for value in ("norm", "bias")
    }
    grows = all(peaks[m, "norm"] > 2 and peaks[m, "bias"] > 1 for m in GROWING)
    methods = dict.fromkeys(method for _, method, _ in rows)
    others = [m for m in methods if m != "lc" and _bounded(rows, m)]
    outcome: Outcome = "reproduced in part" if others else "reproduced"
    held = "" if _bounded(rows, "lc") else "not "
    because = f"to {places[-1]:,} positions lc is {held}bounded by norm 2 and bias 1; bounded as "
    because += f"well: {listed(others or ['none'])}"
    found = [_rough(f"largest norm of {m}", peaks[m, "norm"]) for m in GROWING]
    found += [measured(f"{value} of lc", peaks["lc", value], 7) for value in ("norm", "bias")]
    outcome = outcome if _bounded(rows, "lc") and grows else "contradicted"
    return Verdict("P-F1", outcome, because, _evidence(result, *found))


def phase_claim(result: Result, rows: Rows) -> Verdict:
    """P-F2: the light-cone phase slows down as L / sqrt(d^2 + L^2).

    Rule: *reproduced* if at every number of positions the last phase step of lc is within 0.2 % of
    the mean of that over the step by the fair protocol, and if the far spans at 32,768 by the
    paper's are 73.96 and 1708.9 radians; *contradicted* otherwise.
    """
    length, off = result.card["settings"]["length"], 0.0
    for n in _positions(rows):
        step = length * (math.asinh((n - 1) / length) - math.asinh((n - 2) / length))
        off = max(off, abs(rows["fair", "lc", n]["phase_ratio"] / step - 1))
    bent, straight = (rows["paper", m, PAPER_POSITIONS]["span"] for m in ("lc", "raw"))
    good = off < 2e-3 and round(bent, 2) == 73.96 and round(straight, 1) == 1708.9
    found = (
        _rough("largest deviation of a step", off),
        measured("span of lc, radians", bent, 2),
        measured("of an unbent phase", straight, 1),
    )
    because = f"the step follows L/sqrt(d²+L²) within {off:.1g}; spans over the farther half of "
    because += f"{PAPER_POSITIONS:,} positions are {'' if good else 'not '}the paper's"
    outcome: Outcome = "reproduced" if good else "contradicted"
    return Verdict("P-F2", outcome, because, _evidence(result, *found))


def scale_claim(result: Result, rows: Rows) -> Verdict:
    """P-F3: dividing the light-cone phase by L destroys its span.

    Rule: *reproduced* if lc_wrong_scale passes less than one radian over the farther half at every
    number of positions by both protocols; *contradicted* otherwise.
    """
    spans = [rows[p, "lc_wrong_scale", n]["span"] for p in PROTOCOLS for n in _positions(rows)]
    fastest = max(spans) * CYCLES["fair"][2] / CYCLES["fair"][1]
    because = f"the farther half passes at most {max(spans):.2g} radians, {fastest:.2g} by the "
    because += "fastest of three frequencies"
    outcome: Outcome = "reproduced" if max(spans) < 1 else "contradicted"
    found = measured("largest span, radians", max(spans))
    return Verdict("P-F3", outcome, because, _evidence(result, found))


def growth_claim(result: Result, rows: Rows) -> Verdict:
    """P-U1: without the light cone the jets grow exponentially with the lag.

    Rule, on the norm of raw, the code that grows most: from N to 2 N an
    exponential gains a factor that is squared at each doubling, a polynomial of degree R at most
    2^R. *Contradicted* if no doubling gains more than 2^R and a hundredth; *reproduced* if the
    factor at each doubling is at least 1.5 times that before; *undecided* otherwise.
    """
    places = _positions(rows)
    norms = {n: rows["fair", "raw", n]["norm"] for n in places}
    factors = [norms[2 * n] / norms[n] for n in places if 2 * n in norms]
    if len(factors) < 2:
        return not_tested("P-U1", "the run has no two doublings of the positions", result)
    outcome: Outcome = "undecided"
    if max(factors) <= 1.01 * 2**MAX_ORDER:
        outcome = "contradicted"
    elif all(late >= 1.5 * early for early, late in pairwise(factors)):
        outcome = "reproduced"
    because = (
        f"from N to 2N the norm of raw gains at most {max(factors):.3g}, in the last doubling "
    )
    because += f"{factors[-1]:.3g}; a polynomial of its degree gains {2**MAX_ORDER}"
    found = measured("largest gain of raw in a doubling", max(factors))
    return Verdict("P-U1", outcome, because, _evidence(result, found))


def crash_claim(result: Result, rows: Rows) -> Verdict:
    """P-U2: without the light cone long contexts crash.

    Rule: *reproduced* if the features of raw or scaled leave fp32 or bf16
    at or below 32,768; *in part* if fp16 only; *contradicted* if none.
    """
    types = [row for row in result.rows if "type" in row]
    if not types or result.card["settings"]["looked_at"] < PAPER_POSITIONS:
        return not_tested("P-U2", f"not all lags to {PAPER_POSITIONS:,} were looked at", result)
    lost = [row for row in types if row["overflow"] >= 0]
    early = [r for r in lost if r["method"] in GROWING and r["overflow"] <= PAPER_POSITIONS]
    outcome: Outcome = "reproduced in part" if early else "contradicted"
    if any(row["type"] != "fp16" for row in early):
        outcome = "reproduced"
    said = [f"{row['method']} leaves {row['type']} at lag {row['overflow']:,}" for row in lost]
    finite = len(types) - len(lost)
    because = f"{finite} of {len(types)} pairs of code and number type stay finite; "
    because += listed(said or ["none leaves its type"])
    found = measured("finite, share of pairs", finite / len(types))
    return Verdict("P-U2", outcome, because, _evidence(result, found))


def _whole(claim: str, rule: Rule) -> Callable[[Result], Verdict]:
    """A rule on the rows; "not tested" where the run is filtered."""

    def judge(result: Result) -> Verdict:
        try:
            return rule(result, _rows(result))
        except KeyError as error:
            return not_tested(claim, f"no row {error}, the run is filtered", result)

    return judge


_ALL = {"P-F1": bound_claim, "P-F2": phase_claim, "P-F3": scale_claim}
_ALL |= {"P-U1": growth_claim, "P-U2": crash_claim}
RULES = {claim: _whole(claim, rule) for claim, rule in _ALL.items()}


def stability_sentences(result: Result) -> list[str]:
    """Where formulas and the search for overflow agree, and where codes stop being distinct."""
    rows = [row for row in result.rows if "type" in row]
    if not {*CODES} <= {row["method"] for row in rows}:
        return []
    looked = result.card["settings"]["looked_at"]
    wrong = [row for row in rows if row["overflow"] != row["predicted"]]
    names = [f"{row['method']} in {row['type']}" for row in wrong]
    merged = [f"{r['method']} in {r['type']} from {r['equal']:,}" for r in rows if r["equal"] >= 0]
    return [
        f"Over {looked:,} lags, computed in fp64 and rounded to the type, the formula named the lag "
        f"of every overflow beforehand, and none that did not come; wrong: {listed(names or ['none'])}.",
        "Finite is not distinct: rounded codes of three frequencies begin to equal their neighbor's "
        f"for {listed(merged or ['none'])}.",
    ]
