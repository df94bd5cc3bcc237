"""One colour and one marker for each method in the whole book, and the figure by length they make.

A colour is a family: what the method adds to the logits. Within a family markers differ, and lines
tell a variant from the plain method.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..extras import need
from .style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Families share the colours of their sectors (see `SECTOR_NAMES`): jets blue, recency vermilion, light
# cones green, unions purple. Figures by method stand on white, so two dark ones may join the palette.
FAMILIES = {
    "none": PALETTE["grey"],
    "rotation": "#222222",
    "recency": PALETTE["vermilion"],
    "rotation and recency": "#8c564b",
    "jet": PALETTE["blue"],
    "direct sum": "#6a51a3",
    "light cone": PALETTE["green"],
    "union": PALETTE["purple"],
    "near lags": "#a4336c",
}


@dataclass(frozen=True)
class MethodLook:
    """How a method is drawn: a label, the colour of its family, its marker and its line."""

    label: str
    color: str
    marker: str
    linestyle: str = "-"


def _family(name: str, **methods: tuple[str, ...]) -> dict[str, MethodLook]:
    return {key: MethodLook(look[0], FAMILIES[name], *look[1:]) for key, look in methods.items()}


METHODS: Mapping[str, MethodLook] = {
    **_family("none", none=("no position", "^"), majority=("majority", "_", ":")),
    **_family(
        "rotation",
        rope=("RoPE", "o"),
        rope_ntk=("RoPE, dynamic NTK", "s", "--"),
        rope_trunc=("RoPE, truncated", "D", "-."),
        rope_respread=("RoPE, spread anew", "X", ":"),
        rope_given=("RoPE, frequencies given", "P", ":"),
    ),
    **_family(
        "recency",
        alibi=("ALiBi", "v"),
        affine=("learned slopes", "x", ":"),
        affine_fast=("learned slopes, higher rate", ">", "-."),
        affine_spread=("learned slopes from ALiBi's", "<", "--"),
        affine_signed=("learned slopes of either sign", "d", "-."),
        alibi_time=("ALiBi over time", "*", ":"),
    ),
    **_family(
        "rotation and recency",
        rope_alibi=("RoPE + ALiBi", "D"),
        rope_affine=("RoPE + learned slopes", "s", ":"),
        rope_affine_spread=("RoPE + learned slopes from ALiBi's", "o", "--"),
        rope_ntk_affine=("RoPE, NTK + learned slopes", "X", ":"),
        rope_ntk_affine_spread=("RoPE, NTK + learned slopes from ALiBi's", "P", "--"),
    ),
    **_family(
        "jet",
        stabilized=("Jordan, stabilized", "s"),
        scaled=("Jordan, scaled", "o", "--"),
        exact=("Jordan, exact", "^", "-."),
        lag=("Jordan, lag", "v", ":"),
        stabilized_fast=("Jordan, stabilized, faster shear", "*", "--"),
        stabilized_no_gamma=("Jordan, stabilized, undamped", "p", ":"),
        damped=("damped RoPE", "x", ":"),
        damped_c1=("damped RoPE, c = 1", "+", ":"),
        pj_rotary=("PJ-rotary", "D", "--"),
        fj=("Fourier jet", "P"),
        alibi_cosines=("ALiBi + cosines", "X", ":"),
    ),
    **_family(
        "direct sum",
        direct_sum=("direct sum", "D"),
        direct_sum_grid=("direct sum, frequency given", "X", "--"),
    ),
    **_family(
        "light cone",
        lc=("light cone", "o"),
        alibi_lc=("ALiBi + light cone", "v", "--"),
        lc_affine=("light cone + learned slopes", "x", ":"),
        alibi_straight=("ALiBi + velocity, straight phase", "s", "-."),
    ),
    **_family(
        "near lags",
        alibi_table4=("ALiBi + table of 4", "^", ":"),
        alibi_table8=("ALiBi + table of 8", "s"),
        alibi_table16=("ALiBi + table of 16", "D", "-."),
        alibi_t5=("ALiBi + T5's buckets", "o", "--"),
        alibi_conv=("ALiBi, short convolution", "P", "-."),
        alibi_shift=("ALiBi, token shift", "X", ":"),
        rope_alibi_table8=("RoPE + ALiBi + table of 8", "*", "--"),
        affine_spread_table8=("learned slopes + table of 8", "p", ":"),
    ),
    **_family(
        "union",
        full=("full union", "D"),
        full_uniform=("full union, equal gates", "^", "-."),
        fj_affine=("jet + learned slopes", "s", "--"),
    ),
}


def method_look(method: str) -> MethodLook:
    """The look of a method.

    Raises:
        ValueError: a method without one.
    """
    if method not in METHODS:
        known = ", ".join(METHODS)
        raise ValueError(f"method {method!r} has no look: add it to METHODS; known are {known}")
    return METHODS[method]


def by_length(
    ax: Axes,
    result: Any,
    value: str,
    methods: Sequence[str],
    *,
    over: str = "length",
    trained: float | None = None,
) -> dict[str, tuple[list[float], list[float]]]:
    """Draw a value of an experiment against the length, a curve with 95 % intervals for each method.

    The interval is Student's over seeds, ``mean ± t s / sqrt(n)``; one seed has none.

    Args:
        ax: where to draw.
        result: a result of an experiment, or its rows: with "method", "seed", ``over`` and ``value``.
        value: field of the rows, for instance "loss".
        methods: which ones, in the order of the legend; each has a look in ``METHODS``.
        over: field of the horizontal axis, positive numbers; the axis is logarithmic to base 2.
        trained: the training length L, marked by a dotted line and by ticks in units of L; None
            leaves both away and has ticks at the lengths themselves.

    Returns:
        method to (lengths, means), for :func:`pjrope.plotting.alt_text`; a mean is NaN where a seed
        has no finite value, and the curve has a gap there.

    Raises:
        ValueError: no method, one without a look or without rows, or two rows of one seed at one
            length.

    Limits: points stand side by side by at most a quarter of the way to the next length.
    """
    if not methods:
        raise ValueError("no method to draw: name at least one")
    rows = list(getattr(result, "rows", result))
    drawn = {}
    lengths = sorted({row[over] for row in rows if row["method"] in methods and over in row})
    step = min((b / a for a, b in pairwise(lengths)), default=2.0)
    for n, method in enumerate(methods):
        look, found = method_look(method), _over_seeds(rows, method, over, value)
        shift = step ** (0.25 * ((n + 0.5) / len(methods) - 0.5))
        means, halves = zip(*found.values(), strict=True)
        ax.errorbar(
            [x * shift for x in found], means, halves, label=look.label, color=look.color,
            marker=look.marker, linestyle=look.linestyle, markersize=5, capsize=2.5, linewidth=1.4,
        )  # fmt: skip
        drawn[method] = (list(found), list(means))
    ax.set_xscale("log", base=2)
    if trained is not None:
        ax.axvline(trained, color="#555555", linestyle=":", linewidth=1)
    names = [f"{x:,}" if trained is None else _in_units(x / trained) for x in lengths]
    ax.set_xticks(lengths, names)
    ax.set_xticks([], minor=True)
    return drawn


def _in_units(times: float) -> str:
    return "L" if times == 1 else f"{times:,g} L"


def _over_seeds(
    rows: Iterable[Mapping[str, Any]], method: str, over: str, value: str
) -> dict[float, tuple[float, float]]:
    """Length to (mean, half the width of its interval)."""
    found: dict[float, dict[Any, float]] = {}
    for row in rows:
        if row["method"] == method and value in row and over in row:
            seeds = found.setdefault(row[over], {})
            if row["seed"] in seeds:
                raise ValueError(
                    f"{method} has several rows of seed {row['seed']} at {over} {row[over]}: filter "
                    "the result with where()"
                )
            seeds[row["seed"]] = math.nan if row[value] is None else row[value]
    if not found:
        raise ValueError(f"no row of {method!r} holds {value!r} and {over!r}")
    return {x: _interval(list(found[x].values())) for x in sorted(found)}


def _interval(values: list[float]) -> tuple[float, float]:
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1 or math.isnan(mean):
        return mean, 0.0
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    quantile = float(need("scipy.stats", "book").t.ppf(0.975, n - 1))
    return mean, quantile * spread / math.sqrt(n)
