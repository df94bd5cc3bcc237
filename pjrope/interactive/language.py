"""The explorer of chapter phase-language: what a linear reader of one frequency can score."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..positions.coordinates import bounded_shear, linear
from ..positions.frequencies import geometric
from .controls import Choice, Slider
from .figure import Curves, InteractiveFigure

SHEARS = ("exact", "stabilized", "lag")

_READER_SCRIPT = """
const L = LENGTH, w = LADDER[v.index];
const tau = (p) => p / (1 + Math.abs(p) / L);
const dot = (a, b) => a.reduce((sum, x, n) => sum + x * b[n], 0);
const accuracy = (longest, order, c) => {
  const column = (f) => Float64Array.from({ length: longest }, (_, n) => f(n + 1));
  const time = {
    exact: (d) => d / L,
    stabilized: (d) => (tau(longest) - tau(longest - d)) / L,
    lag: (d) => tau(d) / L,
  }[v.shear];
  const target = column((d) => Math.pow(d / L, v.power) * Math.cos(w * d));
  const basis = [];
  let caught = 0;
  for (let k = 0; k < order; k++) {
    for (const wave of [Math.cos, Math.sin]) {
      const u = column((d) => Math.exp((-c * d) / L) * Math.pow(time(d), k) * wave(w * d));
      for (const b of [...basis, ...basis]) {  // twice, or rounding would leave them oblique
        const part = dot(u, b);
        b.forEach((x, n) => { u[n] -= part * x; });
      }
      const size = Math.sqrt(dot(u, u));
      basis.push(u.map((x) => x / size));
      caught += dot(target, basis.at(-1)) ** 2;
    }
  }
  return 1 - Math.acos(Math.min(1, Math.sqrt(caught / dot(target, target)))) / Math.PI;
};
const curve = (order, c) => TIMES.map((t) => [t, accuracy(Math.round(t * L) - 1, order, c)]);
return { "phase alone": curve(1, 0), "the block": curve(v.order, v.damping) };
"""


def reader_accuracy(
    longest: int, omega: float, power: int, order: int, shear: str, damping: float, length: int
) -> float:
    """Accuracy ``1 - arccos(rho) / pi`` of the best linear read-out of one Jordan block.

    The answer is the sign of ``sum_d x^r cos(omega d) s(d)``, ``x = d/L``; the block offers
    ``e^{-cx} t^k cos(omega d)`` and ``... sin(omega d)``, ``k < m``; rho is the cosine between the
    target and its projection.

    Args:
        longest: last lag, tokens.
        omega: radians per token.
        power: r.
        order: m; 1 is a phase without shear.
        shear: the time t: "exact" ``d/L``, "lag" ``tau(d)/L``, "stabilized" what absolute positions
            give to the last token.
        damping: c, no unit.
        length: L, tokens.

    Returns:
        Between 1/2 and 1.

    Raises:
        ValueError: a shear that is not known.
    """
    if shear not in SHEARS:
        raise ValueError(f"shear is {shear!r}: known are {', '.join(SHEARS)}")
    lags = torch.arange(1, longest + 1)
    x, phase = linear(lags, length), omega * lags.double()
    if shear == "exact":
        time = x
    elif shear == "lag":
        time = bounded_shear(lags, length) / length
    else:
        last = bounded_shear(torch.tensor([longest]), length)
        time = (last - bounded_shear(longest - lags, length)) / length
    faded = torch.exp(-damping * x)
    columns = [faded * time**k * wave for k in range(order) for wave in (phase.cos(), phase.sin())]
    return _agreement(x**power * phase.cos(), torch.stack(columns, dim=1))


def _agreement(target: Tensor, columns: Tensor) -> float:
    caught = torch.linalg.qr(columns).Q.T @ target
    return 1 - math.acos(min(1.0, float(caught.norm() / target.norm()))) / math.pi


def reader_curves(
    index: int,
    power: int,
    order: int,
    shear: str = "exact",
    damping: float = 0.0,
    *,
    head_dim: int = 32,
    length: int = 128,
    farthest: int = 8,
) -> dict[str, tuple[list[float], list[float]]]:
    """Accuracy of the best linear reader against the length of the exam.

    Args:
        index: of the frequency in the ladder of ``head_dim`` channels, from 0.
        power, order, shear, damping, length: as for :func:`reader_accuracy`.
        head_dim: D.
        farthest: longest exam, in training lengths.

    Returns:
        label -> (exam lengths over L, accuracies), of a phase alone and of the block.
    """
    omega = float(geometric(head_dim)[index])
    times = _times(farthest)

    def curve(order: int, damping: float) -> tuple[list[float], list[float]]:
        rest = (omega, power, order, shear, damping, length)
        return times, [reader_accuracy(round(t * length) - 1, *rest) for t in times]

    return {"phase alone": curve(1, 0.0), "the block": curve(order, damping)}


def _times(farthest: int) -> list[float]:
    return [1 + n / 4 for n in range(4 * farthest - 3)]


def linear_reader(head_dim: int = 32, length: int = 128, farthest: int = 8) -> InteractiveFigure:
    """What a linear read-out of one frequency can score in the lag languages, with sliders.

    Args:
        head_dim: D, whose ladder the frequency comes from; a multiple of 4.
        length: L, tokens.
        farthest: longest exam, in training lengths.

    Returns:
        A figure to end a notebook cell with.

    Chapter: phase-language.
    """

    def curves(**values: Any) -> Curves:
        return reader_curves(**values, head_dim=head_dim, length=length, farthest=farthest)

    ladder = geometric(head_dim)[: head_dim // 4].tolist()
    script = _READER_SCRIPT.replace("LENGTH", str(length)).replace("LADDER", str(ladder))
    return InteractiveFigure(
        curves,
        script.replace("TIMES", str(_times(farthest))),
        [
            Slider("index", "frequency (index in the ladder)", 0, len(ladder) - 1, 1, 3),
            Slider("power", "power r of the target", 1, 3, 1, 1),
            Slider("order", "order m of the block", 1, 4, 1, 2),
            Choice("shear", "shear time", SHEARS, "stabilized"),
            Slider("damping", "damping c", 0, 2, 0.1, 0),
        ],
        xlabel="length of the exam (training lengths)",
        ylabel="accuracy",
        ylim=(0.45, 1.03),
        alt=(
            "Accuracy of the best linear reader against the length of the exam, from one to eight "
            "training lengths. The phase alone is flat. The block starts higher and, with a bounded "
            "shear or a damping, comes down with the length; an exact shear of high enough order "
            "without damping stays at 1."
        ),
        name="linear-reader",
    )
