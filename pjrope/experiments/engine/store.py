"""Results files: strict JSON, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ... import record
from .plain_json import ExperimentError
from .result import Result, checked
from .spec import check_name
from .system import FolderInUse, explain, locked

__all__ = [
    "DEFAULT_OUT",
    "CannotWrite",
    "check_writable",
    "held",
    "load",
    "parse",
    "read",
    "result_path",
    "write",
]

DEFAULT_OUT = Path("pjrope-results")


def result_path(out: Path, name: str, preset: str) -> Path:
    """Return where the assembled results of a run lie below `out`."""
    return out.joinpath(*check_name(name).split("/"), f"{check_name(preset)}.json")


class CannotWrite(ExperimentError):
    """A file could not be written: the disk is full, the folder read-only, a limit reached."""


def check_writable(path: Path) -> None:
    """Raise now where :func:`write` would at the end of a long run; a disk may still become full.

    Raises:
        CannotWrite: the folder cannot be made, or takes no file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise CannotWrite(f"cannot write {explain(error, path)}") from None


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep a second run out of a folder; what keeps it from being had is told in one line.

    Raises:
        CannotWrite: the folder cannot be made or locked.
        ExperimentError: another run writes there.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except FolderInUse as error:
            raise ExperimentError(str(error)) from None
        except OSError as error:
            raise CannotWrite(
                f"cannot write {explain(error, folder)}; give another out folder"
            ) from None
        yield


def write(path: Path, value: Any) -> None:
    """Write `value` as JSON so that a reader sees the old file or the new one, never a part.

    Raises:
        CannotWrite: the system refuses; the message says what it said.
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes files that only the owner reads
        os.replace(temporary, path)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CannotWrite(f"cannot write {explain(error, path)}") from None
        raise


def parse(path: Path) -> Any:
    """Read strict JSON: NaN and Infinity, which Python's reader would let through, are refused."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except ValueError as error:
        raise ExperimentError(f"{path} is not valid JSON ({error}); delete it and rerun") from None


def read(path: Path) -> Result:
    """Read and check a results file.

    Raises:
        FileNotFoundError: when it is not there.
        ExperimentError: when it is not strict JSON, or its card or a row lacks a field.
    """
    return checked(parse(path), str(path))


def load(name: str, preset: str = "book") -> Result:
    """Return a committed result, the numbers that the book shows.

    Args:
        name: experiment, for example "byte_lm/baselines".
        preset: "smoke", "book" or "paper".

    Raises:
        FileNotFoundError: when there is no such record; the message lists those there are.
        ExperimentError: when the file fails its check.
    """
    if (name, preset) not in record.recorded():
        record.load(name, preset)  # raises with the list of what exists
    result = read(record.path(name, preset))
    if (result.card["experiment"], result.card["preset"]) != (name, preset):
        raise ExperimentError(
            f"the record of {name} ({preset}) holds {result.card['experiment']} "
            f"({result.card['preset']}); record it again with pjrope run {name} --record"
        )
    return result
