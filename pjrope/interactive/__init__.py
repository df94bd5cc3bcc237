"""Figures with sliders: in a kernel, on a static page, on paper."""

from .figure import Choice, InteractiveFigure, Slider
from .order import SCHEMES, lag_score_rows, lag_scores
from .rope import EXTENSIONS, rope_score_curves, rope_scores

__all__ = [
    "Choice",
    "InteractiveFigure",
    "Slider",
    "EXTENSIONS",
    "SCHEMES",
    "lag_score_rows",
    "lag_scores",
    "rope_score_curves",
    "rope_scores",
]
