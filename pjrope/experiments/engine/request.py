"""What a caller asks of a run, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import record as records
from . import environment, ray_tasks
from .compute import RunOptions
from .spec import Cell, ExperimentError
from .workers import LAUNCHERS, refuse_inside_import

__all__ = ["check_request", "filtered", "run_options"]


def run_options(device: str, launcher: str, progress: bool, keep_work: bool) -> RunOptions:
    """Return how cells run; a Ray worker says for itself which machine it is."""
    import torch

    if device not in ("auto", "cpu", "cuda"):
        raise ExperimentError(f"device {device!r}: choose from auto, cpu, cuda")
    if launcher == "ray":
        return RunOptions("cpu" if device == "auto" else device, {}, False, keep_work)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ExperimentError("device 'cuda': torch finds none here; use cpu or auto")
    return RunOptions(device, environment.describe(device), progress, keep_work)


def check_request(
    jobs: int, launcher: str, out: Path | str | None, store: bool, record: bool
) -> None:
    """Refuse, before anything is written, what no run can do."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ExperimentError(f"jobs {jobs!r}: give an integer >= 1")
    if launcher not in LAUNCHERS:
        raise ExperimentError(f"launcher {launcher!r}: choose from {', '.join(LAUNCHERS)}")
    if launcher == "ray":
        ray_tasks.library()
    elif jobs > 1:
        refuse_inside_import()
    if record and not records.in_checkout():
        raise ExperimentError("a record is part of the source: install from a checkout (pip -e)")
    if out is not None and not store:
        raise ExperimentError("store=False writes nothing, so out must be left away")


def filtered(cells: list[Cell], only: Mapping[str, Any]) -> list[Cell]:
    """Return the cells that `only` keeps, and refuse a filter that keeps none."""
    keys = sorted({name for cell in cells for name in cell.key})
    if unknown := [name for name in only if name not in keys]:
        raise ExperimentError(f"no cell has {unknown[0]!r}; filter by: {', '.join(keys)}")
    kept = [cell for cell in cells if cell.matches(only)]
    if not kept:
        known = "; ".join(
            f"{name}: {', '.join(sorted({_text(cell.key.get(name)) for cell in cells}))}"
            for name in only
        )
        wanted = ", ".join(f"{name}={value}" for name, value in only.items())
        raise ExperimentError(f"no cell matches {wanted}; there are {known}")
    return kept


def _text(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
