"""A piece of music as arrays: with times in seconds as read, and on a grid of time steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pjrope.extras import need

OFF, ON, CONTROL, PROGRAM = range(4)
KINDS = ("note off", "note on", "control", "program")
Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Seconds = NDArray[np.float64]
Row = tuple[int, int, int, int, int]  # step, kind, channel, number, value


@dataclass(frozen=True, eq=False)
class Score:
    """The events of a MIDI file in time order, all tracks merged.

    Args:
        kind: OFF, ON, CONTROL or PROGRAM (n,). A note on of velocity 0 is an OFF.
        channel: 0 to 15 (n,).
        number: pitch, controller or program (n,), 0 to 127.
        value: velocity of an ON, value of a CONTROL, else 0 (n,), 0 to 127.
        seconds: time since the start of the piece (n,).
        message: index of each event among all messages of the file (n,).
        deltas: seconds between one message and the next (m,), those that are no event included.
        repairs: what was wrong in the file and how it was read, one phrase each.
    """

    kind: Bytes
    channel: Bytes
    number: Bytes
    value: Bytes
    seconds: Seconds
    message: Numbers
    deltas: Seconds
    repairs: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.kind)

    def keep(self, *, controls: bool, programs: bool) -> Score:
        """Return the score without its controls or programs; all notes stay."""
        wanted = np.ones(len(self), bool)
        wanted &= controls | (self.kind != CONTROL)
        wanted &= programs | (self.kind != PROGRAM)
        return Score(
            kind=self.kind[wanted],
            channel=self.channel[wanted],
            number=self.number[wanted],
            value=self.value[wanted],
            seconds=self.seconds[wanted],
            message=self.message[wanted],
            deltas=self.deltas,
            repairs=self.repairs,
        )

    def on_grid(self, grid: float) -> GridScore:
        """Round every event's time since the start to the grid: errors never add up.

        Args:
            grid: step, in seconds.
        """
        if not grid > 0:
            raise ValueError(f"grid is {grid} s; a time step must be positive, such as 0.02")
        steps = np.floor(self.seconds / grid + 0.5).astype(np.int64)
        return GridScore(steps, self.kind, self.channel, self.number, self.value, grid)


@dataclass(frozen=True, eq=False)
class GridScore:
    """A piece on a time grid: what tokens hold, and what they are turned back into.

    Args:
        step: time since the start (n,), in grid steps, ascending.
        kind: as `Score.kind` (n,).
        channel: as `Score.channel` (n,).
        number: as `Score.number` (n,).
        value: as `Score.value` (n,).
        grid: step, in seconds.
    """

    step: Numbers
    kind: Bytes
    channel: Bytes
    number: Bytes
    value: Bytes
    grid: float

    def __len__(self) -> int:
        return len(self.step)

    def as_score(self) -> Score:
        """Return the same events with times in seconds."""
        seconds: Seconds = np.multiply(self.step, self.grid, dtype=np.float64)
        deltas = np.diff(seconds, prepend=0.0)
        order = np.arange(len(self))
        return Score(self.kind, self.channel, self.number, self.value, seconds, order, deltas)

    def rows(self) -> list[Row]:
        """Return the events as (step, kind, channel, number, value)."""
        columns = (self.step, self.kind, self.channel, self.number, self.value)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def notes(self) -> list[tuple[float, float, int, int]]:
        """Return the notes as (start, length, pitch, velocity), times in seconds.

        A note that never ends lasts to the last event of the piece; one that is struck again
        ends there.
        """
        found: list[tuple[float, float, int, int]] = []
        sounding: dict[tuple[int, int], tuple[int, int]] = {}

        def end(key: tuple[int, int], now: int) -> None:
            if key in sounding:
                start, velocity = sounding.pop(key)
                length = (now - start) * self.grid
                found.append((start * self.grid, length, key[1], velocity))

        for step, kind, channel, number, value in self.rows():
            if kind in (ON, OFF):
                end((channel, number), step)
            if kind == ON:
                sounding[channel, number] = (step, value)
        for key in list(sounding):
            end(key, int(self.step[-1]))
        return sorted(found)

    def write(self, path: str | Path) -> None:
        """Write a MIDI file with one track in which a tick is a grid step.

        Args:
            path: file to write.

        Raises:
            ImportError: without mido, which the extra `music` installs.
            ValueError: for a grid outside 1 ms to 0.16 s, which a MIDI file's tempo cannot hold.
        """
        if not 0.001 <= self.grid <= 0.16:
            raise ValueError(f"grid is {self.grid} s; a MIDI file holds steps of 0.001 to 0.16 s")
        mido = need("mido", "music")
        ticks = 100  # to the beat, so that a beat of 100 steps is the tempo
        file = mido.MidiFile(type=0, ticks_per_beat=ticks)
        track = mido.MidiTrack()
        file.tracks.append(track)
        track.append(mido.MetaMessage("set_tempo", tempo=round(self.grid * 1e6 * ticks)))
        last = 0
        for step, kind, channel, number, value in self.rows():
            time, last = step - last, step
            if kind == CONTROL:
                fields = {"control": number, "value": value}
            elif kind == PROGRAM:
                fields = {"program": number}
            else:
                fields = {"note": number, "velocity": value}
            name = ("note_off", "note_on", "control_change", "program_change")[kind]
            track.append(mido.Message(name, channel=channel, time=time, **fields))
        file.save(path)


def grid_score(rows: list[Row], grid: float) -> GridScore:
    """Make a grid score of rows (step, kind, channel, number, value)."""
    table = np.array(rows, np.int64).reshape(-1, 5)
    kind, channel, number, value = table[:, 1:].astype(np.uint8).T
    return GridScore(table[:, 0], kind, channel, number, value, grid)
