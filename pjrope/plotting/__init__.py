"""One style for every figure: sizes, colours that colour-blind readers tell apart, units on axes.

with use_style():
    fig, ax = plt.subplots()
    ax.plot(lags, scores)
    label_axes(ax, x=("lag", "tokens"), y=("score", None))
"""

from .forms import FORMS, look_of
from .looks import FAMILIES, METHODS, MethodLook, method_look
from .methods import by_length
from .sectors import gates_over_training, lag_response, order_spectrum
from .style import (
    DASHES,
    DPI,
    PALETTE,
    SQUARE,
    WIDE,
    alt_text,
    axis_label,
    draw_curves,
    label_axes,
    line_styles,
    style,
    use_style,
)

__all__ = [
    "DASHES",
    "DPI",
    "FAMILIES",
    "FORMS",
    "METHODS",
    "MethodLook",
    "PALETTE",
    "SQUARE",
    "WIDE",
    "alt_text",
    "axis_label",
    "by_length",
    "draw_curves",
    "gates_over_training",
    "label_axes",
    "lag_response",
    "line_styles",
    "look_of",
    "method_look",
    "order_spectrum",
    "style",
    "use_style",
]
