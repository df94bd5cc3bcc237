"""The explorer of chapter lightcone: five ways for a jet to grow, or not to, on one axis."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..positions import coordinates
from .controls import Choice, Slider
from .figure import Curves, InteractiveFigure

DAMPING = 0.1  # c of the scaled form, per L
POINTS, SMALLEST = 120, -12.0  # steps along the axis; powers of ten below are left out
VIEWS = ("amplitudes without raw", "all amplitudes", "phases")

_SCRIPT = """
const L = v.length, r = v.order, ln10 = Math.log(10);
let factorial = 1;
for (let k = 2; k <= r; k++) factorial *= k;
const size = (u, over) => r * Math.log10(u) - Math.log10(over);
const phases = {
  "linear phase d": (d) => Math.log10(d),
  "light-cone phase": (d) => Math.log10(L * Math.asinh(d / L)),
};
const amplitudes = {
  "raw": (d) => size(d, factorial),
  "scaled": (d) => size(d / L, factorial) - DAMPING * d / L / ln10,
  "clipped": (d) => size(Math.min(d / L, 1), factorial),
  "log": (d) => size(Math.log1p(d / L), factorial),
  "light cone": (d) => size(d / Math.hypot(d, L), 1),
};
if (v.show === "amplitudes without raw") delete amplitudes["raw"];
const end = Math.log10(v.reach), found = {};
for (const [name, f] of Object.entries(v.show === "phases" ? phases : amplitudes)) {
  const curve = Array.from({ length: POINTS + 1 }, (_, k) => {
    const x = end * k / POINTS;
    return [x, f(Math.pow(10, x))];
  });
  const last = Math.round(curve[POINTS][1] * 10) / 10 + 0;
  found[name + ": 10^" + last.toFixed(1) + " at the end"] = curve.filter(([, y]) => y >= SMALLEST);
}
return found;
"""


def lightcone_curves(
    length: float = 1024,
    order: int = 3,
    reach: float = 10**4.5,
    show: str = VIEWS[0],
) -> dict[str, tuple[list[float], list[float]]]:
    """Amplitudes ``u^r/r!`` of a jet, or its phases, against the lag, both as powers of ten.

    u is d (raw), d/L (scaled, times ``e^{-0.1 d/L}``), min(d/L, 1) (clipped), ln(1 + d/L) (log) and,
    without r!, ``d / sqrt(d^2 + L^2)`` (light cone). Phases are d and ``L asinh(d/L)``, in tokens.

    Args:
        length: L, tokens.
        order: r.
        reach: the longest lag, tokens, more than 1.
        show: one of ``VIEWS``.

    Returns:
        label -> (log10 of the lag, from 0; log10 of amplitude or phase). A label ends with the last
        value; points below 10^-12 are left out.

    Raises:
        ValueError: another word for show.
    """
    if show not in VIEWS:
        raise ValueError(f"show is {show!r}: choose from {', '.join(VIEWS)}")
    end, order = math.log10(reach), int(order)
    axis = end * torch.arange(POINTS + 1, dtype=torch.float64) / POINTS
    d = 10**axis
    x, factorial = coordinates.linear(d, length), math.factorial(order)

    def size(u: Tensor, over: int = factorial) -> Tensor:
        return order * u.log10() - math.log10(over)

    if show == "phases":
        curves = {
            "linear phase d": d.log10(),
            "light-cone phase": coordinates.phase(d, length).log10(),
        }
    else:
        curves = {
            "raw": size(d),
            "scaled": size(x) - DAMPING * x / math.log(10),
            "clipped": size(x.clamp(max=1)),
            "log": size(x.log1p()),
            "light cone": size(coordinates.velocity(d, length), 1),
        }
        if show == VIEWS[0]:
            del curves["raw"]
    found = {}
    for name, powers in curves.items():
        last, seen = round(float(powers[-1]), 1) + 0.0, powers >= SMALLEST
        label = f"{name}: 10^{last:.1f} at the end"
        found[label] = (axis[seen].tolist(), powers[seen].tolist())
    return found


def lightcone_explorer() -> InteractiveFigure:
    """Growth of one order of a jet in five forms, and the two phases, under sliders.

    Returns:
        A figure to end a notebook cell with.

    Chapter: lightcone.
    """

    def curves(length: float, order: int, reach: float, show: str) -> Curves:
        return lightcone_curves(length, order, reach, show)

    script = _SCRIPT.replace("DAMPING", str(DAMPING)).replace("POINTS", str(POINTS))
    return InteractiveFigure(
        curves,
        script.replace("SMALLEST", str(SMALLEST)),
        [
            Slider("length", "training length L (tokens)", 64, 4096, 64, 1024),
            Slider("order", "order r of the jet", 0, 3, 1, 3),
            Slider("reach", "longest lag (tokens)", 2, 6, 0.25, 4.5, log=True),
            Choice("show", "show", VIEWS, VIEWS[0]),
        ],
        xlabel="log10 of the lag (tokens)",
        ylabel="log10 of the value",
        legend="lower right",
        alt=(
            "Amplitudes of a jet against the lag, both as powers of ten. Up to the training length "
            "the scaled, clipped, logarithmic and light-cone forms are straight lines of one slope, "
            "the order. Beyond, the clipped and the light-cone form are flat, the logarithm goes on "
            "rising ever more slowly, and the scaled form rises, turns and falls. The raw form is "
            "a straight line throughout. As phases, the light-cone one leaves the straight line at "
            "the training length and hardly rises from there."
        ),
        name="lightcone-explorer",
    )
