"""Charts as inline SVG: no script, no network, colours from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Dots", "Line", "dots_chart", "legend", "line_chart", "ticks"]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 420, 52, 14, 10, 42
HEIGHT, ROW = 250, 34
DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class Line:
    """A curve: its name, style class and points."""

    name: str
    style: str
    points: Sequence[tuple[float, float]]
    dash: int = 0
    marks: bool = True


@dataclass(frozen=True)
class Dots:
    """A row of a dot chart: a label, single values, and perhaps a mean with its interval."""

    name: str
    style: str
    values: Sequence[float] = ()
    hollow: Sequence[float] = ()
    mean: tuple[float, float | None, float | None] | None = None


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most ``most`` round numbers between two ends."""
    span = max(high - low, 1e-9)
    step = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10):
        first = math.ceil(low / (step * factor) - 1e-9)
        last = math.floor(high / (step * factor) + 1e-9)
        if last - first < most:
            return [round(n * step * factor, 10) for n in range(first, last + 1)]
    return [low, high]


class _Frame:
    """Maps values to the canvas and draws the axes."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], height: int, left: int = LEFT
    ) -> None:
        self.x, self.y, self.height, self.left = x, y, height, left
        self.parts: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        wide, high = WIDTH - self.left - RIGHT, self.height - TOP - BOTTOM
        return round(self.left + across * wide, 1), round(self.height - BOTTOM - up * high, 1)

    def vertical(self, x: float, label: str = "", style: str = "grid") -> None:
        at, top, foot = self.at(x, 0)[0], TOP, self.height - BOTTOM
        self.parts.append(f'<path class="{style}" d="M{at} {top}V{foot}"/>')
        if label:
            self.parts.append(f'<text x="{at}" y="{foot + 15}" class="mid">{escape(label)}</text>')

    def horizontal(self, y: float, label: str) -> None:
        at = self.at(0, y)[1]
        self.parts.append(f'<path class="grid" d="M{self.left} {at}H{WIDTH - RIGHT}"/>')
        self.parts.append(
            f'<text x="{self.left - 6}" y="{at + 4}" class="end">{escape(label)}</text>'
        )

    def names(self, x: str, y: str = "") -> None:
        middle = (self.left + WIDTH - RIGHT) / 2
        self.parts.append(
            f'<text x="{middle}" y="{self.height - 8}" class="mid">{escape(x)}</text>'
        )
        if y:
            up = (TOP + self.height - BOTTOM) / 2
            self.parts.append(
                f'<text transform="translate(12 {up}) rotate(-90)" class="mid">{escape(y)}</text>'
            )

    def svg(self, alt: str) -> str:
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(alt, True)}">'
            + "".join(self.parts)
            + "</svg>"
        )


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _ends(values: Sequence[float], room: float = 0.06) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = room * (high - low) or 0.05 * abs(high) or 1.0
    return low - pad, high + pad


def line_chart(
    lines: Sequence[Line],
    *,
    x: str,
    y: str,
    alt: str,
    x_ticks: Sequence[tuple[float, str]] | None = None,
    mark_at: tuple[float, str] | None = None,
) -> str:
    """Curves over a number.

    Args:
        lines: the curves.
        x, y: names of the axes with their units.
        alt: what a reader who cannot see the picture is told.
        x_ticks: places and labels; None takes round numbers.
        mark_at: a place on x with a line of its own, and its label.
    """
    xs = [p[0] for line in lines for p in line.points]
    ys = [p[1] for line in lines for p in line.points]
    frame = _Frame(_ends(xs, 0.03), _ends(ys), HEIGHT)
    for tick in ticks(*frame.y):
        frame.horizontal(tick, _number(tick))
    for at, label in x_ticks or [(t, _number(t)) for t in ticks(*frame.x)]:
        frame.vertical(at, label)
    if mark_at:
        frame.vertical(mark_at[0], style="zero")
        place = frame.at(mark_at[0], frame.y[1])
        frame.parts.append(f'<text x="{place[0] + 4}" y="{TOP + 11}">{escape(mark_at[1])}</text>')
    for line in lines:
        frame.parts.append(_curve(frame, line))
    frame.names(x, y)
    return frame.svg(alt)


def _curve(frame: _Frame, line: Line) -> str:
    places = [frame.at(*p) for p in line.points]
    path = "M" + "L".join(f"{a} {b}" for a, b in places)
    dash = f' stroke-dasharray="{DASHES[line.dash]}"' if line.dash else ""
    drawn = [f'<path class="line {line.style}" d="{path}"{dash}/>']
    if line.marks:
        drawn += [f'<circle class="dot {line.style}" cx="{a}" cy="{b}" r="3"/>' for a, b in places]
    return "".join(drawn)


def dots_chart(rows: Sequence[Dots], *, x: str, alt: str, zero: bool = True) -> str:
    """Values in rows, one row a name; a bar is the mean with its interval.

    Args:
        rows: from top to bottom.
        x: name of the axis with its unit.
        alt: what a reader who cannot see the picture is told.
        zero: draw a line at 0.
    """
    values = [0.0] if zero else []
    for row in rows:
        values += [*row.values, *row.hollow, *(v for v in row.mean or () if v is not None)]
    height = TOP + BOTTOM + ROW * len(rows)
    frame = _Frame(_ends(values), (0, len(rows)), height, left=112)
    for tick in ticks(*frame.x):
        frame.vertical(tick, _number(tick))
    if zero:
        frame.vertical(0, style="zero")
    for number, row in enumerate(rows):
        up = len(rows) - number - 0.5
        _, y = frame.at(0, up)
        frame.parts.append(f'<text x="104" y="{y + 4}" class="end">{escape(row.name)}</text>')
        for style, found in (("hollow", row.hollow), ("dot", row.values)):
            for value in found:
                at = frame.at(value, up)[0]
                frame.parts.append(
                    f'<circle class="{style} {row.style}" cx="{at}" cy="{y}" r="4"/>'
                )
        if row.mean:
            frame.parts.append(_mean(frame, row, up))
    frame.names(x)
    return frame.svg(alt)


def _mean(frame: _Frame, row: Dots, up: float) -> str:
    assert row.mean is not None
    mean, low, high = row.mean
    at, y = frame.at(mean, up)
    drawn = f'<path class="line {row.style} thick" d="M{at} {y - 9}V{y + 9}"/>'
    if low is not None and high is not None:
        a, b = frame.at(low, up)[0], frame.at(high, up)[0]
        drawn += f'<path class="line {row.style}" d="M{a} {y}H{b}"/>'
    return drawn


def legend(lines: Sequence[Line]) -> str:
    """A list of what the curves of a chart are."""
    items = []
    for line in lines:
        dash = f' stroke-dasharray="{DASHES[line.dash]}"' if line.dash else ""
        swatch = (
            '<svg viewBox="0 0 28 10" width="28" height="10" aria-hidden="true">'
            f'<path class="line {line.style}" d="M1 5H27"{dash}/></svg>'
        )
        items.append(f"<li>{swatch} {escape(line.name)}</li>")
    return f'<ul class="legend">{"".join(items)}</ul>'
