"""How one cell runs: on one thread, with random streams of its own, and its rows stored."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .cells import CellStore
from .spec import Cell, CellContext
from .store import CannotWrite
from .system import NO_ROOM, explain

__all__ = ["RunOptions", "compute", "isolated_rng"]


@dataclass(frozen=True)
class RunOptions:
    """How cells run, apart from what they compute; travels to worker processes.

    Args:
        device: torch device.
        environment: what each cell's file says about machine and code.
        progress: whether trainings may draw bars.
        keep_work: whether work folders outlive their cells.
    """

    device: str
    environment: Mapping[str, Any]
    progress: bool
    keep_work: bool


def compute(store: CellStore, cell: Cell, options: RunOptions) -> None:
    """Run one cell and store its rows."""
    workdir = store.workdir(cell)
    with refusals_named(workdir):
        workdir.mkdir(parents=True, exist_ok=True)
    context = CellContext(workdir, options.device, options.progress, store.preset)
    wall, cpu = time.perf_counter(), time.process_time()
    with isolated_rng(cell), refusals_named(workdir, NO_ROOM):
        result = store.experiment.run_cell(cell, context)
    facts = {
        "wall_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": options.environment,
    }
    store.save(cell, result, facts)
    if not options.keep_work:
        shutil.rmtree(workdir, ignore_errors=True)


@contextmanager
def refusals_named(folder: Path, numbers: frozenset[int] | None = None) -> Iterator[None]:
    """Turn an OSError with one of these numbers (None: any) into `CannotWrite`."""
    try:
        yield
    except OSError as error:
        if numbers is not None and error.errno not in numbers:
            raise
        raise CannotWrite(
            f"cannot write {explain(error, folder)}; give another out folder"
        ) from None


@contextmanager
def isolated_rng(cell: Cell) -> Iterator[None]:
    """Give a cell one thread and fresh global random states, and put the old ones back after.

    Cells should take generators. One that draws from a global stream by mistake still gets the
    same numbers whichever cells ran before it, so that a resumed run equals an uninterrupted one.
    """
    import numpy
    import torch

    threads, states = torch.get_num_threads(), (random.getstate(), numpy.random.get_state())
    seed = int(cell.id[:8], 16)
    with torch.random.fork_rng():
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            random.setstate(states[0])
            numpy.random.set_state(states[1])
