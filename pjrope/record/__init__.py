"""The committed results that the book shows: one JSON file per experiment and preset.

The files travel inside the wheel, so a chapter opened on a machine without a checkout reads the
same numbers. This module only finds and reads them; `pjrope.experiments.engine.store.load` checks them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["home", "in_checkout", "load", "path", "recorded"]


def home() -> Path:
    """Return the folder that holds the recorded results."""
    return Path(__file__).resolve().parent


def in_checkout() -> bool:
    """Say whether the package runs from a source checkout, the only place a record is made."""
    return (home().parents[1] / "pyproject.toml").is_file()


def path(name: str, preset: str) -> Path:
    """Return where the record of experiment `name` (slashes allowed) and `preset` lies."""
    return home().joinpath(*name.split("/"), f"{preset}.json")


def recorded() -> list[tuple[str, str]]:
    """Return every recorded (experiment, preset) pair, sorted."""
    root = home()
    files = (file.relative_to(root) for file in root.rglob("*.json"))
    return sorted((file.parent.as_posix(), file.stem) for file in files)


def load(name: str, preset: str = "book") -> dict[str, Any]:
    """Read a record as plain JSON: a mapping with "card" and "rows".

    Args:
        name: experiment, for example "byte_lm/baselines".
        preset: "smoke", "book" or "paper".

    Returns:
        The parsed file.

    Raises:
        FileNotFoundError: when there is no such record; the message lists those there are.

    Limits: reads without checking; `pjrope.experiments.engine.store.load` also checks the fields.
    """
    if (name, preset) not in recorded():
        known = ", ".join(f"{n} ({p})" for n, p in recorded()) or "none yet"
        raise FileNotFoundError(
            f"no recorded result for {name!r} with preset {preset!r}; recorded: {known}; "
            f"make one with: pjrope run {name} --preset {preset} --record"
        )
    return json.loads(path(name, preset).read_text(encoding="utf-8"))
