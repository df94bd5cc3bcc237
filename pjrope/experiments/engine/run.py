"""Run an experiment: skip what is finished, go on after a kill, and assemble rows and card."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ... import record as records
from ...data.home import expanded
from . import registry
from .cells import CellStore, merge_data
from .compute import RunOptions
from .partial import record_finished, take_up
from .request import check_request, filtered, run_options
from .result import Result
from .spec import Cell, Experiment, ExperimentError, Preset, check_seeds
from .store import DEFAULT_OUT, held, write
from .workers import results

__all__ = ["CellsFailed", "run"]


class CellsFailed(RuntimeError):
    """Some cells ended in an error; the finished ones are kept.

    Attributes:
        failures: (cell, traceback text) of each.
        result: what the finished cells gave.
    """

    def __init__(self, failures: Sequence[tuple[Cell, str]], result: Result, asked: int) -> None:
        lines = [f"  {cell}: {text.strip().splitlines()[-1]}" for cell, text in failures]
        head = f"{len(failures)} of {asked} cells failed; the others are kept, rerun to retry:"
        super().__init__("\n".join([head, *lines, "", f"[{failures[0][0]}]", failures[0][1]]))
        self.failures = list(failures)
        self.result = result


def run(
    name: str | Experiment,
    preset: str = "smoke",
    *,
    seeds: Sequence[int] | None = None,
    only: Mapping[str, Any] | None = None,
    device: str = "auto",
    jobs: int = 1,
    launcher: str = "local",
    out: Path | str | None = None,
    store: bool = True,
    record: bool = False,
    partial: bool = False,
    resume_record: bool = False,
    progress: bool = True,
    keep_work: bool = False,
) -> Result:
    """Run the cells of an experiment that are not finished yet, and return all that were asked for.

    Files: OUT/NAME/PRESET/cells/ holds a file per finished cell, OUT/NAME/PRESET.json the rows of
    every finished cell with one run card.

    Args:
        name: name in the registry (or an `Experiment`; with jobs > 1 or ray it must be registered).
        preset: "smoke", "book" or "paper".
        seeds: default, those of the preset.
        only: cell key → value or list of values; other cells are left out.
        device: "cpu", "cuda", or "auto", which takes a GPU when there is one.
        jobs: cells side by side, one process and one thread each.
        launcher: "local" for processes of this machine, or "ray" for tasks of the Ray cluster at
            RAY_ADDRESS; without that variable Ray starts here with `jobs` cores. Rows are equal.
        out: results folder; default ./pjrope-results.
        store: False leaves nothing on disk (chapters run live cells so).
        record: also write the whole grid of these seeds into the package's record.
        partial: with record, run nothing and record the cells that are finished, however few; another
            run may still be adding to them.
        resume_record: take up the cells of the committed record as finished ones first.
        progress: draw a bar over cells once 5 seconds have passed.
        keep_work: keep checkpoints and logs of finished cells.

    Returns:
        Rows in the order of the grid, never in that of finishing, and their card.

    Raises:
        ExperimentError: for an unknown name, preset, seed, device or filter; for a record outside
            a checkout or of an incomplete grid; when another run uses the same folder.
        CellsFailed: when cells failed, after all others finished.

    Limits: a cell is reused when experiment, revision, settings and corpora are the same. Edited
    code is not noticed: raise the experiment's revision, or delete the folder.
    """
    experiment = name if isinstance(name, Experiment) else registry.get(name)
    chosen = experiment.preset(preset)
    asked = chosen.seeds if seeds is None else check_seeds(seeds)
    cells = filtered(experiment.grid(chosen, asked), only or {})
    check_request(jobs, launcher, out, store, record)
    options = run_options(device, launcher, progress and jobs == 1, keep_work)
    data = _corpora(experiment, chosen, record)
    with _folder(out, store) as folder:
        finished = CellStore(folder, experiment, chosen, data)
        if record and partial:
            return record_finished(finished, experiment.grid(chosen, asked))
        with held(finished.folder):
            if resume_record:
                take_up(finished, cells)
            failures = _finish(finished, cells, (options, jobs, launcher), progress)
            result = finished.assemble(cells)
            everything = experiment.grid(chosen, sorted(finished.seeds() | set(asked)))
            write_result(finished.folder.with_suffix(".json"), finished.assemble(everything))
            if failures:
                raise CellsFailed(failures, result, len(cells))
            if record:
                _record(finished, experiment.grid(chosen, asked))
    return result


def _corpora(experiment: Experiment, preset: Preset, record: bool) -> list[dict[str, Any]]:
    """Return the corpora about to be read, refusing to record from ones that stand in."""
    data = merge_data(experiment.data(preset) if experiment.data else ())
    if record and (absent := substitutes(preset, data)):
        raise ExperimentError(f"not recorded: {', '.join(absent)}; a record needs the real corpus")
    return data


def substitutes(preset: Preset, data: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name the corpora that stand in for others; the smoke preset is made for stand-ins."""
    return [] if preset.name == "smoke" else [d["name"] for d in data if d["stand_in"]]


def write_result(path: Path, result: Result) -> None:
    """Write card and rows into one results file."""
    write(path, {"card": result.card, "rows": result.rows})


def _finish(
    store: CellStore, cells: Sequence[Cell], how: tuple[RunOptions, int, str], progress: bool
) -> list[tuple[Cell, str]]:
    """Run the unfinished cells; return those that failed, in the order of the grid."""
    from tqdm.auto import tqdm

    todo = [cell for cell in cells if store.finished(cell) is None]
    title = f"{store.experiment.name} {store.preset.name}"
    errors: dict[str, str] = {}
    work = results(store, todo, *how)
    done = len(cells) - len(todo)
    bar = tqdm(
        total=len(cells), initial=done, desc=title, unit="cell", delay=5, disable=not progress
    )
    with bar, closing(work):
        for cell, error in work:
            if error:
                errors[cell.id] = error
            bar.update()
    return [(cell, errors[cell.id]) for cell in cells if cell.id in errors]


def _record(store: CellStore, grid: Sequence[Cell]) -> None:
    missing = [cell for cell in grid if store.finished(cell) is None]
    name, preset = store.experiment.name, store.preset.name
    if missing:
        raise ExperimentError(
            f"not recorded: {len(missing)} of {len(grid)} cells of {name} ({preset}) are not "
            f"finished, the first is {missing[0]}; run once without a filter"
        )
    write_result(records.path(name, preset), store.assemble(grid))


@contextmanager
def _folder(out: Path | str | None, store: bool) -> Iterator[Path]:
    if store:
        # Absolute, since a worker starts in the folder that this process started in.
        yield expanded(DEFAULT_OUT if out is None else out, ExperimentError).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="pjrope-") as folder:
        yield Path(folder)
