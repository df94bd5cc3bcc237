"""Points of the space with a name: the methods of the book, and public models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...data.facts import model_facts
from .state import Space

__all__ = ["METHOD_POINTS", "NO_LAG_FUNCTION", "SAME_POINT", "Preset", "presets"]


@dataclass(frozen=True)
class Preset:
    """A named point.

    Args:
        key: as in the page's address.
        label: what the reader picks.
        group: "Methods of the book" or "Models".
        note: a sentence or two on what is shown and what is not.
        space: the point.
    """

    key: str
    label: str
    group: str
    note: str
    space: Space


ROPE = {"rot": 1.0}
# Method of the book (as in `plotting.METHODS`, or a way to stretch) -> label, note, what it sets.
METHOD_POINTS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "full": ("Full union (PJ-RoPE)", "Jet, line and light cone in one bias.",
             {"jet": 0.5, "orders": "01", "slope": 1.0, "cone": 0.5}),
    "none": ("No position", "Every key counts the same.", {}),
    "rope": ("RoPE", "A ladder of rotations: simple roots on the unit circle.", ROPE),
    "pi": ("RoPE, PI", "Every frequency divided by s.", {**ROPE, "stretch": "PI"}),
    "rope_ntk": ("RoPE, NTK", "The slowest pair is divided by s, the fastest kept.",
                 {**ROPE, "stretch": "NTK"}),
    "yarn": ("RoPE, YaRN", "Slow pairs divided by s, fast ones kept, logits sharpened.",
             {**ROPE, "stretch": "YaRN", "length": 4096}),
    "llama3": ("RoPE, stretch of Llama 3", "A ramp in turns between kept and divided pairs.",
               {**ROPE, "stretch": "Llama 3", "fast": 4.0, "length": 4096}),
    "p_rope": ("p-RoPE", "The slowest quarter of the pairs stands still: the root 1.",
               {**ROPE, "share": 0.75}),
    "rope_trunc": ("RoPE, truncated", "Half as many pairs on the same channels' ladder.",
                   {**ROPE, "share": 0.5}),
    "alibi": ("ALiBi", "One head of eight, slope 1/8 a token: the root 1, twice.",
              {"coords": "raw", "slope": 0.125}),
    "affine": ("Learned slopes", "A line per training length.", {"slope": 2.0}),
    "rope_alibi": ("RoPE + ALiBi", "Rotation and line.",
                   {**ROPE, "coords": "raw", "slope": 0.125}),
    "rope_affine": ("RoPE + learned slopes", "Rotation and line.", {**ROPE, "slope": 2.0}),
    "rope_ntk_affine": ("RoPE, NTK + learned slopes", "A stretched rotation and a line.",
                        {**ROPE, "stretch": "NTK", "slope": 2.0}),
    "exact": ("Jordan block, exact", "Amplitude 1 + d in tokens: it grows with the lag.",
              {"coords": "raw", "jet": 0.1, "orders": "01"}),
    "scaled": ("Jordan block, scaled", "Amplitude 1 + d/L, damped by e^(-d/L).",
               {"jet": 1.0, "orders": "01", "damping": 1.0}),
    "damped": ("Damped RoPE", "One damped frequency: simple roots inside the circle.",
               {"jet": 1.0, "orders": "0", "damping": 1.0}),
    "fj": ("Fourier jet", "Distance times phase, undamped: a double pair on the circle.",
           {"jet": 1.0}),
    "pj_rotary": ("PJ-rotary", "Orders 0 to 2 of one frequency, undamped.",
                  {"jet": 0.5, "orders": "012"}),
    "fj_affine": ("Jet + learned slopes", "A jet beside a line.",
                  {"jet": 0.5, "orders": "01", "slope": 2.0}),
    "direct_sum": ("Direct sum", "Phase and distance side by side, not multiplied.",
                   {"jet": 1.0, "orders": "0", "slope": 1.0}),
    "lc": ("Light cone", "A bounded amplitude and a phase that slows down; no roots.",
           {"cone": 1.0, "orders": "01"}),
    "alibi_lc": ("ALiBi + light cone", "A line in tokens beside a light cone.",
                 {"coords": "raw", "slope": 0.125, "cone": 1.0, "orders": "01"}),
    "lc_affine": ("Light cone + learned slopes", "A line beside a light cone.",
                  {"slope": 2.0, "cone": 1.0, "orders": "01"}),
    "lc_recency": ("Light cone with its own recency", "Even the line is bent: asinh(d/L).",
                   {"coords": "light cone", "slope": 2.0, "cone": 1.0, "orders": "01"}),
    "near": ("Near lags", "A number for the last four tokens, as in a table: the root 0.",
             {"near": 2.0}),
    "alibi_table4": ("ALiBi + near lags", "A line in tokens, and a number for the last four.",
                     {"coords": "raw", "slope": 0.125, "near": 2.0}),
    "alibi_cosines": ("ALiBi + cosine", "A line in tokens beside an undamped wave.",
                      {"coords": "raw", "slope": 0.125, "jet": 1.0, "orders": "0"}),
}  # fmt: skip
# Other names in the book for one of these points: another start, rate or ladder of the same function.
SAME_POINT = {
    "rope_respread": "rope", "rope_given": "rope",
    "affine_fast": "affine", "affine_spread": "affine", "affine_signed": "affine",
    "rope_affine_spread": "rope_affine", "rope_ntk_affine_spread": "rope_ntk_affine",
    "damped_c1": "damped", "direct_sum_grid": "direct_sum", "lag": "exact",
    "alibi_table8": "alibi_table4", "alibi_table16": "alibi_table4", "alibi_t5": "alibi_table4",
    "affine_spread_table8": "alibi_table4", "full_uniform": "full",
}  # fmt: skip
# What no function of the lag describes, or none that the page has controls for: a vote without
# attention, scores that also depend on where the key stands, mixing before attention, a lag in
# seconds, velocity over a straight phase, and three things at once.
NO_LAG_FUNCTION = (
    *("majority", "stabilized", "stabilized_fast", "stabilized_no_gamma"),
    *("alibi_conv", "alibi_shift", "alibi_time", "alibi_straight", "rope_alibi_table8"),
)


def presets() -> list[Preset]:
    """Methods in the order of the page, then every model of ``model_facts()``."""
    methods = [
        Preset(key, label, "Methods of the book", note, replace(Space(), **settings))
        for key, (label, note, settings) in METHOD_POINTS.items()
    ]
    rows = sorted(model_facts(), key=lambda row: (row["family"], row["year"], row["key"]))
    return [*methods, *(_model(row) for row in rows)]


def _model(row: dict[str, Any]) -> Preset:
    context = row["original_context"]
    notes = [f"{row['year']}, {row['method']}."]
    settings: dict[str, Any] = {"length": context or 4096, "times": 4}
    if context:
        notes.append(f"Trained at {context:,} tokens, offered at {row['context']:,}.")
    if row["method"] == "alibi":
        notes.append("Slopes differ by head; the figure shows 1/16 a token.")
        settings |= {"coords": "raw", "slope": 0.0625}
    elif row["method"].startswith("rope") and row["rotary_dim"]:
        settings |= _rotation(row, notes)
    else:
        notes.append("Nothing turns that the facts describe, so nothing is shown.")
    if row["window"]:
        notes.append(f"Some layers see {row['window']:,} tokens at most; the figure has no window.")
    if row["nope_layers"]:
        notes.append("Some layers have no position; the figure shows those that turn.")
    doubtful = row["unverified_fields"] or ()
    if not row["verified"]:
        notes.append("Not verified in a public file.")
    elif doubtful:
        notes.append(f"Not verified: {', '.join(doubtful)}.")
    return Preset(row["key"], row["key"], "Models", " ".join(notes), replace(Space(), **settings))


def _rotation(row: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """What the row says of its ladder; what the page cannot show goes into the notes."""
    dim, turning = row["head_dim"], row["rotary_dim"]
    settings: dict[str, Any] = {"rot": 1.0, "base": float(row["rope_theta"]), "dim": turning}
    settings["still"] = (dim - turning) // 2
    if (row["partial_style"] or "").startswith("truncated"):
        settings |= {"dim": dim, "share": turning / dim, "still": 0}
    scaling = row["scaling"] or {"type": "default"}
    kind, factor = scaling["type"], float(scaling.get("factor", 1.0))
    if kind == "linear":
        settings |= {"stretch": "PI", "scale": factor}
    elif kind == "llama3":
        settings |= {"stretch": "Llama 3", "scale": factor}
        settings |= {"slow": scaling["low_freq_factor"], "fast": scaling["high_freq_factor"]}
    elif kind == "yarn":
        settings |= {"stretch": "YaRN", "scale": factor, "slow": float(scaling["beta_slow"])}
        settings |= {"fast": float(scaling["beta_fast"])}
        settings["length"] = scaling["original_max_position_embeddings"]
        settings["whole"] = "yes" if scaling.get("truncate", True) else "no"
        settings["sharpen"] = "no" if scaling.get("mscale_all_dim") else "yes"
    elif kind == "longrope":
        notes.append("Its stretch has a divisor for each pair; the figure shows the plain ladder.")
    elif kind == "dynamic-ntk":
        notes.append("It stretches beyond its context only; the figure shows the plain ladder.")
    return settings
