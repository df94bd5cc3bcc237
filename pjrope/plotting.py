"""One style for every figure: sizes, colours that colour-blind readers tell apart, units on axes.

with use_style():
    fig, ax = plt.subplots()
    ax.plot(lags, scores)
    label_axes(ax, x=("lag", "tokens"), y=("score", None))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from .kernels import PositionKernel

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
    import matplotlib

    with matplotlib.rc_context(style(size)):  # type: ignore[arg-type]
        yield


def axis_label(name: str, unit: str | None) -> str:
    """Text of an axis: ``("lag", "tokens")`` -> ``lag (tokens)``, unit None -> ``(no unit)``."""
    if not name.strip():
        raise ValueError("an axis has no name: say what is drawn, as in ('lag', 'tokens')")
    return f"{name} ({unit or 'no unit'})"


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
    ax.legend(loc=legend)
    return ax


# Sectors of a bias --------------------------------------------------------------------------

# Name, palette colour and dash array: a sector looks the same in every figure.
SECTOR_LOOKS = {
    "fj": ("Fourier jets", "blue", "6 3"),
    "affine": ("affine", "vermilion", "2 3"),
    "lc": ("light cone", "green", "8 3 2 3"),
    "total": ("sum", "grey", ""),
}
HATCHES = ("", "///", "...", "xxx", "\\\\\\")


def _sector_line(sector: str) -> dict[str, Any]:
    if sector not in SECTOR_LOOKS:
        raise ValueError(f"sector is {sector!r}, known are {tuple(SECTOR_LOOKS)}")
    label, colour, dash = SECTOR_LOOKS[sector]
    lengths = tuple(float(n) / 1.5 for n in dash.split())
    stroke = (0, lengths) if lengths else "-"
    return {"label": label, "color": PALETTE[colour], "linestyle": stroke}


def lag_response(ax: Axes, kernel: PositionKernel, lags: Tensor, *, head: int = 0) -> str:
    """Draw what each sector adds to the logit at each lag, gates applied, and their sum.

    Args:
        ax: where to draw.
        kernel: a kernel with sectors, as :func:`pjrope.diagnostics.sector_summary` takes them.
        lags: ``(n,)`` tokens, ascending.
        head: which head.

    Returns:
        alt text of the figure.

    Raises:
        ValueError: a kernel without sectors, a head that it has not, or no lags.
    """
    from .diagnostics import sector_functions, sectors_of

    if lags.ndim != 1 or not len(lags):
        raise ValueError(
            f"lags have shape {tuple(lags.shape)}: one or more in a row, as torch.arange(128) gives"
        )
    functions = sector_functions(kernel, lags)
    if len(functions) > 1:
        functions = {"total": kernel.lag_bias(lags), **functions}
    heads = next(iter(functions.values())).shape[0]
    if not 0 <= head < heads:
        raise ValueError(f"head is {head}, this kernel has heads 0 to {heads - 1}")
    curves = {}
    for name, values in functions.items():
        line = _sector_line(name)
        y = values[head].detach().tolist()
        ax.plot(lags.tolist(), y, linewidth=3.2 if name == "total" else 1.8, **line)
        curves[line["label"]] = (lags.tolist(), y)
    for length in {s.length for s in sectors_of(kernel).values()} - {None}:
        if lags[0] < length < lags[-1]:
            ax.axvline(length, color="#555555", linewidth=1, linestyle=":", label=f"L = {length:g}")
    label_axes(ax, x=("lag d", "tokens"), y=("bias", "nats"))
    ax.legend(loc="best")
    return alt_text(curves, ax.get_xlabel(), ax.get_ylabel())


def gates_over_training(
    ax: Axes, steps: Sequence[int], gates: Mapping[str, Any], *, sectors: int | None = None
) -> str:
    """Draw the gates of a union as training goes on, with the line of equal gates.

    Args:
        ax: where to draw.
        steps: ``(n,)`` optimiser steps.
        gates: sector to ``(n,)`` gates, or ``(seeds, n)``: then the mean, and a band from the
            lowest to the highest seed.
        sectors: how many the softmax is over, so that equal gates are one over it; None takes those
            passed where they sum to 1, and draws no line where they do not.

    Returns:
        alt text of the figure.

    Raises:
        ValueError: no sector or an unknown one, another number of gates than of steps, or more
            gates than sectors.

    Limits: a gate alone says nothing about the function (:func:`pjrope.diagnostics.regauge`).
    """
    if not gates:
        raise ValueError("no gates to draw: pass {sector: gates} with at least one entry")
    if sectors is not None and sectors < len(gates):
        raise ValueError(
            f"sectors is {sectors}, {len(gates)} gates are passed: as many sectors or more are needed"
        )
    curves, whole = {}, np.zeros(len(steps))
    for name, values in gates.items():
        mean, low, high = _over_seeds(values, len(steps), f"gates of {name!r}")
        line = _sector_line(name)
        ax.plot(steps, mean, **line)
        ax.fill_between(steps, low, high, color=line["color"], alpha=0.18, linewidth=0)
        curves[line["label"]] = (list(steps), mean.tolist())
        whole += mean
    if sectors is None and np.allclose(whole, 1, atol=0.01):
        sectors = len(gates)
    if sectors is not None and sectors > 1:
        ax.axhline(1 / sectors, color="#555555", linewidth=1, linestyle=":", label="equal gates")
    ax.set_ylim(-0.02, 1.02)
    label_axes(ax, x=("training", "steps"), y=("gate", None))
    ax.legend(loc="best")
    return alt_text(curves, ax.get_xlabel(), ax.get_ylabel())


def order_spectrum(
    ax: Axes, spectra: Mapping[str, Any], *, y: tuple[str, str | None] = ("share of the mass", None)
) -> str:
    """Draw numbers by jet order as groups of bars, one bar of each spectrum in a group.

    Args:
        ax: where to draw.
        spectra: label to ``(R+1,)`` numbers, or ``(seeds, R+1)``: then the mean, and a line from
            the lowest to the highest seed.
        y: (name, unit) of the vertical axis.

    Returns:
        alt text of the figure.

    Raises:
        ValueError: no spectrum, more than colours, or spectra of different numbers of orders.
    """
    if not 0 < len(spectra) <= len(HATCHES):
        raise ValueError(f"{len(spectra)} spectra: 1 to {len(HATCHES)} can be told apart")
    orders = np.atleast_2d(_numbers(next(iter(spectra.values())))).shape[1]
    width, said = 0.8 / len(spectra), []
    looks = zip(spectra.items(), PALETTE.values(), HATCHES, strict=False)
    for k, ((label, values), colour, hatch) in enumerate(looks):
        mean, low, high = _over_seeds(values, orders, f"spectrum {label!r}")
        at = np.arange(orders) + (k - (len(spectra) - 1) / 2) * width
        ax.bar(at, mean, 0.92 * width, label=label, color=colour, hatch=hatch, edgecolor="white")
        if (high > low).any():
            ax.vlines(at, low, high, color="black", linewidth=1.2)
        said.append(
            f"{label}: " + ", ".join(f"order {r} {v:.3g}" for r, v in enumerate(mean)) + "."
        )
    ax.axhline(0, color="black", linewidth=0.8)  # leave-one-out numbers may be negative
    ax.grid(False, axis="x")
    ax.set_xticks(range(orders))
    ax.set_xlabel("order of the jet")
    ax.set_ylabel(axis_label(*y))
    ax.legend(loc="best")
    return " ".join([f"Bar figure: {ax.get_ylabel()} by order of the jet.", *said])


def _numbers(values: Any) -> np.ndarray:
    """As fp64 of numpy; tensors may be on a device and in a graph, alone or in a list."""
    if isinstance(values, list | tuple):
        return np.asarray([_numbers(v) for v in values], dtype=float)
    if hasattr(values, "detach"):
        values = values.detach().cpu().double()
    return np.asarray(values, dtype=float)


def _over_seeds(values: Any, count: int, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest over seeds of ``(n,)`` or ``(seeds, n)``."""
    rows = np.atleast_2d(_numbers(values))
    if rows.ndim != 2 or rows.shape[1] != count:
        raise ValueError(
            f"{what} have shape {rows.shape}: ({count},) or (seeds, {count}) is needed"
        )
    return rows.mean(0), rows.min(0), rows.max(0)
