"""Figures with sliders: in a kernel, on a static page, on paper."""

from .alibi import attention_window, window_curves
from .figure import Choice, InteractiveFigure, Slider
from .jordan import jordan_mode_curves, jordan_modes
from .language import SHEARS, linear_reader, reader_accuracy, reader_curves
from .order import SCHEMES, lag_score_rows, lag_scores
from .rope import EXTENSIONS, rope_score_curves, rope_scores
from .speed import fold_error, fold_error_curves, fold_errors

__all__ = [
    "Choice",
    "InteractiveFigure",
    "Slider",
    "EXTENSIONS",
    "SCHEMES",
    "SHEARS",
    "attention_window",
    "fold_error",
    "fold_error_curves",
    "fold_errors",
    "jordan_mode_curves",
    "jordan_modes",
    "lag_score_rows",
    "lag_scores",
    "linear_reader",
    "reader_accuracy",
    "reader_curves",
    "rope_score_curves",
    "rope_scores",
    "window_curves",
]
