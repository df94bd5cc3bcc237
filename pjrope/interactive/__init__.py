"""Figures with sliders: in a kernel, on a static page, on paper."""

from .figure import Choice, InteractiveFigure, Slider
from .rope import EXTENSIONS, rope_score_curves, rope_scores

__all__ = [
    "Choice",
    "InteractiveFigure",
    "Slider",
    "EXTENSIONS",
    "rope_score_curves",
    "rope_scores",
]
