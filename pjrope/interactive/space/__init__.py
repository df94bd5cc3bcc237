"""The explorer of the whole space: its points, its formulas, its presets, its page."""

from .document import space_page
from .presets import METHOD_POINTS, NO_LAG_FUNCTION, SAME_POINT, Preset, presets
from .state import GROUPS, Space

__all__ = [
    "GROUPS",
    "METHOD_POINTS",
    "NO_LAG_FUNCTION",
    "SAME_POINT",
    "Preset",
    "Space",
    "presets",
    "space_page",
]
