"""Figures with sliders: in a kernel, on a static page, on paper."""

from .figure import Choice, InteractiveFigure, Slider
from .order import SCHEMES, lag_score_rows, lag_scores
from .rope import EXTENSIONS, rope_score_curves, rope_scores
from .speed import fold_error, fold_error_curves, fold_errors

__all__ = [
    "Choice",
    "InteractiveFigure",
    "Slider",
    "EXTENSIONS",
    "SCHEMES",
    "fold_error",
    "fold_error_curves",
    "fold_errors",
    "lag_score_rows",
    "lag_scores",
    "rope_score_curves",
    "rope_scores",
]
