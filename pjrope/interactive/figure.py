"""Figures with sliders that live three lives: in a kernel, on a static page, on paper.

With a kernel they are ipywidgets; on a page without one a script repeats the formula; in print the
still picture stays. Only core ipywidgets are used, in the interface that versions 7.7 and 8 share.
"""

from __future__ import annotations

import base64
import html
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..extras import need
from ..plotting import DASHES, DPI, PALETTE, WIDE, draw_curves, use_style
from . import plane as panels
from .controls import Choice, Slider

if TYPE_CHECKING:
    import ipywidgets as widgets
else:
    widgets = need("ipywidgets", "book")

Curves = Mapping[str, tuple[Sequence[float], Sequence[float]]]

_numbers = itertools.count(1)  # ids from a counter, so that a re-run stores the same page
_PAGE_SCRIPT = Path(__file__).with_name("page.js")


def _literal(config: Mapping[str, Any]) -> str:
    """A JavaScript object that cannot close the script it stands in."""
    return json.dumps(config, ensure_ascii=False, sort_keys=True).replace("</", "<\\/")


class InteractiveFigure(widgets.VBox):
    """Line curves under sliders, drawn by Python in a kernel and by a script on a static page.

    Args:
        curves: keyword values -> ``{label: (x, y)}``, x and y of equal length.
        script: body of a JavaScript function of ``v`` (an object with the same names) that returns
            ``{label: [[x, y], ...]}``; a test has to hold it against ``curves``.
        sliders: the controls, in order.
        xlabel: text of the horizontal axis, with its unit.
        ylabel: text of the vertical axis, with its unit.
        ylim: limits of the vertical axis, fixed so that curves can be compared; None follows them.
        alt: what the figure shows, in plain words.
        name: letters, digits and dashes; becomes part of the id on the page.
        marks: label -> x of vertical lines.
        caption: a sentence below the figure.
        legend: matplotlib's place of the legend in the still picture.
        plane: a second panel with dots in the complex plane.

    Raises:
        ValueError: no alt text, no control, two controls of one name, or an unusable name.

    Limits: the page draws what ``script`` says, not what ``curves`` says.
    """

    def __init__(
        self,
        curves: Callable[..., Curves],
        script: str,
        sliders: Sequence[Slider | Choice],
        *,
        xlabel: str,
        ylabel: str,
        alt: str,
        name: str,
        ylim: tuple[float, float] | None = None,
        marks: Mapping[str, float] | None = None,
        caption: str = "",
        legend: str = "upper right",
        plane: panels.Plane | None = None,
    ) -> None:
        if not alt.strip():
            raise ValueError(f"figure {name!r} has no alt text: say in words what it shows")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise ValueError(f"name is {name!r}: use lower-case letters, digits and dashes")
        names = [control.name for control in sliders]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"controls are {names}: at least one is needed, each with its own name"
            )
        self._curves, self._script, self._specs = curves, script, tuple(sliders)
        self._axes: dict[str, Any] = {
            "xlabel": xlabel,
            "ylabel": ylabel,
            "ylim": ylim,
            "marks": dict(marks or {}),
        }
        self._alt, self._caption, self._name, self._plane = alt, caption, name, plane
        self._legend = legend
        self.controls = {control.name: control.widget() for control in sliders}
        self._still = widgets.HTML()
        super().__init__([*self.controls.values(), self._still])
        for control in self.controls.values():
            control.observe(self._redraw, "value")
        self._redraw()

    @property
    def values(self) -> dict[str, Any]:
        """The controls' present values, as ``curves`` receives them."""
        return {name: control.value for name, control in self.controls.items()}

    def png(self) -> bytes:
        """The figure at the present values, as PNG bytes.

        Limits: 64 colours, which a line figure does not notice and which make it four times
        smaller; a notebook stores it twice.
        """
        from matplotlib.figure import Figure
        from PIL import Image  # matplotlib cannot do without it either

        with use_style(WIDE if self._plane is None else (6.4, 5.2)):
            figure = Figure()  # not through pyplot: a notebook would show it a second time
            if self._plane is None:
                ax = figure.subplots()
            else:
                ax, below = figure.subplots(2, 1, height_ratios=(5, 4))
                self._plane.draw(below, **self.values)
            draw_curves(ax, self._curves(**self.values), legend=self._legend, **self._axes)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=DPI)
        small, still = io.BytesIO(), Image.open(buffer).convert("RGB").quantize(64)
        still.save(small, "png", optimize=True, dpi=(DPI, DPI))
        return small.getvalue()

    def page(self) -> str:
        """HTML of the static life: a still picture that its script replaces by live controls."""
        number = f"pj-{self._name}-{next(_numbers)}"
        config = {
            "id": number,
            "alt": self._alt,
            "caption": self._caption,
            "controls": [asdict(control) for control in self._with_present_values()],
            "looks": list(zip(PALETTE.values(), DASHES, strict=True)),
            **self._axes,
        }
        script = _PAGE_SCRIPT.read_text(encoding="utf8")
        if self._plane is not None:
            script += (
                f"const plane = {_literal(self._plane.config)};\n"
                f"const dots = (v) => {{\n{self._plane.script.strip()}\n}};\n"
                + panels.SCRIPT.read_text(encoding="utf8")
            )
        return (
            f'<figure class="pj-fig" id="{number}" style="margin:0;max-width:44rem">\n'
            f"{self._image()}\n</figure>\n<script>\n(() => {{\nconst config = {_literal(config)};\n"
            f"const compute = (v) => {{\n{self._script.strip()}\n}};\n"
            f"{script}}})();\n</script>"
        )

    def _with_present_values(self) -> list[Slider | Choice]:
        present = []
        for control in self._specs:
            value = self.controls[control.name].value
            if isinstance(control, Slider) and control.log:
                value = math.log10(value)
            present.append(type(control)(**{**asdict(control), "value": value}))
        return present

    def _image(self) -> str:
        data = base64.b64encode(self.png()).decode()
        words = [self._alt, *([] if self._plane is None else [self._plane.alt])]
        alt = html.escape(" ".join(words), quote=True)
        return f'<img alt="{alt}" src="data:image/png;base64,{data}" style="max-width:100%">'

    def _redraw(self, change: object = None) -> None:
        self._still.value = self._image()

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, object]:
        # ipywidgets 7 displays by another method and has no such parent: then only the widget
        # view is shown, which is what its kernels need.
        parent = getattr(super(), "_repr_mimebundle_", None)
        data = dict(parent(**kwargs) or {}) if parent else {}
        shown = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        data["text/plain"] = f"InteractiveFigure({self._name!r}, {shown})"
        data["text/html"] = self.page()
        data["image/png"] = base64.b64encode(self.png()).decode()
        return data
