"""Draw the picture of the whole space, book/_assets/space.svg, and the card that links show.

python book/_tools/space_picture.py
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from pjrope.interactive.space import Space, presets
from pjrope.interactive.space.formulas import parts, roots
from pjrope.plotting import PALETTE, use_style

ASSETS = Path(__file__).resolve().parents[1] / "_assets"
LAGS = torch.arange(6 * 64 + 1, dtype=torch.float64)
# Preset -> what is changed for the eye, label, colour, marker, where the label stands.
ROOTS = {
    "rope": ({"dim": 32}, "RoPE", "#222222", "o", (0.62, 0.86)),
    "damped": ({"cycles": 14.0, "damping": 12.0}, "damped rotation", PALETTE["grey"], "s", (-0.72, 0.6)),
    "scaled": (
        {"cycles": 6.0, "damping": 6.0}, "Jordan block, ×2", PALETTE["blue"], "D", (-0.12, 0.33),
    ),
    "alibi": ({}, "ALiBi, ×2", PALETTE["vermilion"], "v", (0.4, -0.2)),
    "near": ({}, "near lags, ×4", PALETTE["green"], "P", (-0.62, -0.2)),
}  # fmt: skip
CURVES = {
    "rope": ("RoPE: a rotation", "#222222"),
    "scaled": ("Jordan block: distance times phase", PALETTE["blue"]),
    "alibi": ("ALiBi: a straight line", PALETTE["vermilion"]),
    "lc": ("Light cone: it slows down, no roots", PALETTE["purple"]),
}


def draw(size: tuple[float, float]) -> Figure:
    """Roots of five methods in the plane, and the logit of four by lag."""
    points: dict[str, Space] = {preset.key: preset.space for preset in presets()}
    figure = plt.figure(figsize=size)
    grid = figure.add_gridspec(2, 3, width_ratios=(2.1, 1, 1))
    plane = figure.add_subplot(grid[:, 0])
    plane.add_patch(plt.Circle((0, 0), 1, fill=False, color="#555555", linewidth=1))
    for key, (changes, label, colour, marker, place) in ROOTS.items():
        found = roots(replace(points[key], **changes))
        plane.plot(
            [r.value.real for r in found], [r.value.imag for r in found], linestyle="none",
            marker=marker, color=colour, markersize=8 if found[0].multiplicity > 1 else 5,
        )  # fmt: skip
        plane.text(*place, label, color=colour, fontsize=10)
    plane.set(
        xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal", xticks=(-1, 0, 1), yticks=(-1, 0, 1)
    )
    plane.set_title("Methods as roots in the complex plane", fontsize=11, loc="left")
    for n, (key, (title, colour)) in enumerate(CURVES.items()):
        ax = figure.add_subplot(grid[n // 2, 1 + n % 2])
        ax.plot(LAGS, parts(points[key], LAGS)["sum"], color=colour)
        ax.axvline(64, color="#555555", linewidth=1, linestyle=":")
        ax.set_title("\n".join(title.split(": ")), fontsize=10, loc="left")
        ax.set_xticks((0, 64, 384), ("0", "L", "6 L"))
        ax.set_yticks([])
    return figure


def main(folder: Path = ASSETS) -> None:
    with use_style((9.6, 4.4)), plt.rc_context({"svg.hashsalt": "pjrope"}):
        figure = draw((9.6, 4.4))
        # No date and no version: the same package draws the same bytes.
        figure.savefig(folder / "space.svg", metadata={"Date": None, "Creator": None})
        figure.savefig(folder / "space.pdf", metadata={"CreationDate": None, "Creator": None})
        plt.close(figure)
        card = draw((12.8, 6.4))
        card.suptitle("pjrope: relative position in attention, one space", fontsize=20)
        card.savefig(folder / "social.png", dpi=100)
        plt.close(card)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ASSETS)
