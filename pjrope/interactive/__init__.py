"""Figures with sliders: in a kernel, on a static page, on paper."""

from .alibi import attention_window, window_curves
from .controls import Choice, Slider
from .figure import InteractiveFigure
from .gauge import gauge_curves, gauge_explorer
from .jordan import jordan_mode_curves, jordan_modes
from .language import SHEARS, linear_reader, reader_accuracy, reader_curves
from .lightcone import lightcone_curves, lightcone_explorer
from .order import SCHEMES, lag_score_rows, lag_scores
from .plane import Plane
from .player import NotePlayer, draw_roll
from .rope import EXTENSIONS, rope_score_curves, rope_scores
from .speed import fold_error, fold_error_curves, fold_errors
from .union import union_curves, union_explorer, union_roots

__all__ = [
    "Choice",
    "InteractiveFigure",
    "NotePlayer",
    "Plane",
    "Slider",
    "EXTENSIONS",
    "SCHEMES",
    "SHEARS",
    "attention_window",
    "draw_roll",
    "fold_error",
    "fold_error_curves",
    "fold_errors",
    "gauge_curves",
    "gauge_explorer",
    "jordan_mode_curves",
    "jordan_modes",
    "lag_score_rows",
    "lag_scores",
    "lightcone_curves",
    "lightcone_explorer",
    "linear_reader",
    "reader_accuracy",
    "reader_curves",
    "rope_score_curves",
    "rope_scores",
    "union_curves",
    "union_explorer",
    "union_roots",
    "window_curves",
]
