"""Reading MIDI: as mido reads it where the file is sound, and on where it is not."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pjrope.data import DataError
from pjrope.data.music import Score, read_midi
from pjrope.data.music.score import CONTROL, OFF, ON, PROGRAM

from .midi_bytes import END, event, meta, midi, note, tempo, track, variable

mido = pytest.importorskip("mido")
SOUND = [note(0, 60, 480), note(0, 64, 480), note(0, 67, 480)]


def times(score: Score) -> list[float]:
    return score.seconds[score.kind == ON].round(6).tolist()


def by_mido(raw: bytes) -> tuple[list[tuple[int, int, int, int]], list[float], list[float]]:
    """Events, their times and all deltas as mido has them."""
    rows, seconds, deltas, now = [], [], [], 0.0
    for message in mido.MidiFile(file=io.BytesIO(raw)):
        now += message.time
        if message.type == "end_of_track":
            continue
        deltas.append(message.time)
        if message.type == "note_on":
            velocity = message.velocity
            rows.append((ON if velocity else OFF, message.channel, message.note, velocity))
        elif message.type == "note_off":
            rows.append((OFF, message.channel, message.note, 0))
        elif message.type == "control_change":
            rows.append((CONTROL, message.channel, message.control, message.value))
        elif message.type == "program_change":
            rows.append((PROGRAM, message.channel, message.program, 0))
        if len(rows) > len(seconds):
            seconds.append(now)
    return rows, seconds, deltas


def assert_same(raw: bytes) -> None:
    score = read_midi(raw)
    rows, seconds, deltas = by_mido(raw)
    columns = (score.kind, score.channel, score.number, score.value)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == rows
    np.testing.assert_allclose(score.seconds, seconds, rtol=0, atol=1e-6)
    assert score.deltas.tolist() == deltas
    assert score.repairs == ()


@pytest.mark.parametrize(
    "raw",
    [
        midi(track(*SOUND), kind=0),
        midi(track(tempo(0, 400_000), tempo(960, 250_000)), track(*SOUND)),
        # Tempo events off the first track rule all tracks.
        midi(track(*SOUND), track(tempo(240, 1_000_000)), track(note(700, 40, 10))),
        # Running status, also over a meta event; velocity 0 ends a note.
        midi(track(event(0, 0x91, 60, 9), event(5, 60, 0), meta(1, 1, b"x"), event(2, 62, 7))),
        midi(track(event(0, 0xC2, 19), event(0, 0xB2, 64, 127), event(3, 0xE2, 0, 64), *SOUND)),
        midi(track(variable(4) + b"\xf0\x03ab\xf7", event(0, 0xD0, 5), *SOUND)),
    ],
)
def test_sound_files_read_as_mido_reads_them(raw: bytes) -> None:
    assert_same(raw)


def test_real_files_read_as_mido_reads_them(real_mirror: Callable[..., Path]) -> None:
    mirror = real_mirror("musicnet/musicnet_metadata.csv", "maestro-v3.0.0/SUBSET.csv")
    maestro = sorted(mirror.glob("maestro-v3.0.0/2*/*.midi"), key=lambda p: p.stat().st_size)[:3]
    musicnet = sorted(mirror.glob("musicnet/musicnet_midis/[C-Z]*/*.mid"))
    musicnet = sorted(musicnet, key=lambda p: p.stat().st_size)[:9]
    assert len(maestro) == 3 and len(musicnet) == 9
    for path in [*maestro, *musicnet]:
        assert_same(path.read_bytes())


BAD: dict[str, tuple[bytes, str]] = {
    "key signature out of range": (
        midi(track(meta(0, 0x59, b"\x0f\x00"), *SOUND)),
        "an unknown key signature (0f 00) left out",
    ),
    "empty key signature": (midi(track(meta(0, 0x59, b""), *SOUND)), "(empty) left out"),
    "tempo of two bytes": (
        midi(track(meta(0, 0x51, b"\x01\x02"), *SOUND)),
        "a tempo of 2 bytes, value 258, left out",
    ),
    "tempo of zero": (midi(track(tempo(0, 0), *SOUND)), "value 0, left out"),
    "ticks per beat below zero": (midi(track(*SOUND), division=-480), "-480 ticks per beat"),
    "no ticks per beat": (midi(track(*SOUND), division=0), "0 ticks per beat read as 480"),
    "a tick of 10^17": (
        midi(track(meta(10**17, 1, b"far"), *SOUND)),
        "a delta time of more than four bytes read as 0",
    ),
    "a tick of 10^17 in another track": (
        midi(track(*SOUND), track(meta(10**17, 1, b"far"))),
        "track 1: a delta time of more than four bytes",
    ),
    "a silence of three days": (
        midi(track(meta(2**28 - 1, 1, b"far"), *SOUND)),
        "a silence of 2.8e+05 s left out",
    ),
    "data byte above 127": (
        midi(track(event(0, 0xB0, 64, 200), *SOUND)),
        "data byte 200 clipped to 127",
    ),
    "bytes between tracks": (
        midi(track(), b"junk!", track(*SOUND), count=2),
        "5 bytes between two tracks left out",
    ),
    "bytes after the tracks": (midi(track(*SOUND)) + b"\x00" * 9, "9 bytes after the last track"),
    "a track too few": (midi(track(*SOUND), count=3), "2 of 3 tracks are missing"),
    "a track too short": (midi(track(*SOUND))[:-4], "a track is 4 bytes short"),
    "no end": (midi(track(*SOUND, end=b"")), "has no end-of-track event"),
    "a broken event at the end": (
        midi(track(*SOUND, end=b"\x00\x90\x30")),
        "breaks off inside an event",
    ),
    "a meta event that runs away": (
        midi(track(*SOUND, end=b"\x00\xff\x01\x7fabc")),
        "breaks off inside an event",
    ),
    "a data byte without a status": (
        midi(track(*SOUND), track(b"\x00\x33\x33")),
        "ends at a data byte without a status",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_one_bad_event_does_not_cost_the_piece(case: str) -> None:
    raw, told = BAD[case]
    score = read_midi(raw)
    assert times(score) == [0.0, 0.5, 1.0]
    assert told in "; ".join(score.repairs)


def test_frames_per_second_are_read() -> None:
    # 25 frames of 40 ticks: a tick is a millisecond, whatever the tempo.
    score = read_midi(midi(track(tempo(0, 1), *SOUND), division=(256 - 25) << 8 | 40))
    assert times(score) == [0.0, 0.48, 0.96] and score.repairs == ()


def test_tracks_of_format_2_follow_each_other() -> None:
    score = read_midi(midi(track(note(0, 60, 480)), track(note(0, 64, 480)), kind=2))
    assert times(score) == [0.0, 0.5]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "does not begin with MThd"),
        (b"<!DOCTYPE html><html></html>", "does not begin with MThd"),
        (b"MThd\0\0", "does not begin with MThd"),
        (midi(track(event(0, 0xB0, 64, 1))), "without a single note"),
        (midi(), "without a single note"),
    ],
)
def test_what_is_no_music_is_refused(raw: bytes, told: str) -> None:
    with pytest.raises(DataError, match=told):
        read_midi(raw)


def test_an_endless_number_does_not_hang() -> None:
    start = time.process_time()
    with pytest.raises(DataError, match="without a single note"):
        read_midi(midi(track(b"\xff" * 400_000)))
    assert time.process_time() - start < 5.0  # 0.1 s measured


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_is_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(midi(track(tempo(0, 400_000), meta(0, 0x59, b"\0\0")), track(*SOUND * 4)))
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=6)):
        raw[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    try:
        score = read_midi(bytes(raw[: cut or None]))
    except DataError as error:
        assert "\n" not in str(error)
    else:
        assert np.isfinite(score.seconds).all() and (np.diff(score.seconds) >= 0).all()
        assert max(score.number.max(), score.value.max()) <= 127
        assert len(score.on_grid(0.02)) == len(score)


def test_the_end_of_a_track_ends_it() -> None:
    assert times(read_midi(midi(track(*SOUND, END, note(0, 1, 1))))) == [0.0, 0.5, 1.0]
