"""Looks of what is drawn beside methods: bases of the probes, codes of a lag, other programs."""

from __future__ import annotations

from collections.abc import Mapping

from .looks import FAMILIES, METHODS, MethodLook

OTHER_CHART = "#8a6d00"  # a bounded or slowed coordinate that is no light cone

# Ways to stretch one and the same rotation have a color each: figures compare them with each other.
STRETCHES = {"PI": "#00788a", "NTK": "#6b7a00", "YaRN": "#b3123c", "p-RoPE": "#4a5b78"}


def _stretched(kind: str, marker: str) -> dict[str, MethodLook]:
    """A stretch as tuned or set, and read by the factor that the context asks for."""
    key, color = kind.lower().replace("-", "_"), STRETCHES[kind]
    return {
        key: MethodLook(kind, color, marker),
        f"rope_{key}": MethodLook(f"RoPE, {kind}", color, marker, "--"),
        f"{key}_wider": MethodLook(f"{kind}, factor of the context", color, marker, ":"),
    }


FORMS: Mapping[str, MethodLook] = {
    **_stretched("PI", "v"),
    **{k: v for k, v in _stretched("NTK", "s").items() if k != "rope_ntk"},
    **_stretched("YaRN", "D"),
    **_stretched("p-RoPE", "P"),
    "ntk_more": MethodLook("NTK, larger factor", STRETCHES["NTK"], "X", "-."),
    "rope_dynamic": MethodLook("RoPE, NTK by the context", STRETCHES["NTK"], "o", ":"),
    "trained": MethodLook("as trained", FAMILIES["rotation"], "o"),
    "continued": MethodLook("tuned as it is", FAMILIES["none"], "^", "--"),
    "recency": MethodLook("with recency", FAMILIES["rotation and recency"], "D"),
    "recency_lc": MethodLook("with recency and light cone", FAMILIES["light cone"], "v", "--"),
    "rope_fine2": MethodLook("RoPE, twice as many rungs", FAMILIES["rotation"], "v", ":"),
    "rope_split2": MethodLook("RoPE, split frequencies", FAMILIES["rotation"], "s", "--"),
    "jordan_bounded": MethodLook("Jordan, bounded lag", FAMILIES["jet"], "d", "-."),
    "jordan_exact": MethodLook("Jordan, exact", FAMILIES["jet"], "^", "--"),
    "jordan_matched": MethodLook("Jordan, target's damping", FAMILIES["jet"], "o"),
    "jordan": MethodLook("Jordan", FAMILIES["jet"], "h"),
    "raw": MethodLook("raw", FAMILIES["jet"], "^"),
    "log": MethodLook("logarithm", OTHER_CHART, "x"),
    "clipped": MethodLook("clipped", OTHER_CHART, "s", "--"),
    "lc_amp_only": MethodLook("amplitude only", FAMILIES["light cone"], "P", "--"),
    "lc_phase_only": MethodLook("phase only", FAMILIES["light cone"], "D", "-."),
    "lc_wrong_scale": MethodLook("wrong scale", FAMILIES["light cone"], "*", ":"),
    "dense bias, built each call": MethodLook("dense bias, built each call", OTHER_CHART, "s"),
    "dense bias, prebuilt": MethodLook("dense bias, prebuilt", OTHER_CHART, "D"),
    "dense full, built per pair": MethodLook("full union, per pair", FAMILIES["union"], "X"),
    "FlexAttention, lag table": MethodLook("FlexAttention, lag table", FAMILIES["near lags"], "P"),
    "x-transformers ALiBi": MethodLook("x-transformers, ALiBi", FAMILIES["recency"], "*"),
}


def look_of(name: str) -> MethodLook:
    """How a method, a basis, a code of a lag or another program is drawn.

    Args:
        name: a key of ``METHODS`` or of ``FORMS``.

    Raises:
        ValueError: a name that neither has.
    """
    if name in METHODS:
        return METHODS[name]
    if name not in FORMS:
        raise ValueError(f"{name!r} has no look: add it to METHODS or FORMS; known are {[*FORMS]}")
    return FORMS[name]
