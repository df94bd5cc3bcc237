"""A second panel for interactive figures: numbered dots in the complex plane, with the unit circle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..plotting import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCRIPT = Path(__file__).with_name("plane.js")


@dataclass(frozen=True)
class Plane:
    """Dots in the complex plane that move with the controls of a figure.

    Args:
        dots: keyword values -> ``[(re, im, text), ...]``; the text stands beside its dot.
        script: body of a JavaScript function of ``v`` that returns ``[[re, im, text], ...]``; a
            test has to hold it against ``dots``.
        title: what the dots are.
        alt: what the panel shows, in plain words.
        limit: half the width of the square that is shown, no unit; dots outside are not drawn.

    Raises:
        ValueError: no alt text.
    """

    dots: Callable[..., Sequence[tuple[float, float, str]]]
    script: str
    title: str
    alt: str
    limit: float = 1.25

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError(f"plane {self.title!r} has no alt text: say in words what it shows")

    @property
    def config(self) -> dict[str, Any]:
        """What the page's script has to know beside ``script``."""
        colour = PALETTE["vermilion"]
        return {"title": self.title, "alt": self.alt, "limit": self.limit, "colour": colour}

    def draw(self, ax: Axes, **values: Any) -> Axes:
        """Draw the dots at these values of the controls.

        Args:
            ax: where to draw.
            values: as ``dots`` receives them.

        Returns:
            ``ax``.
        """
        from matplotlib.patches import Circle

        ax.add_patch(Circle((0, 0), 1, fill=False, color="#555555", linewidth=1))
        for x, y, text in self.dots(**values):
            if max(abs(x), abs(y)) <= self.limit:
                ax.plot(x, y, "o", color=PALETTE["vermilion"], markersize=6)
                away = (-22, -4) if y == 0 else (-4, 6 if y > 0 else -14)
                ax.annotate(text, (x, y), away, textcoords="offset points")
        ax.set(xlim=(-self.limit, self.limit), ylim=(-self.limit, self.limit), aspect="equal")
        ax.set(xticks=(-1, 0, 1), yticks=(-1, 0, 1), xlabel="real part", ylabel="imaginary part")
        ax.set_title(self.title, fontsize=10)
        return ax
