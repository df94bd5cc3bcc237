"""The figure by length: a curve with intervals for each method."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..extras import need
from .forms import look_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        methods: which ones, in the order of the legend; each has a look in ``METHODS`` or ``FORMS``.
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
        look, found = look_of(method), _over_seeds(rows, method, over, value)
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
