"""The explorer of chapter union: one bias, its sectors, and its roots in the complex plane."""

from __future__ import annotations

from typing import Any

import torch

from ..kernels import jets
from ..kernels.characteristic import Root, merge_roots, turning_roots
from ..positions import coordinates
from .controls import Slider
from .figure import Curves, InteractiveFigure
from .plane import Plane

LONGEST = 128  # tokens

_CURVES_SCRIPT = """
let factorial = 1;
for (let k = 2; k <= v.order; k++) factorial *= k;
const jet = (d) =>
  v.fj * Math.pow(d / v.length, v.order) / factorial * Math.exp(-v.c * d / v.length) *
  Math.cos(v.omega * d);
const line = (d) => -v.slope * d / v.length;
const cone = (d) =>
  v.lc * Math.pow(d / Math.hypot(d, v.length), v.order) *
  Math.cos(v.omega * v.length * Math.asinh(d / v.length));
const curve = (f) => Array.from({ length: LONGEST + 1 }, (_, d) => [d, f(d)]);
return {
  "Fourier jet": curve(jet),
  "line": curve(line),
  "light cone": curve(cone),
  "their sum": curve((d) => jet(d) + line(d) + cone(d)),
};
"""

_DOTS_SCRIPT = """
const size = Math.exp(-v.c / v.length), found = [];
const add = (re, im, m) => {
  const same = found.find(([x, y]) => Math.hypot(x - re, y - im) <= 1e-12);
  if (same) same[2] = Math.max(same[2], m);
  else found.push([re, im, m]);
};
if (v.fj !== 0) {
  for (const sign of [1, -1]) {
    add(size * Math.cos(v.omega), sign * size * Math.sin(v.omega), v.order + 1);
  }
}
if (v.slope !== 0) add(1, 0, 2);
return found.map(([re, im, m]) => [re, im, `×${m}`]);
"""

SLIDERS = (
    Slider("fj", "Fourier jet (nats)", 0, 2, 0.25, 1),
    Slider("order", "order r of the jets", 0, 3, 1, 1),
    Slider("omega", "frequency ω (radians per token)", 0, 1.5, 0.05, 0.3),
    Slider("c", "damping c (per L)", 0, 4, 0.25, 1),
    Slider("slope", "slope of the line (nats per L)", 0, 2, 0.25, 0.5),
    Slider("lc", "light cone (nats)", 0, 2, 0.25, 0),
    Slider("length", "training length L (tokens)", 4, 64, 4, 32),
)


def union_curves(
    fj: float = 1.0,
    order: int = 1,
    omega: float = 0.3,
    c: float = 1.0,
    slope: float = 1.0,
    lc: float = 0.0,
    length: float = 32,
) -> dict[str, tuple[list[int], list[float]]]:
    """A bias by lag and the three sectors it is the sum of, with real amplitudes.

    ``fj x^r/r! e^{-c x} cos wd - slope x + lc beta^r cos w phi``, x = d/L, ``phi = L asinh x`` and
    ``beta = d / sqrt(d^2 + L^2)``.

    Args:
        fj: amplitude of the Fourier jet, nats.
        order: r, of both jets.
        omega: radians per token.
        c: damping of the Fourier jet, no unit.
        slope: nats per L tokens.
        lc: amplitude of the light cone, nats.
        length: L, tokens.

    Returns:
        label -> (lags 0 ... 128, nats): jet, line, light cone, their sum.
    """
    d = torch.arange(LONGEST + 1)
    lag = d.double()
    x, order = coordinates.linear(lag, length), int(order)
    damping = torch.tensor([c], dtype=torch.float64)
    jet = fj * jets.fourier_amplitudes(lag, length, order, damping)[0, order]
    cone = lc * jets.lightcone_amplitudes(lag, length, order)[0, order]
    jet = jet * torch.cos(omega * lag)
    cone = cone * torch.cos(omega * coordinates.phase(lag, length))
    line = -slope * x
    labels = ("Fourier jet", "line", "light cone", "their sum")
    curves = (jet, line, cone, jet + line + cone)
    return {label: (d.tolist(), ys.tolist()) for label, ys in zip(labels, curves, strict=True)}


def union_roots(
    fj: float = 1.0,
    order: int = 1,
    omega: float = 0.3,
    c: float = 1.0,
    slope: float = 1.0,
    lc: float = 0.0,
    length: float = 32,
) -> list[Root]:
    """Characteristic roots of the jet and the line of :func:`union_curves`.

    Returns:
        a list, empty if both amplitudes are 0; the light cone has no roots.
    """
    jet = turning_roots([omega], [c / length], int(order) + 1) if fj else []
    return merge_roots(jet, [Root(1, 2)] if slope else [])


def union_explorer() -> InteractiveFigure:
    """One bias over the lag with its sectors, and its roots in the plane, under seven sliders.

    Returns:
        A figure to end a notebook cell with.

    Chapter: union.
    """

    def curves(**values: Any) -> Curves:
        return union_curves(**values)

    def dots(**values: Any) -> list[tuple[float, float, str]]:
        found = union_roots(**values)
        return [(r.value.real, r.value.imag, f"×{r.multiplicity}") for r in found]

    plane = Plane(
        dots,
        _DOTS_SCRIPT,
        title="roots of jet and line (× multiplicity)",
        alt=(
            "The complex plane with the unit circle. A jet has a pair of roots, mirrored at the "
            "real axis, at the angle of its frequency; damping moves them inside the circle and "
            "their multiplicity is the order plus one. The line has the root 1, twice. The light "
            "cone has none."
        ),
    )
    return InteractiveFigure(
        curves,
        _CURVES_SCRIPT.replace("LONGEST", str(LONGEST)),
        list(SLIDERS),
        xlabel="lag d (tokens)",
        ylabel="bias (nats)",
        ylim=(-3, 3),
        alt=(
            "A bias against the lag with the three functions it is the sum of: a Fourier jet that "
            "swings, a line that falls, and a light-cone jet whose swings become longer and longer. "
            "At the start the light cone is zero."
        ),
        name="union-explorer",
        plane=plane,
    )
