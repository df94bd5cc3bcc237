"""Reading MIDI files so that one bad event costs that event and not the piece.

mido reads the same files, and the tests compare the two; but it gives up on a whole file at the
first key signature it does not know, takes a delta time of any size, and needs ten times as long.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pjrope.data.manifest import DataError
from pjrope.data.music.score import CONTROL, OFF, ON, PROGRAM, Score

LONGEST_GAP_S = 600.0
_DEFAULT_TEMPO = 500_000  # microseconds a beat, where a file names none
_FRAME_RATES = {24: 24.0, 25: 25.0, 29: 30_000 / 1001, 30: 30.0}
_SYSTEM_BYTES = {0xF1: 1, 0xF2: 2, 0xF3: 1}
_META, _TEMPO, _KEY, _END = 0xFF, 0x51, 0x59, 0x2F
_OTHER, _TEMPO_ROW = 4, 5
_LARGEST_TICK = (1 << 28) - 1  # four bytes, the most that the format allows


@dataclass
class _Track:
    """Rows (tick, kind, channel, number, value) of one track, and what was wrong in it."""

    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    end: int = 0


def read_midi(raw: bytes) -> Score:
    """Read a MIDI file: notes, controls and programs of all tracks, with times in seconds.

    Times follow the tempo events of every track. What is malformed is left out or clipped and
    named in `Score.repairs`: events that break off, data bytes above 127, delta times of more
    than four bytes, silences of more than ten minutes, unknown key signatures and tempos.

    Args:
        raw: contents of a standard MIDI file of format 0, 1 or 2.

    Returns:
        The score; it holds at least one note.

    Raises:
        DataError: for anything but a MIDI file, and for a file without a note.
    """
    start = raw.find(b"MThd", 0, 64)
    if start < 0 or len(raw) < start + 14:
        raise DataError("no MIDI file: it does not begin with MThd")
    kind, division = _u16(raw, start + 8), _u16(raw, start + 12)
    repairs: list[str] = []
    first, count = start + 8 + _u32(raw, start + 4), _u16(raw, start + 10)
    tracks = [_track(body) for body in _bodies(raw, first, count, repairs)]
    offset = 0
    rows: list[tuple[int, int, int, int, int]] = []
    for number, track in enumerate(tracks):
        repairs += [f"track {number}: {repair}" for repair in track.repairs]
        rows += [(row[0] + offset, *row[1:]) for row in track.rows] if offset else track.rows
        if kind == 2:  # the tracks are played one after the other
            offset += track.end
    if not any(row[1] == ON for row in rows):
        raise DataError(f"a MIDI file without a single note ({'; '.join(repairs) or 'empty'})")
    return _score(np.array(rows, np.int64), division, repairs)


def _bodies(raw: bytes, at: int, count: int, repairs: list[str]) -> list[bytes]:
    """Return the contents of the tracks, as many as the header counts."""
    found: list[bytes] = []
    while len(found) < count and at + 8 <= len(raw):
        if raw[at : at + 4] != b"MTrk":
            following = raw.find(b"MTrk", at)
            if following < 0:
                break
            repairs.append(f"{following - at} bytes between two tracks left out")
            at = following
        size = _u32(raw, at + 4)
        if at + 8 + size > len(raw):
            repairs.append(f"a track is {at + 8 + size - len(raw)} bytes short")
        found.append(raw[at + 8 : at + 8 + size])
        at += 8 + size
    if len(found) < count:
        repairs.append(f"{count - len(found)} of {count} tracks are missing")
    if at < len(raw):
        repairs.append(f"{len(raw) - at} bytes after the last track left out")
    return found


def _track(body: bytes) -> _Track:
    """Walk a track; whatever cannot be walked any further ends it."""
    track = _Track()
    try:
        _walk(body, track)
    except IndexError:
        track.repairs.append("breaks off inside an event")
    return track


def _walk(body: bytes, track: _Track) -> None:
    at, tick, status = 0, 0, 0
    add = track.rows.append
    size = len(body)
    while at < size:
        delta, at = _variable(body, at)
        if delta > _LARGEST_TICK:
            track.repairs.append("a delta time of more than four bytes read as 0")
            delta = 0
        tick += delta
        track.end = tick
        byte = body[at]
        if byte < 0x80:
            if not status:
                track.repairs.append("ends at a data byte without a status")
                return
        else:
            at += 1
            # Only channel messages may leave their status out the next time; some files do so even
            # after a meta event in between.
            status = byte if byte < 0xF0 else status
        if byte < 0xF0:
            at = _channel_message(body, at, tick, status, track)
        elif byte == _META:
            code = body[at]
            length, at = _variable(body, at + 1)
            if code == _END:
                return
            if at + length > size:
                raise IndexError
            add((tick, *_meta(code, body[at : at + length], track)))
            at += length
        elif byte in (0xF0, 0xF7):
            length, at = _variable(body, at)
            at += length
            add((tick, _OTHER, 0, 0, 0))
        else:
            at += _SYSTEM_BYTES.get(byte, 0)
            add((tick, _OTHER, 0, 0, 0))
    track.repairs.append("has no end-of-track event")


def _channel_message(body: bytes, at: int, tick: int, status: int, track: _Track) -> int:
    group, channel = status & 0xF0, status & 0x0F
    first = body[at]
    second = 0 if group in (0xC0, 0xD0) else body[at + 1]
    if first > 127 or second > 127:
        track.repairs.append(f"data byte {max(first, second)} clipped to 127")
        first, second = min(first, 127), min(second, 127)
    if group == 0x90 and second:
        track.rows.append((tick, ON, channel, first, second))
    elif group in (0x80, 0x90):
        track.rows.append((tick, OFF, channel, first, 0))
    elif group == 0xB0:
        track.rows.append((tick, CONTROL, channel, first, second))
    elif group == 0xC0:
        track.rows.append((tick, PROGRAM, channel, first, 0))
    else:
        track.rows.append((tick, _OTHER, 0, 0, 0))
    return at + (1 if group in (0xC0, 0xD0) else 2)


def _meta(code: int, data: bytes, track: _Track) -> tuple[int, int, int, int]:
    if code == _TEMPO:
        tempo = int.from_bytes(data, "big")
        if len(data) == 3 and tempo:
            return _TEMPO_ROW, 0, 0, tempo
        track.repairs.append(f"a tempo of {len(data)} bytes, value {tempo}, left out")
    elif code == _KEY and not (len(data) == 2 and (data[0] + 7) % 256 <= 14 and data[1] <= 1):
        track.repairs.append(f"an unknown key signature ({data.hex(' ') or 'empty'}) left out")
    return _OTHER, 0, 0, 0


def _score(rows: np.ndarray, division: int, repairs: list[str]) -> Score:
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    ticks, kinds = rows[:, 0], rows[:, 1]
    # A tempo holds for the time after its own message.
    at = np.flatnonzero(kinds == _TEMPO_ROW)
    tempos = np.concatenate([[_DEFAULT_TEMPO], rows[at, 4]])
    in_force = tempos[np.searchsorted(at, np.arange(len(rows)), side="left")]
    deltas = np.diff(ticks, prepend=0) * _seconds_a_tick(division, in_force, repairs)
    for gap in deltas[deltas > LONGEST_GAP_S].tolist():
        repairs.append(f"a silence of {gap:.3g} s left out")
    deltas[deltas > LONGEST_GAP_S] = 0.0
    seconds = np.cumsum(deltas)
    message = np.flatnonzero(kinds <= PROGRAM)
    kind, channel, number, value = rows[message, 1:].astype(np.uint8).T
    return Score(kind, channel, number, value, seconds[message], message, deltas, tuple(repairs))


def _seconds_a_tick(division: int, tempo: np.ndarray, repairs: list[str]) -> np.ndarray:
    if division & 0x8000:
        rate = _FRAME_RATES.get(256 - (division >> 8))
        if rate is not None and division & 0xFF:
            return np.full(len(tempo), 1.0 / (rate * (division & 0xFF)))
        repairs.append(f"{division - 65536} ticks per beat read as {65536 - division}")
        division = 65536 - division
    if not division:
        repairs.append("0 ticks per beat read as 480")
        division = 480
    return tempo * 1e-6 / division


def _variable(body: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte; return it and where the next byte stands."""
    byte = body[at]
    at += 1
    number = byte & 0x7F
    while byte & 0x80:
        byte = body[at]
        at += 1
        number = min(number, _LARGEST_TICK + 1) << 7 | byte & 0x7F  # never an endless number
    return number, at


def _u16(raw: bytes, at: int) -> int:
    return int.from_bytes(raw[at : at + 2], "big")


def _u32(raw: bytes, at: int) -> int:
    return int.from_bytes(raw[at : at + 4], "big")
