"""The explorer of chapter jordan: one block of order 2, in each of its forms."""

from __future__ import annotations

from typing import Any

import torch

from ..positions import coordinates
from .controls import Choice, Slider
from .figure import Curves, InteractiveFigure

FORMS = ("scaled", "exact", "stabilized", "lag")  # of JordanRoPE

UNIT = 64  # tokens: what "per unit" means in every form but the scaled one, where it is L
LONGEST = 256  # tokens

_MODES_SCRIPT = """
const L = v.length, unit = v.form === "scaled" ? L : UNIT;
const tau = (p) => p / (1 + Math.abs(p) / L);
const time = {
  scaled: (d) => d,
  exact: (d) => d,
  stabilized: (d, j) => tau(j + d) - tau(j),
  lag: (d) => tau(d),
}[v.form];
const score = (d, j) =>
  (1 + v.eta * time(d, j) / unit) * Math.exp(-v.c * d / unit) * Math.cos(v.omega * d);
const curve = (f) => Array.from({ length: LONGEST + 1 }, (_, d) => [d, f(d)]);
return {
  "key at position 0": curve((d) => score(d, 0)),
  "key moved": curve((d) => score(d, v.offset)),
  "phase alone": curve((d) => Math.cos(v.omega * d)),
};
"""


def jordan_mode_curves(
    form: str = "scaled",
    omega: float = 0.1,
    c: float = 1.0,
    eta: float = 4.0,
    length: float = 64,
    offset: int = 256,
) -> dict[str, tuple[list[int], list[float]]]:
    """Score of one pair by lag, ``(1 + eta t/u) e^{-c d/u} cos(omega d)``, for two places of the key.

    One block of order 2 with the complex slots ``q = (1, 0)`` and ``k = (1, 1)``. The unit u is L
    in the scaled form, else 64 tokens; the shear time t is d ("scaled", "exact"),
    ``tau(j + d) - tau(j)`` ("stabilized") or ``tau(d)`` ("lag"), with ``tau(p) = p/(1 + |p|/L)``.

    Args:
        form: one of the forms of ``JordanRoPE``.
        omega: radians per token.
        c: damping per unit, no unit.
        eta: shear per unit, no unit.
        length: L, tokens.
        offset: position j of the moved key, tokens.

    Returns:
        label -> (lags 0 ... 256, scores without unit).

    Raises:
        ValueError: a form that is not known.
    """
    if form not in FORMS:
        raise ValueError(f"form is {form!r}: known are {', '.join(FORMS)}")
    d = torch.arange(LONGEST + 1)
    lag = d.double()
    phase = torch.cos(omega * lag)
    unit = length if form == "scaled" else UNIT

    def tau(positions: torch.Tensor) -> torch.Tensor:
        return coordinates.bounded_shear(positions, length)

    def score(j: int) -> list[float]:
        time = {
            "scaled": lambda: lag,
            "exact": lambda: lag,
            "stabilized": lambda: tau(d + j) - tau(torch.tensor(j)),
            "lag": lambda: tau(d),
        }[form]()
        return ((1 + eta * time / unit) * torch.exp(-c * lag / unit) * phase).tolist()

    return {
        "key at position 0": (d.tolist(), score(0)),
        "key moved": (d.tolist(), score(int(offset))),
        "phase alone": (d.tolist(), phase.tolist()),
    }


def jordan_modes() -> InteractiveFigure:
    """The score of one pair by lag in each form of a Jordan block, with its rates as sliders.

    Returns:
        A figure to end a notebook cell with.

    Chapter: jordan.
    """

    def curves(**values: Any) -> Curves:
        return jordan_mode_curves(**values)

    script = _MODES_SCRIPT.replace("UNIT", str(UNIT)).replace("LONGEST", str(LONGEST))
    return InteractiveFigure(
        curves,
        script,
        [
            Choice("form", "form", FORMS, "scaled"),
            Slider("omega", "frequency ω (radians per token)", 0, 0.6, 0.02, 0.1),
            Slider("c", "damping c (per unit)", 0, 4, 0.25, 1),
            Slider("eta", "shear η (per unit)", -8, 8, 0.5, 4),
            Slider("length", "training length L (tokens)", 16, 256, 16, 64),
            Slider("offset", "position of the moved key (tokens)", 0, 1024, 64, 256),
        ],
        xlabel="lag d (tokens)",
        ylabel="score",
        ylim=(-3, 3),
        alt=(
            "Score of one query and one key against the lag, for a key at position 0 and for the "
            "same key moved, beside the phase alone. In the scaled, exact and lag forms the two "
            "scores coincide wherever the key stands. In the stabilized form they part: the moved "
            "key has less shear."
        ),
        name="jordan-modes",
    )
