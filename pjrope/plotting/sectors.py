"""Figures of the sectors of a bias: by lag, over a training, by order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import PALETTE, alt_text, axis_label, label_axes, line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from ..kernels import PositionKernel

# The names in the order of `line_styles`: a sector looks the same in every figure, those with
# sliders too, which draw their curves in this order.
SECTOR_NAMES = {
    "fj": "Fourier jets",
    "affine": "affine",
    "lc": "light cone",
    "total": "sum",
    "near": "near lags",  # last: colours go by the place
}
HATCHES = ("", "///", "...", "xxx", "\\\\\\")


def _sector_line(sector: str) -> dict[str, Any]:
    if sector not in SECTOR_NAMES:
        raise ValueError(f"sector is {sector!r}, known are {tuple(SECTOR_NAMES)}")
    colour, stroke = line_styles()[list(SECTOR_NAMES).index(sector)]
    return {"label": SECTOR_NAMES[sector], "color": colour, "linestyle": stroke}


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
    from ..diagnostics import sector_functions, sectors_of

    if lags.ndim != 1 or not len(lags):
        raise ValueError(
            f"lags have shape {tuple(lags.shape)}: one or more in a row, as torch.arange(128) gives"
        )
    functions = sector_functions(kernel, lags)
    if len(functions) > 1:
        whole = kernel.lag_bias(lags)
        assert whole is not None, "a kernel with sectors has a bias"
        functions = {"total": whole, **functions}
    heads = next(iter(functions.values())).shape[0]
    if not 0 <= head < heads:
        raise ValueError(f"head is {head}, this kernel has heads 0 to {heads - 1}")
    curves = {}
    for name, values in functions.items():
        line = _sector_line(name)
        y = values[head].detach().tolist()
        ax.plot(lags.tolist(), y, linewidth=3.2 if name == "total" else 1.8, **line)
        curves[line["label"]] = (lags.tolist(), y)
    for length in {s.length for s in sectors_of(kernel).values() if s.length is not None}:
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
