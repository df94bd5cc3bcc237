"""Diagnosis: which kind of relative position your own data use, from small models trained on it."""

from .api import diagnose
from .arms import ARMS, NAMES, Cell, Shape
from .decision import FEWEST_TOKENS, Decision, SectorFinding
from .evidence import Evidence, Interval
from .inputs import KINDS, Reading, read_files
from .report import Report
from .rules import decide
from .source import InputError, Source, source_of

__all__ = [
    "ARMS",
    "FEWEST_TOKENS",
    "KINDS",
    "NAMES",
    "Cell",
    "Decision",
    "Evidence",
    "InputError",
    "Interval",
    "Reading",
    "Report",
    "SectorFinding",
    "Shape",
    "Source",
    "decide",
    "diagnose",
    "read_files",
    "source_of",
]
