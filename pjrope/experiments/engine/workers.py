"""Cells run one after another in this process, or side by side in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from . import ray_tasks, registry
from .cells import CellStore
from .compute import RunOptions, compute
from .plain_json import ExperimentError, plain
from .spec import Cell
from .store import CannotWrite

__all__ = ["LAUNCHERS", "refuse_inside_import", "results"]

_LONGEST_REPORT = 20_000
_UNGUARDED = 64  # exit code of a worker whose script runs experiments when it is imported
Ended = Generator[tuple[Cell, str | None], None, None]


LAUNCHERS = ("local", "ray")


def results(
    store: CellStore,
    cells: Sequence[Cell],
    options: RunOptions,
    jobs: int = 1,
    launcher: str = "local",
) -> Ended:
    """Run cells, up to `jobs` at a time, yielding each as it ends with None or its error's text.

    Raises:
        ExperimentError: for jobs > 1 or ray with an experiment that is not in the registry, and
            for workers that do not start.
        CannotWrite: a result cannot be stored; nothing more is run.
    """
    if launcher == "ray":
        return ray_tasks.results(store, cells, options, jobs)
    if jobs == 1:
        return _one_by_one(store, cells, options)
    return _side_by_side(store, cells, options, min(jobs, max(1, len(cells))))


def _one_by_one(store: CellStore, cells: Sequence[Cell], options: RunOptions) -> Ended:
    for cell in cells:
        try:
            compute(store, cell, options)
        except CannotWrite:
            raise
        except Exception:
            yield cell, traceback.format_exc()
        else:
            yield cell, None


class _Worker:
    """A process that runs one cell after another; one that dies takes only its cell along."""

    def __init__(self, store: CellStore, options: RunOptions) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, there = spawn.Pipe()
        name, data = store.experiment.name, plain(list(store.data))
        work = (registry.where(name), name, store.preset.name, store.out, data, options, there)
        self.process = spawn.Process(target=_work, args=work)
        self.process.start()
        there.close()  # the worker's copy is then the last: its death reads as EOF
        self.cell: Cell | None = None
        self.started = False

    def give(self, cell: Cell) -> None:
        self.cell = cell
        self.connection.send(plain(cell.key))

    def report(self) -> tuple[str, str]:
        """Return ("ready", ""), ("ended", error) or ("refused", why); ("died", why) at its death."""
        try:
            kind, text = self.connection.recv()
        except EOFError:
            self.process.join()
            return "died", self._epitaph()
        self.started = True
        return kind, text

    def _epitaph(self) -> str:
        code = self.process.exitcode
        if code == _UNGUARDED:
            raise ExperimentError(
                "jobs > 1 starts processes that import your script, and that calls run() again: "
                'put the call under `if __name__ == "__main__":`, or use jobs=1'
            )
        if not self.started:
            raise ExperimentError(
                f"a worker process did not start (exit code {code}): it must be able to import "
                "the script that calls run(); use jobs=1 in a script read from standard input"
            )
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            often = "; the system does so when memory runs out" if name == "SIGKILL" else ""
            return f"the worker process was ended by {name}{often}"
        return f"the worker process died (exit code {code})"

    def end(self) -> None:
        self.process.terminate()
        self.process.join()
        self.connection.close()


def _side_by_side(store: CellStore, cells: Sequence[Cell], options: RunOptions, jobs: int) -> Ended:
    waiting = deque(cells)
    workers: dict[Any, _Worker] = {}
    try:
        while waiting or any(worker.cell for worker in workers.values()):
            while len(workers) < min(jobs, len(waiting) + _busy(workers)):
                worker = _Worker(store, options)
                workers[worker.connection] = worker
            for ready in wait(list(workers)):
                worker = workers[ready]
                kind, text = worker.report()
                if kind == "refused":
                    raise CannotWrite(text)
                if worker.cell:
                    yield worker.cell, text or None
                worker.cell = None
                if kind == "died":
                    workers.pop(ready).end()
                elif waiting:
                    worker.give(waiting.popleft())
    finally:
        for worker in workers.values():
            worker.end()


def _busy(workers: Mapping[Any, _Worker]) -> int:
    return sum(worker.cell is not None for worker in workers.values())


def _work(
    place: str,
    name: str,
    preset: str,
    out: Path,
    data: Sequence[Mapping[str, Any]],
    options: RunOptions,
    there: Connection,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    there.send(("ready", ""))
    while True:
        cell = Cell(there.recv())
        try:
            experiment = registry.at(place, name)
            store = CellStore(out, experiment, experiment.preset(preset), data)
            compute(store, cell, options)
            report = ("ended", "")
        except CannotWrite as error:
            report = ("refused", str(error))
        except Exception:
            report = ("ended", traceback.format_exc()[-_LONGEST_REPORT:])
        there.send(report)


def _end_with_parent() -> None:
    """Leave when the parent was killed: an orphan would write where the next run writes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def refuse_inside_import() -> None:
    """End a worker quietly whose script, imported again, calls run() before it is done."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(_UNGUARDED)
