"""Experiments: frozen specs, runs that resume, rows with a run card, comparisons over seeds."""

from pjrope.experiments.analysis.statistics import (
    Difference,
    Summary,
    paired_difference,
    summary,
    verdict,
)
from pjrope.experiments.analysis.tables import table
from pjrope.experiments.engine.registry import get, names, register
from pjrope.experiments.engine.result import Result
from pjrope.experiments.engine.run import CellsFailed, run
from pjrope.experiments.engine.spec import (
    Cell,
    CellContext,
    CellResult,
    Experiment,
    ExperimentError,
    Preset,
    Table,
)
from pjrope.experiments.engine.store import load, read

__all__ = [
    "Cell",
    "CellContext",
    "CellResult",
    "CellsFailed",
    "Difference",
    "Experiment",
    "ExperimentError",
    "Preset",
    "Result",
    "Summary",
    "Table",
    "get",
    "load",
    "names",
    "paired_difference",
    "read",
    "register",
    "run",
    "summary",
    "table",
    "verdict",
]
