"""The run log: one JSON object a line, cut back on resume so that no step appears twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class RunLog:
    """Append-only rows in a file, or in memory when there is no path.

    Args:
        path: ``log.jsonl`` of a run, or None.
        step: keep only rows up to this step of an earlier attempt.
    """

    def __init__(self, path: Path | None, step: int = 0) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.rows = [row for row in _readable_rows(path) if row["step"] <= step]
            path.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf8")

    def add(self, **row: Any) -> None:
        """Write one row."""
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a", encoding="utf8") as file:
                file.write(json.dumps(row) + "\n")


def _readable_rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:  # a line cut by a kill; all later ones are lost too
            break
    return rows
