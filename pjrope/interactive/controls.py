"""The controls of an interactive figure: a number to move, a name to pick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..extras import need

if TYPE_CHECKING:
    import ipywidgets as widgets
else:
    widgets = need("ipywidgets", "book")


def _look(label: str) -> dict[str, Any]:
    """Room for a long label: the default width would leave its slider none."""
    wide = {"width": "32rem", "max_width": "100%"}
    return {"description": label, "style": {"description_width": "initial"}, "layout": wide}


@dataclass(frozen=True)
class Slider:
    """A number the reader may move.

    Args:
        name: keyword under which ``curves`` and the script receive it.
        label: what the reader sees, with the unit.
        low: lowest position.
        high: highest position.
        step: distance between positions.
        value: first position.
        log: positions are powers of ten: position 4 hands over 10000.

    Raises:
        ValueError: a range that is empty, or a value outside it.
    """

    name: str
    label: str
    low: float
    high: float
    step: float
    value: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high or self.low == self.high or self.step <= 0:
            raise ValueError(
                f"slider {self.name!r}: value {self.value} with step {self.step} in "
                f"[{self.low}, {self.high}], wanted low <= value <= high and step > 0"
            )

    def widget(self) -> widgets.Widget:
        """The ipywidgets control of this slider."""
        look = _look(self.label)
        if self.log:
            return widgets.FloatLogSlider(
                10**self.value, base=10, min=self.low, max=self.high, step=self.step, **look
            )
        whole = all(float(x).is_integer() for x in (self.low, self.high, self.step, self.value))
        kind, cast = (widgets.IntSlider, int) if whole else (widgets.FloatSlider, float)
        return kind(
            value=cast(self.value),
            min=cast(self.low),
            max=cast(self.high),
            step=cast(self.step),
            **look,
        )


@dataclass(frozen=True)
class Choice:
    """A name the reader may pick: ``Choice("form", "extension", ("none", "PI"), "none")``.

    Args:
        name: keyword under which ``curves`` and the script receive it.
        label: what the reader sees.
        options: the names to choose from.
        value: the first one chosen.

    Raises:
        ValueError: a value that is not among the options.
    """

    name: str
    label: str
    options: tuple[str, ...]
    value: str

    def __post_init__(self) -> None:
        if self.value not in self.options:
            raise ValueError(f"choice {self.name!r}: {self.value!r} is not in {self.options}")

    def widget(self) -> widgets.Widget:
        """The ipywidgets control of this choice."""
        return widgets.Dropdown(
            options=list(self.options),
            value=self.value,
            **_look(self.label),
        )
