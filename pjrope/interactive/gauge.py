"""The explorer of chapter gates: gates move, amplitudes follow or not, and the kernel shows which."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..diagnostics import regauge, sector_functions
from ..kernels.pj import PJBias
from .controls import Choice, Slider
from .figure import Curves, InteractiveFigure

LENGTH, LONGEST, CYCLES = 64, 128, 4
CONE = 2.0  # nats, amplitude of the light cone
KEEP = ("no", "yes")

_GAUGE_SCRIPT = """
const L = LENGTH, n = LONGEST + 1, omega = (2 * Math.PI * CYCLES) / L;
const odds = [Math.exp(v.jet), Math.exp(v.line), 1];
const total = odds[0] + odds[1] + odds[2];
const gate = odds.map((x) => x / total);
const scale = gate.map((g) => (v.keep === "yes" ? 1 / 3 / g : 1));
const size = [v.amplitude, v.slope, CONE].map((x, k) => x * scale[k]);
const shape = [
  (d) => (d / L) * Math.cos(omega * d),
  (d) => -d / L,
  (d) => Math.cos(omega * L * Math.asinh(d / L)),
];
const part = shape.map((f, k) => Array.from({ length: n }, (_, d) => gate[k] * size[k] * f(d)));
const sum = part[0].map((x, d) => x + part[1][d] + part[2][d]);
const rms = (ys) => {
  const near = ys.slice(0, L), mean = near.reduce((s, y) => s + y, 0) / L;
  return Math.sqrt(near.reduce((s, y) => s + (y - mean) ** 2, 0) / L).toFixed(2);
};
const curve = (ys) => ys.map((y, d) => [d, y]);
const told = (name, what, k) => name + ": gate " + gate[k].toFixed(2) + " × " + what + " "
  + size[k].toFixed(2) + " = " + (gate[k] * size[k]).toFixed(2) + ", rms " + rms(part[k]);
return {
  [told("Fourier jet", "amplitude", 0)]: curve(part[0]),
  [told("affine", "slope", 1)]: curve(part[1]),
  [told("light cone", "amplitude", 2)]: curve(part[2]),
  ["sum: rms " + rms(sum)]: curve(sum),
};
"""


def _union(amplitude: float, slope: float) -> PJBias:
    """A jet of order 1, a line and a light cone of order 0, under equal gates."""
    kernel = PJBias(1, LENGTH, max_order=1, omega_cycles=CYCLES, signed_slope=True).double()
    with torch.no_grad():
        for name in ("fj_zeta_re", "fj_zeta_im", "lc_zeta_re", "lc_zeta_im"):
            getattr(kernel, name).zero_()
        kernel.get_parameter("fj_zeta_re")[0, 1] = 2 * amplitude  # its order weight is one half
        kernel.get_parameter("lc_zeta_re")[0, 0] = 2 * CONE
        kernel.get_parameter("raw_fj_damping").fill_(-torch.inf)
        kernel.get_parameter("affine_slope").fill_(slope)
        kernel.omega.fill_(2 * math.pi * CYCLES / LENGTH)
    return kernel


@torch.no_grad()
def gauge_curves(
    jet: float = 0.0,
    line: float = 0.0,
    amplitude: float = 3.0,
    slope: float = 3.0,
    keep: str = "no",
) -> dict[str, tuple[list[int], list[float]]]:
    """A union of three sectors by lag, with gates, masses and sizes in the names of its curves.

    ``b(d) = g_fj a x cos wd - g_aff s x + g_lc l cos w phi`` with ``x = d/L``, L = 64, four turns
    per L and l = 2 nats.

    Args:
        jet: gate logit of the Fourier jet; that of the light cone is 0.
        line: gate logit of the affine sector.
        amplitude: a >= 0, nats.
        slope: s, nats per L tokens.
        keep: "yes" divides amplitudes and slope by what their gate has gained since all three were
            equal, so that the function stays; "no" lets the gates change it.

    Returns:
        label -> (lags 0 ... 128, nats): the three sectors, gates applied, and the bias. Labels say
        gate, amplitude or slope, their product and the rms about the mean over d < L.

    Raises:
        ValueError: keep is neither "yes" nor "no".
    """
    if keep not in KEEP:
        raise ValueError(f"keep is {keep!r}: {' or '.join(KEEP)}")
    kernel = _union(amplitude, slope)
    logits = torch.tensor([jet, line, 0.0], dtype=torch.float64)
    if keep == "yes":
        kept = regauge(kernel, logits.softmax(0))
        assert isinstance(kept, PJBias)
        kernel = kept
    else:
        kernel.gate_logits.copy_(logits[None])
    lags = torch.arange(LONGEST + 1)
    parts, bias = sector_functions(kernel, lags), kernel.lag_bias(lags)
    sizes = {
        "fj": ("Fourier jet", "amplitude", kernel.get_parameter("fj_zeta_re")[0, 1] / 2),
        "affine": ("affine", "slope", kernel.slope[0]),
        "lc": ("light cone", "amplitude", kernel.get_parameter("lc_zeta_re")[0, 0] / 2),
    }
    curves = {}
    for sector, (name, what, size) in sizes.items():
        gate = float(kernel.gate(sector)[0])
        said = f"{gate:.2f} × {what} {float(size):.2f} = {gate * float(size):.2f}"
        label = f"{name}: gate {said}, rms {_rms(parts[sector][0]):.2f}"
        curves[label] = (lags.tolist(), parts[sector][0].tolist())
    curves[f"sum: rms {_rms(bias[0]):.2f}"] = (lags.tolist(), bias[0].tolist())
    return curves


def _rms(values: torch.Tensor) -> float:
    return float(values[:LENGTH].std(correction=0))


def gauge_explorer() -> InteractiveFigure:
    """Gates, amplitudes and the kernel they make, with a switch that keeps the kernel.

    Returns:
        A figure to end a notebook cell with.

    Chapter: gates.
    """

    def curves(**values: Any) -> Curves:
        return gauge_curves(**values)

    script = _GAUGE_SCRIPT.replace("LENGTH", str(LENGTH)).replace("LONGEST", str(LONGEST))
    return InteractiveFigure(
        curves,
        script.replace("CYCLES", str(CYCLES)).replace("CONE", str(CONE)),
        [
            Slider("jet", "gate logit of the Fourier jet (nats)", -4, 4, 0.5, 0),
            Slider("line", "gate logit of the affine sector (nats)", -4, 4, 0.5, 0),
            Slider("amplitude", "amplitude of the jet at equal gates (nats)", 0, 6, 0.5, 3),
            Slider("slope", "slope at equal gates (nats per L)", 0, 6, 0.5, 3),
            Choice("keep", "keep the function", KEEP, "no"),
        ],
        xlabel="lag d (tokens)",
        ylabel="bias (nats)",
        ylim=(-5, 7),
        marks={f"L = {LENGTH}": LENGTH},
        alt=(
            "A bias against the lag and its three sectors: a growing wave, a falling line and a wave "
            "that slows down. Gates, amplitudes and the sizes of the sectors are written beside "
            "the names. Moving a gate changes all curves, unless the function is kept: then the "
            "numbers for gates, amplitudes and slope change and the curves, products and sizes stay."
        ),
        name="gauge-explorer",
    )
