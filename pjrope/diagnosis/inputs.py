"""Reading what can be diagnosed: text, token ids, MIDI, and a numeric column of a CSV file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.home import expanded
from ..data.manifest import DataError
from .source import InputError, Source, source_of

__all__ = ["BINS", "KINDS", "Reading", "read_files"]

KINDS = ("text", "bytes", "ids", "midi", "csv")
BINS = 256  # quantile bins of a numeric series
_BY_SUFFIX = {
    ".npy": "ids",
    ".bin": "ids",
    ".jsonl": "ids",
    ".mid": "midi",
    ".midi": "midi",
    ".csv": "csv",
    ".tsv": "csv",
}
_DTYPES = {"uint16": "<u2", "uint32": "<u4"}
_KEYS = ("input_ids", "ids", "tokens")


class Reading:
    """How files are read.

    Args:
        kind: "text" (UTF-8, read as bytes), "bytes" (any file, as bytes), "ids", "midi", "csv", or
            None, by the ending of the name.
        dtype: "uint16" or "uint32", of a ``.bin`` file of ids.
        column: name or number from 1 of a CSV column; None takes the first.
        vocab: ids must be below this; None allows any.
    """

    def __init__(
        self,
        kind: str | None = None,
        dtype: str | None = None,
        column: str | None = None,
        vocab: int | None = None,
    ) -> None:
        self.kind, self.dtype, self.column, self.vocab = kind, dtype, column, vocab


def read_files(paths: Sequence[Path | str], reading: Reading | None = None) -> Source:
    """Read files of one kind, one after the other, as one sequence.

    Args:
        paths: the files.
        reading: how.

    Returns:
        a :class:`Source`.

    Raises:
        InputError: a file that is missing, empty, of another kind than asked for, or malformed.
    """
    reading = reading or Reading()
    files = [expanded(p, InputError) for p in paths]
    kinds = {reading.kind or _BY_SUFFIX.get(p.suffix.lower(), "text") for p in files}
    if len(kinds) != 1:
        raise InputError(f"the files are {' and '.join(sorted(kinds))}: give files of one kind")
    kind = kinds.pop()
    parts, notes = [], []
    for path in files:
        ids, said = _READERS[kind](path, _raw(path), reading)
        parts.append(ids)
        notes += [s for s in said if s not in notes]
    name = files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more"
    kind = "text" if kind == "bytes" else kind
    return source_of(np.concatenate(parts), name=name, kind=kind, notes=notes, vocab=reading.vocab)


def _raw(path: Path) -> bytes:
    if path.is_dir():
        raise InputError(f"{path} is a folder: name the files in it")
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if not raw:
        raise InputError(f"{path} is empty")
    return raw


def _text(path: Path, raw: bytes, reading: Reading) -> tuple[np.ndarray, list[str]]:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is no UTF-8 text (byte 0x{raw[error.start]:02x} at {error.start:,}): convert it, or "
            "read it as plain bytes with --kind bytes"
        ) from None
    return np.frombuffer(raw, np.uint8), ["Tokens are the bytes of the text in UTF-8."]


def _bytes(path: Path, raw: bytes, reading: Reading) -> tuple[np.ndarray, list[str]]:
    return np.frombuffer(raw, np.uint8), ["Tokens are the bytes of the file."]


def _ids(path: Path, raw: bytes, reading: Reading) -> tuple[np.ndarray, list[str]]:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        ids = _npy(path, raw)
    elif suffix == ".bin":
        ids = _bin(path, raw, reading.dtype)
    else:
        ids = _json_lines(path, raw)
    return ids, ["Tokens are the ids of the file; documents follow one another without a border."]


def _npy(path: Path, raw: bytes) -> np.ndarray:
    try:
        array = np.load(io.BytesIO(raw), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        raise InputError(f"{path} is no .npy file of numbers") from None
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{path} holds {array.dtype} values of shape {array.shape}: one row of integer ids (n,) is "
            "needed"
        )
    return array


def _bin(path: Path, raw: bytes, dtype: str | None) -> np.ndarray:
    if dtype not in _DTYPES:
        raise InputError(f"{path} does not say how wide its ids are: add --dtype uint16 or uint32")
    width = np.dtype(_DTYPES[dtype]).itemsize
    if len(raw) % width:
        raise InputError(f"{path} has {len(raw):,} bytes, no whole number of {dtype} ids")
    return np.frombuffer(raw, _DTYPES[dtype])


def _json_lines(path: Path, raw: bytes) -> np.ndarray:
    found: list[int] = []
    for number, line in enumerate(raw.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError:
            raise InputError(f"{path}, line {number}, is no JSON") from None
        found += _row(f"{path}, line {number},", value)
    if not found:
        raise InputError(f"{path} holds no ids")
    return np.asarray(found, dtype=np.int64)


def _row(where: str, value: Any) -> list[int]:
    if isinstance(value, dict):
        value = next((value[key] for key in _KEYS if key in value), None)
    if not isinstance(value, list):
        raise InputError(f"{where} is no list of ids, nor an object with one under {_KEYS}")
    for item in value:
        if isinstance(item, bool) or not isinstance(item, int):
            raise InputError(f"{where} holds {item!r}: token ids are integers")
        if not -(2**62) < item < 2**62:
            raise InputError(f"{where} holds {item}, out of range: ids stay below 2^62")
    return value


def _midi(path: Path, raw: bytes, reading: Reading) -> tuple[np.ndarray, list[str]]:
    from ..data.music import EventTokens, read_midi

    try:
        score = read_midi(raw)
    except DataError as error:
        raise InputError(f"{path}: {error}") from None
    notes = ["Tokens are events: time shifts of 20 ms, notes on and off, velocities; no pedals."]
    if score.repairs:
        notes.append(f"{path.name}: {len(score.repairs)} faults of the file were passed over.")
    return EventTokens().encode(score)[0].astype(np.int64), notes


def _csv(path: Path, raw: bytes, reading: Reading) -> tuple[np.ndarray, list[str]]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is no UTF-8 text: convert it first") from None
    tab = path.suffix.lower() == ".tsv"
    rows = [row for row in csv.reader(io.StringIO(text), delimiter="\t" if tab else ",") if row]
    if not rows:
        raise InputError(f"{path} has no rows")
    header = rows[0] if any(_number(cell) is None for cell in rows[0]) else None
    at = _column(path, header, len(rows[0]), reading.column)
    values = []
    for line, row in enumerate(rows[1 if header else 0 :], start=2 if header else 1):
        value = _number(row[at]) if at < len(row) else None
        if value is None:
            cell = row[at] if at < len(row) else ""
            raise InputError(
                f"{path}, row {line}, holds {cell!r} in column {at + 1}: finite numbers are needed; "
                "--column picks another"
            )
        values.append(value)
    label = f"{header[at]!r}" if header else f"{at + 1}"
    return _binned(path, np.asarray(values), label)


def _column(path: Path, header: list[str] | None, width: int, asked: str | None) -> int:
    if asked is None:
        return 0
    if header and asked in header:
        return header.index(asked)
    if asked.isdecimal() and 1 <= int(asked) <= width:
        return int(asked) - 1
    known = ", ".join(header) if header else f"1 to {width}"
    raise InputError(f"{path} has no column {asked!r}: it has {known}")


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _binned(path: Path, values: np.ndarray, label: str) -> tuple[np.ndarray, list[str]]:
    """Quantile bins, so that every id is about equally frequent."""
    if not len(values):
        raise InputError(f"{path} has a header and no rows")
    if values.min() == values.max():
        raise InputError(f"{path}: all values of column {label} are {values[0]:g}")
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    ids = np.searchsorted(edges, values, side="right")
    note = (
        f"Tokens are the values of column {label} read as {BINS} quantile bins of the whole column; "
        f"{len(np.unique(ids))} of them hold values. A bin knows no distance: bin 7 is no closer to "
        "bin 8 than to bin 200."
    )
    return ids.astype(np.int64), [note]


_READERS = {"text": _text, "bytes": _bytes, "ids": _ids, "midi": _midi, "csv": _csv}
