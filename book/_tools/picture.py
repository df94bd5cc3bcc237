"""Draw the README's picture, book/_assets/kernels.svg, from the package.

python book/_tools/picture.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.ticker import MaxNLocator

from pjrope.interactive import rope_score_curves
from pjrope.kernels import ALiBi, FourierJet, LightCone
from pjrope.plotting import PALETTE, label_axes, use_style

TARGET = Path(__file__).resolve().parents[1] / "_assets" / "kernels.svg"
LENGTH = 256
TURNS = 3  # of the jets, per training length
LAGS = torch.arange(6 * LENGTH + 1)


def jet(kernel: FourierJet | LightCone) -> torch.Tensor:
    """The bias of a jet's one head with amplitudes 0, 1 at orders 0, 1."""
    with torch.no_grad():
        kernel.zeta_re.copy_(torch.tensor([[0.0, 1.0]]))
        kernel.zeta_im.zero_()
        return kernel.lag_bias(LAGS)[0]


def curves() -> dict[str, tuple[torch.Tensor, tuple[str, str | None], str]]:
    """Title -> (values over LAGS, label of the vertical axis, colour)."""
    rope = rope_score_curves(base=10_000.0, head_dim=64, longest=6 * LENGTH)["RoPE"][1]
    slow = {"max_order": 1, "omega": torch.tensor([2 * torch.pi * TURNS / LENGTH])}
    return {
        "RoPE: a rotation": (torch.tensor(rope), ("score", None), PALETTE["blue"]),
        "ALiBi: a straight line": (
            ALiBi(8).lag_bias(LAGS)[5],
            ("bias", "nats"),
            PALETTE["vermilion"],
        ),
        "Fourier jet: a Jordan block": (
            jet(FourierJet(1, LENGTH, **slow)),
            ("bias", "nats"),
            PALETTE["green"],
        ),
        "Light-cone: it slows down": (
            jet(LightCone(1, LENGTH, **slow)),
            ("bias", "nats"),
            PALETTE["purple"],
        ),
    }


def main(target: Path = TARGET) -> None:
    with use_style((8.0, 4.2)):
        fig, axes = plt.subplots(2, 2, sharex=True)
        for ax, (title, (values, unit, colour)) in zip(axes.flat, curves().items(), strict=True):
            ax.plot(LAGS, values.detach(), color=colour)
            ax.axvline(LENGTH, color="#555555", linewidth=1, linestyle=":")
            ax.set_title(title, fontsize=11, loc="left")
            label_axes(ax, x=("lag", "tokens"), y=unit)
            if ax in axes[0]:
                ax.set_xlabel("")
            ax.yaxis.set_major_locator(MaxNLocator(4))
        fig.align_ylabels()
        # No date and no version: the same package draws the same bytes.
        fig.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(fig)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
