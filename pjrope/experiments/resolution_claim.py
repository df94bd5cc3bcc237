"""Claim P-F4 from the numbers: does the light cone tell far lags apart less well?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .compare import paired_difference, summary, verdict
from .lag_codes import PRECISIONS, PROTOCOLS
from .phase_claim import listed
from .store import Result, select

__all__ = ["FAR", "SMALLEST_EFFECT", "resolution_claim"]

SMALLEST_EFFECT = 0.03
RIVALS = ("raw", "scaled")
FAR = "x16_32"


def resolution_claim(
    result: Result | Sequence[Mapping[str, Any]],
    value: str,
    where: Mapping[str, Any] | None = None,
) -> list[str]:
    """Say where the light cone resolves less than raw and scaled, and whether its phase is why.

    The rule, written before the fair runs of this file, when the published figures and trials of the
    codes were known: at a precision of a protocol "lower" is a
    paired difference of at least 0.03 whose 95 % interval leaves out 0, on lags from 16 L to 32 L.
    P-F4 is *reproduced* if lc is lower than raw and than scaled in fp32 by both protocols; *with a
    caveat* if, short of that, it is lower than both at some precision of some protocol; *not
    reproduced* otherwise. The phase is called the cause if, by the fair protocol, the light-cone
    phase alone is lower than the linear phase alone.

    Args:
        result: rows with method, protocol, precision, bucket and seed.
        value: the accuracy compared.
        where: further fields that pick one row a seed.

    Returns:
        Sentences; none where a row that the rule needs is missing.
    """
    rows = result.rows if isinstance(result, Result) else result
    rows = select(rows, {**(where or {}), "bucket": FAR})
    present = {(row["protocol"], row["method"]) for row in rows}
    needed = {(p, m) for p in PROTOCOLS for m in ("lc", *RIVALS)}
    needed |= {("fair", "phase_linear"), ("fair", "phase_lightcone")}
    if not needed <= present:
        return []
    if len({row["seed"] for row in rows}) == 1:
        return ["P-F4, not tested: from one seed nothing follows."]

    def gap(ours: str, theirs: str, protocol: str, precision: str) -> tuple[str, str]:
        here = select(rows, {"protocol": protocol, "precision": precision})
        found = paired_difference(here, value, method=ours, baseline=theirs)
        return verdict(found, SMALLEST_EFFECT, "higher"), found.summary.text(sign=True)

    sentences, holds = [], {}
    for protocol in PROTOCOLS:
        for precision in PRECISIONS:
            words = {rival: gap("lc", rival, protocol, precision) for rival in RIVALS}
            holds[protocol, precision] = all(word == "worse" for word, _ in words.values())
            ours = select(rows, {"protocol": protocol, "precision": precision, "method": "lc"})
            against = listed(f"{rival} ({said}: {word})" for rival, (word, said) in words.items())
            sentences.append(
                f"{protocol}, {precision}: lc has {summary(r[value] for r in ours).text()}, "
                f"compared with {against}."
            )
    if all(holds[protocol, "fp32"] for protocol in PROTOCOLS):
        head = "P-F4, reproduced: lc is lower than raw and than scaled in fp32 by both protocols."
    elif found := [f"{protocol} at {precision}" for (protocol, precision), h in holds.items() if h]:
        head = f"P-F4, reproduced with a caveat: lc is lower than raw and than scaled by {listed(found)} only."
    else:
        head = "P-F4, not reproduced: nowhere is lc lower than both raw and scaled."
    return [head, *sentences, *(_phase(gap, precision) for precision in PRECISIONS)]


def _phase(gap: Any, precision: str) -> str:
    word, said = gap("phase_lightcone", "phase_linear", "fair", precision)
    cause = "resolves less" if word == "worse" else "does not resolve less"
    return (
        f"Phase alone, fair, {precision}: the light-cone phase {cause} than the linear one "
        f"({said}: {word})."
    )
