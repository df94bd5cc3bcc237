"""Sizes, colours, axes with units, and curves: the style of every figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

from ..extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette without its yellow and sky blue: each has a contrast of 3 to 1 or more
# against white, and against the dark pages of the book.
PALETTE = {
    "blue": "#1f78b4",
    "vermilion": "#d55e00",
    "green": "#009e73",
    "purple": "#b8689a",
    "grey": "#7a7a7a",
}
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2")  # SVG dash arrays; colour is never the only sign
WIDE = (6.4, 3.2)  # inches; the site's column at 110 dots per inch is 704 pixels
SQUARE = (4.0, 4.0)
DPI = 110


def line_styles() -> list[tuple[str, object]]:
    """Matplotlib's (colour, line style) of the first five curves of a figure."""
    styles: list[tuple[str, object]] = []
    for colour, dash in zip(PALETTE.values(), DASHES, strict=True):
        lengths = tuple(float(n) / 1.5 for n in dash.split())
        styles.append((colour, (0, lengths) if lengths else "-"))
    return styles


def style(size: tuple[float, float] = WIDE) -> dict[str, Any]:
    """Matplotlib settings of the book's figures, ``size`` in inches (width, height)."""
    from cycler import cycler

    colours, strokes = zip(*line_styles(), strict=True)
    return {
        "figure.figsize": size,
        "figure.dpi": DPI,
        "savefig.dpi": DPI,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "white",
        "font.family": "DejaVu Sans",  # comes with matplotlib: the same on every machine
        "font.size": 10.0,
        "axes.prop_cycle": cycler(color=colours) + cycler(linestyle=strokes),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e0e0e0",
        "lines.linewidth": 1.8,
        "legend.frameon": False,
        "image.cmap": "cividis",
        "svg.hashsalt": "pjrope",  # else ids in an SVG change from run to run
    }


@contextmanager
def use_style(size: tuple[float, float] = WIDE) -> Iterator[None]:
    """Draw in the book's style inside a ``with`` block: ``use_style(SQUARE)`` for a heat map.

    Args:
        size: width and height in inches.

    Limits: a notebook shows its figures at the end of a cell, after the block; call ``plt.show()``
    inside it to have the resolution hold as well.
    """
    with need("matplotlib", "book").rc_context(style(size)):
        yield


def axis_label(name: str, unit: str | None) -> str:
    """Text of an axis: ``("lag", "tokens")`` -> ``lag (tokens)``; without a unit the name alone."""
    if not name.strip():
        raise ValueError("an axis has no name: say what is drawn, as in ('lag', 'tokens')")
    return f"{name} ({unit})" if unit else name


def label_axes(ax: Axes, *, x: tuple[str, str | None], y: tuple[str, str | None]) -> Axes:
    """Name both axes with their units.

    Args:
        ax: the axes to label.
        x: (name, unit) of the horizontal axis; unit None for a pure number.
        y: the same for the vertical one.

    Returns:
        ``ax``.
    """
    ax.set_xlabel(axis_label(*x))
    ax.set_ylabel(axis_label(*y))
    return ax


def alt_text(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], xlabel: str, ylabel: str
) -> str:
    """Plain words for a line figure: axes, then start, end and extremes of each curve.

    Args:
        curves: label -> (x, y), each a sequence of the same length.
        xlabel: text of the horizontal axis, with its unit.
        ylabel: text of the vertical axis, with its unit.

    Returns:
        One paragraph, numbers with three significant digits.

    Raises:
        ValueError: no curve, or a curve without points.

    Limits: says where a curve goes, not what it means; a caption has to.
    """
    if not curves:
        raise ValueError("no curve to describe: pass {label: (x, y)} with at least one entry")
    sentences = [f"Line figure: {ylabel} against {xlabel}."]
    for label, (xs, ys) in curves.items():
        points = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True)]
        if not points:
            raise ValueError(f"curve {label!r} has no points: nothing to describe")
        low = min(points, key=lambda p: p[1])
        high = max(points, key=lambda p: p[1])
        sentences.append(
            f"{label} starts at {points[0][1]:.3g} and ends at {points[-1][1]:.3g}, lowest "
            f"{low[1]:.3g} at {low[0]:.3g}, highest {high[1]:.3g} at {high[0]:.3g}."
        )
    return " ".join(sentences)


def draw_curves(
    ax: Axes,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    xlabel: str,
    ylabel: str,
    ylim: tuple[float, float] | None = None,
    marks: Mapping[str, float] | None = None,
    legend: str = "upper right",
) -> Axes:
    """Draw labelled curves and vertical marks with a legend.

    Args:
        ax: where to draw.
        curves: label -> (x, y).
        xlabel: text of the horizontal axis, with its unit.
        ylabel: text of the vertical axis, with its unit.
        ylim: limits of the vertical axis; None lets the data choose.
        marks: label -> x of a vertical line, for instance the training length.
        legend: where matplotlib puts the legend.

    Returns:
        ``ax``.
    """
    for (label, (x, y)), (colour, stroke) in zip(curves.items(), cycle(line_styles())):
        ax.plot(x, y, color=colour, linestyle=stroke, label=label)
    for label, at in (marks or {}).items():
        ax.axvline(at, color="#555555", linewidth=1, linestyle=":", label=label)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if ylim is not None:
        ax.set_ylim(*ylim)
    ax.legend(loc=legend)  # type: ignore[call-overload]  # its places are typed one by one
    return ax
