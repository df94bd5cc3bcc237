"""The smallest piece of an experiment, what a run hands to it, and what it gives back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .plain_json import ExperimentError, digest, plain

if TYPE_CHECKING:
    from .spec import Preset

__all__ = ["Cell", "CellContext", "CellResult", "freeze"]


def freeze(value: Any) -> Any:
    """Return plain JSON data that nobody can change: read-only mappings, and tuples for lists."""
    if isinstance(value, dict):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    return tuple(freeze(item) for item in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Cell:
    """The smallest piece of an experiment that runs, finishes and is skipped by itself.

    Args:
        key: what sets this cell apart, as JSON data; holds "seed" and usually "method" (a list of
            names when several methods share one training).
    """

    key: Mapping[str, Any]

    def __post_init__(self) -> None:
        key = plain(self.key, "cell key")
        if not isinstance(key.get("seed"), int):
            raise ExperimentError(f"cell key {key} needs an integer under 'seed'")
        object.__setattr__(self, "key", freeze(key))

    @property
    def id(self) -> str:
        """Twelve hex digits that depend on the key alone, not on its order."""
        return digest(self.key)

    @property
    def seed(self) -> int:
        seed: int = self.key["seed"]
        return seed

    def matches(self, only: Mapping[str, Any]) -> bool:
        """Say whether every entry of `only` fits; a list, on either side, means any of these."""
        return all(
            not _options(self.key.get(name)).isdisjoint(_options(wanted))
            for name, wanted in only.items()
        )

    def __str__(self) -> str:
        return " ".join(f"{name}={_word(value)}" for name, value in self.key.items())


def _options(value: Any) -> set[str]:
    """Return `value`, or each of its items, as JSON texts: 1, "1" and True then stay apart."""
    items = value if isinstance(value, list | tuple) else (value,)
    return {json.dumps(plain(item), sort_keys=True) for item in items}


def _word(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class CellContext:
    """What the runner hands to a cell.

    Args:
        workdir: the cell's own folder; checkpoints written here let a killed cell go on. It is
            removed when the cell has finished, unless the run keeps it.
        device: torch device, "cpu" or "cuda".
        progress: whether a training may draw its own bar.
        preset: the preset that runs.
    """

    workdir: Path
    device: str
    progress: bool
    preset: Preset

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.preset.settings


@dataclass(frozen=True)
class CellResult:
    """Rows of a cell together with the corpora it read (keys name, sha256, stand_in each)."""

    rows: Sequence[Mapping[str, Any]]
    data: Sequence[Mapping[str, Any]] = ()
