"""Music as text: the form in which the PJ-RoPE paper's byte model reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pjrope.data.music.score import (
    CONTROL,
    OFF,
    ON,
    PROGRAM,
    GridScore,
    Row,
    Score,
    Seconds,
    grid_score,
)

BYTES = 256
ROUNDINGS = ("time", "message")
LONGEST_DELTA = 999  # steps, where the paper cuts a silence
_EVENT = re.compile(
    rb"d(\d{3,})\.(?:on(\d{3})\.v(\d{3})|off(\d{3})|cc(\d{3})\.v(\d{3})|pg(\d{3}))\.c(\d{1,2})(?= |$)"
)


@dataclass(frozen=True)
class ByteText:
    """One word for each event, such as `d012.on060.v080.c0`, with the steps since the last one.

    Args:
        grid: time step, in seconds.
        controls: keep control changes.
        programs: keep program changes.
        rounding: "time" rounds the time since the start, so that errors never add up; "message"
            is the paper's own: every message's delta is rounded by itself, half to even, and a
            silence is cut at 999 steps.
        most_events: events kept of a piece; None for all. The paper keeps 20,000.

    Raises:
        ValueError: for another rounding.

    Source: PJ-RoPE, the reference code's MIDI preparation; its form is written anew here.
    """

    grid: float = 0.02
    controls: bool = False
    programs: bool = True
    rounding: str = "time"
    most_events: int | None = None

    def __post_init__(self) -> None:
        if self.rounding not in ROUNDINGS:
            raise ValueError(f"rounding {self.rounding!r} is unknown; use {' or '.join(ROUNDINGS)}")

    @property
    def vocab_size(self) -> int:
        """Number of token values: bytes."""
        return BYTES

    def encode(self, score: Score, header: str = "") -> tuple[np.ndarray, Seconds]:
        """Turn a score into a line of text.

        Args:
            score: a piece.
            header: text before the first event, as `text_header` makes it.

        Returns:
            Bytes (n,), uint8, with a line feed at the end, and the time known once each byte is
            read (n,), in seconds: from the end of an event's delta on, its real onset.
        """
        kept = score.keep(controls=self.controls, programs=self.programs)
        deltas = self._deltas(kept)[: self.most_events]
        words = [header.encode("ascii", "replace")] if header else []
        times = [np.zeros(len(header) + 1)] if header else []
        last = 0.0
        for delta, row, onset in zip(deltas, _rows(kept), kept.seconds.tolist(), strict=False):
            stamp = f"d{delta:03d}"
            word = f"{stamp}.{_word(*row)}"
            words.append(word.encode())
            times.append(np.full(len(word) + 1, onset))
            times[-1][: len(stamp)] = last
            last = onset
        text = b" ".join(words) + b"\n"
        seconds = np.concatenate([*times, np.zeros(0 if times else 1)])
        return np.frombuffer(text, np.uint8), np.maximum.accumulate(seconds)

    def decode(self, tokens: bytes | np.ndarray) -> GridScore:
        """Turn text back into events; what is no event, such as a header, is skipped.

        Args:
            tokens: bytes, or numbers 0 to 255; a model's samples will do.

        Returns:
            The events; under `rounding="time"` exactly those of the score on its grid.
        """
        raw = tokens if isinstance(tokens, bytes) else np.asarray(tokens, np.uint8).tobytes()
        now, rows = 0, list[Row]()
        for line in raw.split(b"\n"):
            for found in _EVENT.finditer(line):
                delta, on, velocity, off, control, value, program, channel = found.groups()
                now += int(delta)
                kind = ON if on else OFF if off else CONTROL if control else PROGRAM
                number = int(on or off or control or program)
                row = (now, kind, int(channel), number, int(velocity or value or 0))
                if max(row[2:]) <= 127 and row[2] <= 15:
                    rows.append(row)
        return grid_score(rows, self.grid)

    def _deltas(self, score: Score) -> list[int]:
        if self.rounding == "time":
            steps = score.on_grid(self.grid).step
            return [int(step) for step in np.diff(steps, prepend=0)]
        milliseconds = 1000.0 * self.grid
        rounded = np.rint(1000.0 * score.deltas / milliseconds).astype(np.int64)
        pending = np.cumsum(rounded)[score.message]
        return [min(int(delta), LONGEST_DELTA) for delta in np.diff(pending, prepend=0)]


def text_header(fields: dict[str, str]) -> str:
    """Make a line's header of fields, `PIECE=0000|COMP=…`, in the characters the paper allows."""
    return "|".join(f"{name}={_clean(value)}" for name, value in fields.items())


def _clean(text: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_ .,+:/()-]+", "_", text)
    return re.sub(r"\s+", "_", plain.strip())[:80] or "NA"


def _rows(score: Score) -> Iterator[tuple[int, int, int, int]]:
    columns = (score.kind, score.channel, score.number, score.value)
    return zip(*(column.tolist() for column in columns), strict=True)


def _word(kind: int, channel: int, number: int, value: int) -> str:
    if kind == ON:
        return f"on{number:03d}.v{value:03d}.c{channel}"
    if kind == CONTROL:
        return f"cc{number:03d}.v{value:03d}.c{channel}"
    return f"{'off' if kind == OFF else 'pg'}{number:03d}.c{channel}"
