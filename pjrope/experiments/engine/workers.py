"""How a cell runs: alone on one thread, in this process or in one of its own."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from . import registry
from .cells import Shelf
from .plain_json import plain
from .spec import Cell, CellContext

__all__ = ["Manner", "compute", "results"]

_LONGEST_REPORT = 20_000


@dataclass(frozen=True)
class Manner:
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


def compute(shelf: Shelf, cell: Cell, manner: Manner) -> None:
    """Run one cell and put its rows on the shelf."""
    workdir = shelf.workdir(cell)
    workdir.mkdir(parents=True, exist_ok=True)
    context = CellContext(workdir, manner.device, manner.progress, shelf.preset)
    wall, cpu = time.perf_counter(), time.process_time()
    with alone(cell):
        result = shelf.experiment.run_cell(cell, context)
    facts = {
        "wall_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": manner.environment,
    }
    shelf.save(cell, result, facts)
    if not manner.keep_work:
        shutil.rmtree(workdir, ignore_errors=True)


@contextmanager
def alone(cell: Cell) -> Iterator[None]:
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


def results(
    shelf: Shelf, cells: Sequence[Cell], manner: Manner, jobs: int
) -> Generator[tuple[Cell, str | None], None, None]:
    """Run cells, up to `jobs` at a time, yielding each as it ends with None or its error's text.

    Raises:
        ExperimentError: for jobs > 1 with an experiment that is not in the registry.
    """
    if jobs == 1:
        return _one_by_one(shelf, cells, manner)
    return _side_by_side(shelf, cells, manner, jobs)


def _one_by_one(
    shelf: Shelf, cells: Sequence[Cell], manner: Manner
) -> Generator[tuple[Cell, str | None], None, None]:
    for cell in cells:
        try:
            compute(shelf, cell, manner)
        except Exception:
            yield cell, traceback.format_exc()
        else:
            yield cell, None


def _side_by_side(
    shelf: Shelf, cells: Sequence[Cell], manner: Manner, jobs: int
) -> Generator[tuple[Cell, str | None], None, None]:
    # A process for every cell, so that one which runs out of memory takes no other along.
    place = registry.where(shelf.experiment.name)
    spawn = multiprocessing.get_context("spawn")
    waiting = deque(cells)
    running: dict[Any, tuple[Any, Cell]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                cell = waiting.popleft()
                here, there = spawn.Pipe(duplex=False)
                job = (place, shelf.experiment.name, shelf.preset.name, shelf.out)
                work = (*job, plain(list(shelf.data)), plain(cell.key), manner, there)
                process = spawn.Process(target=_worker, args=work)
                process.start()
                there.close()  # the worker's copy is then the last: its death reads as EOF
                running[here] = process, cell
            for ready in wait(list(running)):
                process, cell = running.pop(ready)
                error = _report(ready)
                process.join()
                died = f"the worker process died (exit code {process.exitcode}; out of memory?)"
                yield cell, died if error is None else error or None
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.join()


def _report(connection: Any) -> str | None:
    try:
        return connection.recv()
    except EOFError:
        return None
    finally:
        connection.close()


def _worker(
    place: str,
    name: str,
    preset: str,
    out: Path,
    data: Sequence[Mapping[str, Any]],
    key: Mapping[str, Any],
    manner: Manner,
    there: Connection,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        experiment = registry.at(place, name)
        shelf = Shelf(out, experiment, experiment.preset(preset), data)
        compute(shelf, Cell(key), manner)
        error = ""
    except Exception:
        error = traceback.format_exc()[-_LONGEST_REPORT:]
    there.send(error)


def _end_with_parent() -> None:
    """Leave when the parent was killed: an orphan would write where the next run writes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
