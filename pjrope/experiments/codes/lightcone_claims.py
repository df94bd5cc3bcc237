"""Claims P-F1 to P-F3 from the numbers of ``lightcone_stability``, and of ``cache_quantization``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analysis.compare import paired_difference, summary
from ..analysis.words import listed
from ..engine.store import Result, select
from .lag_codes import CYCLES, PROTOCOLS
from .resolution_claim import shared_seeds

__all__ = ["cache_claims", "stability_claims"]

GROWING = ("raw", "scaled")
ONE_STEP = {"bits": 8, "step": "tensor"}
STEP_A_TOKEN = {"bits": 8, "step": "token"}
CACHE_VALUES = ("norm", "norm_at_L", "key_error")


def stability_claims(result: Result) -> list[str]:
    """Sentences on P-F1, P-F2, P-F3 and on number types.

    Rules, written from the wording of the claims before the fair runs of this file, when the
    published figures were known; P-F1 asked "at the most positions" at first:

    P-F1 *reproduced* if lc has a norm below 2 and a bias below 1 at every number of positions and
    by both protocols, while raw and scaled each pass both somewhere; *with a caveat* if, besides,
    another variant is bounded as well, so that the light cone is not needed for it; *not
    reproduced* otherwise.

    P-F2 *reproduced* if at every number of positions the last phase step of lc is within 0.2 % of
    the mean of ``L / sqrt(d^2 + L^2)`` over that step by the fair protocol, and if the far spans
    at 32,768 by the paper's are 73.96 and 1708.9 radians; *not reproduced* otherwise.

    P-F3 *reproduced* if lc_wrong_scale passes less than one radian over the farther half at every
    number of positions by both protocols; *not reproduced* otherwise.

    Number types: a variant is called safe if no lag left the type, and the forecast is called right
    if it names the lag at which the features were seen to leave it.
    """
    rows = {
        (row["protocol"], row["method"], row["positions"]): row
        for row in result.rows
        if "protocol" in row
    }
    try:
        return [*_bounds(rows), _phase(rows, result.card), _scale(rows), *_types(result)]
    except KeyError:  # a filtered run
        return []


Rows = Mapping[tuple[str, str, int], Mapping[str, Any]]


def _positions(rows: Rows) -> list[int]:
    return sorted({positions for _, _, positions in rows})


def _bounded(rows: Rows, method: str) -> bool:
    places = [rows[p, method, n] for p in PROTOCOLS for n in _positions(rows)]
    return all(row["norm"] < 2 and row["bias"] < 1 for row in places)


def _bounds(rows: Rows) -> list[str]:
    places, methods = _positions(rows), list(dict.fromkeys(method for _, method, _ in rows))
    most = places[-1]

    def peak(method: str, value: str) -> tuple[float, int]:
        return max((rows["paper", method, n][value], n) for n in places)

    grows = all(peak(m, "norm")[0] > 2 and peak(m, "bias")[0] > 1 for m in GROWING)
    others = [m for m in methods if m != "lc" and _bounded(rows, m)]
    unbounded = [m for m in methods if not _bounded(rows, m)]
    word = "reproduced with a caveat" if others else "reproduced"
    lc = rows["paper", "lc", most]
    tops = listed(f"{m} {peak(m, 'norm')[0]:.3g} (at {peak(m, 'norm')[1]:,})" for m in GROWING)
    return [
        f"P-F1, {word if _bounded(rows, 'lc') and grows else 'not reproduced'}: to {most:,} "
        f"positions lc keeps a norm of {lc['norm']:.7g} and a bias of {lc['bias']:.7g}; the largest "
        f"norms at a last lag are {tops}.",
        f"Bounded as well: {listed(others) if others else 'none'}; not bounded by norm 2 and bias 1: "
        f"{listed(unbounded) if unbounded else 'none'}.",
    ]


def _phase(rows: Rows, card: Mapping[str, Any]) -> str:
    length, off = card["settings"]["length"], 0.0
    for n in _positions(rows):
        step = length * (math.asinh((n - 1) / length) - math.asinh((n - 2) / length))
        off = max(off, abs(rows["fair", "lc", n]["phase_ratio"] / step - 1))
    most = _positions(rows)[-1]
    bent, straight = (rows["paper", m, 32768]["span"] for m in ("lc", "raw"))
    exact = round(bent, 2) == 73.96 and round(straight, 1) == 1708.9
    word = "reproduced" if off < 2e-3 and exact else "not reproduced"
    ends = f"{rows['fair', 'lc', most]['phase_ratio']:.4g}"
    return (
        f"P-F2, {word}: over the farther half of 32,768 positions lc passes {bent:.2f} radians and "
        f"an unbent phase {straight:.1f}; its step follows L/sqrt(d²+L²) within {off:.1g} and is "
        f"{ends} of a token at {most:,}."
    )


def _scale(rows: Rows) -> str:
    spans = [rows[p, "lc_wrong_scale", n]["span"] for p in PROTOCOLS for n in _positions(rows)]
    fastest = max(spans) * CYCLES["fair"][2] / CYCLES["fair"][1]
    return (
        f"P-F3, {'reproduced' if max(spans) < 1 else 'not reproduced'}: with the phase divided by L "
        f"the farther half passes at most {max(spans):.2g} radians, {fastest:.2g} by the fastest of "
        "the three frequencies."
    )


def _types(result: Result) -> list[str]:
    rows = [row for row in result.rows if "type" in row]
    looked = result.card["settings"]["looked_at"]
    lost = [row for row in rows if row["overflow"] >= 0]
    wrong = [row for row in rows if row["overflow"] != row["predicted"]]
    said = [f"{row['method']} leaves {row['type']} at lag {row['overflow']:,}" for row in lost]
    names = [f"{row['method']} in {row['type']}" for row in wrong]
    merged = [f"{r['method']} in {r['type']} from {r['equal']:,}" for r in rows if r["equal"] >= 0]
    told = (
        f"The formula named the lag beforehand in the {len(lost)} of {len(rows)} that overflow;"
        if lost
        else "The formula had no overflow to foresee;"
    )
    return [
        f"Of {len(rows)} pairs of variant and number type, {len(rows) - len(lost)} stay finite over "
        f"{looked:,} lags, computed in fp64 and rounded to the type; "
        f"{listed(said) if said else 'none leaves its type'}.",
        f"The lag was said beforehand in every case but {listed(names)}."
        if wrong
        else f"{told} for the others it named no lag below {looked:,}.",
        "Finite is not distinct: rounded codes of three frequencies begin to equal their neighbour's "
        f"for {listed(merged) if merged else 'none'}.",
    ]


def cache_claims(result: Result | Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on the half of P-F1 that speaks of caches: bounded codes are easier to round.

    The rule, written before the fair runs of this file: *reproduced* if, by both protocols, the key
    of lc at the last position is less than ten times as long as the one at L - 1 while those of raw
    and scaled are more, and the error of lc's int8 keys with one step for all is lower than those
    of raw and scaled (95 % interval of the paired difference below 0); *with a caveat* if that
    holds, but the errors with one step a token, by the fair protocol, are within a tenth of each
    other, so that the usual cache needs no bound; *not reproduced* otherwise. Nothing is said where
    a row of these is missing; *not tested* with fewer than two seeds that all of them share, or
    with a number among them that is not finite.
    """
    rows = result.rows if isinstance(result, Result) else result
    kinds: list[dict[str, Any]] = [{"bits": 0}, ONE_STEP, STEP_A_TOKEN]
    methods = ("lc", *GROWING)
    needed = [{"protocol": p, "method": m, **k} for p in PROTOCOLS for m in methods for k in kinds]
    seeds = shared_seeds(rows, needed)
    if seeds is None:
        return []
    if len(seeds) < 2:
        return ["P-F1 for caches, not tested: from one seed nothing follows."]
    read = [row for where in needed for row in select(rows, where)]
    if any(row.get(value, 0.0) is None for row in read for value in CACHE_VALUES):
        return ["P-F1 for caches, not tested: a number is not finite."]
    return _cache(rows)


def _mean(values: Iterable[float]) -> float:
    found = summary(values).mean
    return math.nan if found is None else found


def _cache(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    def mean(protocol: str, method: str, value: str, **where: Any) -> float:
        fields = {"protocol": protocol, "method": method, **where}
        return _mean(row[value] for row in select(rows, fields))

    def growth(protocol: str, method: str) -> float:
        whole = select(rows, {"protocol": protocol, "method": method, "bits": 0})
        return _mean(row["norm"] / row["norm_at_L"] for row in whole)

    lower, grown, said = [], [], []
    one, own = ONE_STEP, STEP_A_TOKEN
    for protocol in PROTOCOLS:
        times = {method: growth(protocol, method) for method in ("lc", *GROWING)}
        grown.append(times["lc"] < 10 < min(times[m] for m in GROWING))
        where = {"protocol": protocol, **one}
        gaps = {
            m: paired_difference(rows, "key_error", method="lc", baseline=m, where=where).summary
            for m in GROWING
        }
        lower += [gap.high is not None and gap.high < 0 for gap in gaps.values()]
        factors = listed(f"{m} {times[m]:.3g}" for m in times)
        against = listed(f"{gap.text(4, sign=True)} against {m}" for m, gap in gaps.items())
        said.append(
            f"{protocol}: from position L - 1 to the last, keys grow by these factors: {factors}. "
            f"int8, one step for all: lc's error is {mean(protocol, 'lc', 'key_error', **one):.4f}, "
            f"{against}."
        )
    errors = {m: mean("fair", m, "key_error", **own) for m in ("lc", *GROWING)}
    alike = max(errors.values()) < 1.1 * min(errors.values())
    word = "reproduced with a caveat" if alike else "reproduced"
    per_token = listed(f"{m} {error:.4f}" for m, error in errors.items())
    return [
        f"P-F1 for caches, {word if all(grown) and all(lower) else 'not reproduced'}: bounded codes "
        f"{'are' if all(lower) else 'are not always'} rounded with less error where all keys share "
        "one step.",
        *said,
        f"fair, int8, one step a token: errors are {per_token}, "
        f"{'alike within a tenth' if alike else 'not alike within a tenth'}.",
    ]
