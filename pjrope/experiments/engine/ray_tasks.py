"""Cells as tasks of Ray: on a cluster of machines, or in several processes of this one."""

from __future__ import annotations

import os
import sys
import traceback
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...extras import need
from ...training.precision import VARIABLE
from . import environment, registry
from .cells import CellStore
from .compute import RunOptions, compute
from .plain_json import ExperimentError, plain
from .spec import Cell
from .store import CannotWrite, write

__all__ = ["library", "results"]

ADDRESS = "RAY_ADDRESS"  # Ray's own variable for the cluster to join
_OBJECTS = 100 * 2**20  # bytes of shared memory; a cell's rows are all that is passed on


def library() -> Any:
    """Return the module ray.

    Raises:
        ExperimentError: where it is not installed; the line names the extra that brings it.
    """
    try:
        return need("ray", "ray")
    except ImportError as error:
        raise ExperimentError(f"{error}; or use the launcher local") from None


def results(
    store: CellStore, cells: Sequence[Cell], options: RunOptions, jobs: int
) -> Generator[tuple[Cell, str | None], None, None]:
    """Run cells as Ray tasks, up to `jobs` at a time, yielding each as it ends, with its error.

    A task computes one cell with one core (and one GPU for a cuda device) in the same folder on
    its machine as a local run would, and sends the finished cell back. Where machines share the
    results folder, a cell that was stopped goes on from its checkpoint on any of them.

    Raises:
        ExperimentError: without Ray or an experiment in the registry, or where Ray does not start.
        CannotWrite: a result cannot be stored; nothing more is run.
    """
    ray = library()
    if not cells:
        return
    work = _Work(store, options)
    with _cluster(ray, jobs):
        gpus = _gpus(ray, options.device)
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(_compute)
        waiting, running = deque(cells), dict[Any, Cell]()
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    cell = waiting.popleft()
                    running[task.remote(work.words, plain(cell.key))] = cell
                (ended, *_), _ = ray.wait(list(running))
                cell = running.pop(ended)
                yield cell, work.take(cell, *_outcome(ray, ended))
        finally:
            for unfinished in running:
                ray.cancel(unfinished, force=True)


class _Work:
    """What every task of a run needs to know, and where its finished cells are put."""

    def __init__(self, store: CellStore, options: RunOptions) -> None:
        self.store = store
        name = store.experiment.name
        self.words = {
            "place": registry.where(name),
            "name": name,
            "preset": store.preset.name,
            "out": store.out,
            "data": plain(list(store.data)),
            "options": options,
            "path": list(sys.path),
            "variables": {key: os.environ[key] for key in (VARIABLE,) if key in os.environ},
        }

    def take(self, cell: Cell, kind: str, said: Any) -> str | None:
        """Store a cell that ended on a machine with a disk of its own; return the error, if any."""
        if kind == "refused":
            raise CannotWrite(said)
        if kind == "failed":
            return str(said)
        if said["fingerprint"] != self.store.fingerprint:
            return (
                f"the machine that ran it has pjrope {said['environment']['version']} with other "
                "settings or corpora: install the same version on every machine"
            )
        if self.store.finished(cell) is None:
            write(self.store.path(cell), said)
        return None


def _outcome(ray: Any, ended: Any) -> tuple[str, Any]:
    try:
        kind, said = ray.get(ended)
    except ray.exceptions.RayError as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        return "failed", f"the Ray worker died: {first[0]}"
    return kind, said


def _gpus(ray: Any, device: str) -> int:
    """Return the GPUs of a task; a task that asks for more than there are would wait for ever."""
    if not device.startswith("cuda"):
        return 0
    if ray.cluster_resources().get("GPU", 0) < 1:
        raise ExperimentError("device 'cuda': the Ray cluster has no GPU; use --device cpu")
    return 1


@contextmanager
def _cluster(ray: Any, jobs: int) -> Iterator[None]:
    """Use the caller's connection, else join the cluster at RAY_ADDRESS, else start Ray here."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address := os.environ.get(ADDRESS):
        options["address"] = address
    else:
        options |= {"address": "local", "num_cpus": jobs, "object_store_memory": _OBJECTS}
        options["include_dashboard"] = False
    try:
        ray.init(**options)
    except Exception as error:  # Ray raises a bare Exception where a process of its does not start
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ExperimentError(f"Ray did not start: {why}; use the launcher local") from None
    try:
        yield
    finally:
        ray.shutdown()


def _compute(words: Mapping[str, Any], key: Mapping[str, Any]) -> tuple[str, Any]:
    """Run one cell on the machine of a Ray worker; return the finished cell, or what went wrong."""
    sys.path += [place for place in words["path"] if place not in sys.path]
    os.environ.update(words["variables"])
    try:
        experiment = registry.at(words["place"], words["name"])
        preset = experiment.preset(words["preset"])
        store = CellStore(Path(words["out"]), experiment, preset, words["data"])
        options: RunOptions = words["options"]
        here = environment.describe(options.device)
        compute(store, Cell(key), replace(options, environment=here))
        return "ended", store.finished(Cell(key))
    except CannotWrite as error:
        return "refused", str(error)
    except Exception:
        return "failed", traceback.format_exc()
