"""What an experiment is: a question, frozen settings, and a grid of cells that can run alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from .cell import Cell, CellContext, CellResult, freeze
from .plain_json import ExperimentError, digest, plain

if TYPE_CHECKING:
    from .result import Result

__all__ = [
    "Cell",
    "CellContext",
    "CellResult",
    "Experiment",
    "ExperimentError",
    "Preset",
    "Table",
]

_NAME = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*")


def check_name(name: str) -> str:
    """Return `name` if it can be an experiment or preset name and a relative path at once."""
    if not _NAME.fullmatch(name):
        raise ExperimentError(
            f"name {name!r}: allowed are lower-case letters, digits, _ and single slashes between"
        )
    return name


@dataclass(frozen=True)
class Preset:
    """One size at which an experiment runs.

    Args:
        name: "smoke" (seconds), "book" (the committed record) or "paper" (the paper's scale).
        seeds: seeds of a run that names none.
        settings: everything that decides an outcome apart from seed and cell; JSON data, frozen
            here (lists become tuples). It enters the spec id.
        cost: measured time in words, such as "40 core-minutes".

    Raises:
        ExperimentError: for a setting that is not JSON, or seeds missing or repeated.
    """

    name: str
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    cost: str

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "seeds", check_seeds(self.seeds))
        settings = plain(self.settings, f"setting of preset {self.name!r} ")
        object.__setattr__(self, "settings", freeze(settings))


def check_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    """Return `seeds` as a tuple, refusing none, repeats, and anything but integers ≥ 0."""
    seeds = tuple(seeds)
    wrong = [s for s in seeds if isinstance(s, bool) or not isinstance(s, int) or s < 0]
    if not seeds or wrong or len(set(seeds)) < len(seeds):
        raise ExperimentError(
            f"seeds {list(seeds)}: give at least one, each an integer >= 0, none twice"
        )
    return seeds


@dataclass(frozen=True)
class Table:
    """One table that `pjrope show` prints.

    Args:
        title: heading.
        value: row field whose mean over seeds is shown.
        rows, columns: row fields that label the two sides; no columns gives one column, several
            fields give one for each combination of their values that occurs.
        where: row fields that must have these values (a list: any of these).
        better: which direction is good.
        smallest_effect: difference worth telling, fixed before the run, in units of `value`; with
            it and a baseline, a second table gives paired differences and verdicts.
        digits: digits after the point.
        form: "fixed" (0.012) or "scientific" (1.2e-02), for values that span decades.
        baseline: value of `rows` that differences refer to; None: the experiment's.
    """

    title: str
    value: str
    rows: str = "method"
    columns: str | Sequence[str] | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    better: Literal["lower", "higher"] = "lower"
    smallest_effect: float | None = None
    digits: int = 3
    form: Literal["fixed", "scientific"] = "fixed"
    baseline: Any = None


@dataclass(frozen=True)
class Experiment:
    """A question and the grid of runs that answers it.

    Args:
        name: name in the registry and path of its results, such as "byte_lm/baselines".
        question: what is asked, in one sentence.
        claims: claims of the papers it tests, such as "P-L1".
        presets: name → Preset.
        cells: (preset, seeds) → cells in the order in which their rows are listed.
        run_cell: (cell, context) → rows, or a CellResult. A row is flat JSON with at least
            "method" and "seed". It must depend on nothing but the cell and the settings.
        baseline: method that differences refer to; "" for none.
        tables: what `pjrope show` prints.
        data: preset → corpora about to be read, each {"name", "sha256", "stand_in"}; a finished
            cell that read others (a stand-in, before the download) is run again.
        sentences: result → what its numbers say, by rules written in code; shown below the tables.
        verdicts: claim → rule: result → `pjrope.experiments.analysis.claims.Verdict`. Rules judge
            recorded rows and make none, so they are no part of the spec id.
        deterministic: nothing is random; seed 0 is the only one, and no interval is spoken of.
        revision: raise it when the code changes what a cell computes; it enters the spec id.
    """

    name: str
    question: str
    claims: tuple[str, ...]
    presets: Mapping[str, Preset]
    cells: Callable[[Preset, Sequence[int]], Sequence[Cell]]
    run_cell: Callable[[Cell, CellContext], Sequence[Mapping[str, Any]] | CellResult]
    baseline: str = ""
    tables: tuple[Table, ...] = ()
    data: Callable[[Preset], Sequence[Mapping[str, Any]]] | None = None
    sentences: Callable[[Result], Sequence[str]] = lambda result: ()
    verdicts: Mapping[str, Callable[[Result], Any]] = field(default_factory=dict)
    deterministic: bool = False
    revision: int = 1

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "presets", MappingProxyType(dict(self.presets)))
        object.__setattr__(self, "verdicts", MappingProxyType(dict(self.verdicts)))
        if extra := [claim for claim in self.verdicts if claim not in self.claims]:
            raise ExperimentError(f"{self.name}: a rule for {extra[0]!r}, which claims= lacks")
        if wrong := [key for key, preset in self.presets.items() if preset.name != key]:
            raise ExperimentError(f"{self.name}: preset {wrong[0]!r} is stored under another name")

    def preset(self, name: str) -> Preset:
        """Return a preset by name; the error lists those there are."""
        if name not in self.presets:
            known = ", ".join(self.presets)
            raise ExperimentError(f"{self.name} has no preset {name!r}; choose from: {known}")
        return self.presets[name]

    def spec_id(self, preset: Preset) -> str:
        """Return the id under which results belong together: name, revision and settings."""
        return digest([self.name, self.revision, preset.settings])

    def grid(self, preset: Preset, seeds: Sequence[int]) -> list[Cell]:
        """Return the cells for `seeds` in canonical order, refusing two with the same key."""
        if self.deterministic and list(seeds) != [0]:
            raise ExperimentError(
                f"{self.name}: seeds {list(seeds)}: nothing in it is random, run it with seed 0 alone"
            )
        cells = list(self.cells(preset, tuple(seeds)))
        if not cells:
            raise ExperimentError(f"{self.name}: no cells for seeds {list(seeds)}")
        if len({cell.id for cell in cells}) < len(cells):
            raise ExperimentError(f"{self.name}: two cells of preset {preset.name!r} share a key")
        return cells
