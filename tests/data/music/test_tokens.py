"""Both tokenisers: lossless up to the grid, sound on any input, times beside tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pjrope.data.music import (
    ByteText,
    EventTokens,
    Score,
    grid_score,
    pieces,
    read_midi,
    text_header,
    token_name,
)
from pjrope.data.music.event_tokens import NOTE_ON, START, VOCABULARY
from pjrope.data.music.score import CONTROL, OFF, ON, PROGRAM
from pjrope.extras import MissingLibrary

from .midi_bytes import event, meta, midi, note, track

GRID = 0.02
TOKENISERS = [EventTokens(controls=True), ByteText(controls=True)]


def event_rows(steps: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    byte = st.integers(0, 127)
    channel = st.integers(0, 15)
    return st.tuples(steps, st.integers(0, 3), channel, byte, byte).map(
        lambda row: (
            *row[:4],
            max(row[4], 1) if row[1] == ON else row[4] if row[1] == CONTROL else 0,
        )
    )


@st.composite
def scores(draw: st.DrawFn) -> Score:
    """A score off the grid, with silences from none to over a minute."""
    rows = draw(st.lists(event_rows(st.integers(0, 4000)), min_size=1, max_size=40))
    rows.sort(key=lambda row: row[0])
    exact = grid_score(rows, GRID).as_score()
    # A fraction of a step for each event that keeps their order.
    within = draw(st.floats(-0.49, 0.49))
    seconds = np.maximum(exact.seconds + within * GRID, 0.0)
    kinds = (exact.kind, exact.channel, exact.number, exact.value)
    return Score(*kinds, seconds, exact.message, np.diff(seconds, prepend=0.0))


@pytest.mark.parametrize("tokeniser", TOKENISERS, ids=["events", "text"])
@settings(max_examples=80, deadline=None)
@given(score=scores())
def test_a_round_trip_loses_nothing_but_the_grid(tokeniser: Any, score: Score) -> None:
    tokens, seconds = tokeniser.encode(score)
    back = tokeniser.decode(tokens)
    assert back.rows() == score.on_grid(GRID).rows()
    assert np.abs(back.step * GRID - score.seconds).max() <= GRID / 2 + 1e-9
    assert len(seconds) == len(tokens) and (np.diff(seconds) >= 0).all()
    assert tokens.min() >= 0 and tokens.max() < tokeniser.vocab_size
    again, _ = tokeniser.encode(back.as_score())
    assert again.tolist() == tokens.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, VOCABULARY - 1), max_size=60))
def test_any_tokens_have_a_meaning(tokens: list[int]) -> None:
    score = EventTokens().decode(tokens)
    if len(score):
        encoder = EventTokens(controls=True)
        assert encoder.decode(encoder.encode(score.as_score())[0]).rows() == score.rows()
        assert all(length >= 0 for _, length, _, _ in score.notes())


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_have_a_meaning(raw: bytes) -> None:
    score = ByteText().decode(raw)
    assert ByteText().decode(np.frombuffer(raw, np.uint8)).rows() == score.rows()


def test_the_vocabulary_is_small_and_named() -> None:
    assert EventTokens().vocab_size == VOCABULARY == 465
    names = [token_name(token) for token in range(VOCABULARY)]
    assert len(set(names)) == VOCABULARY
    assert {"start", "on 60", "off 0", "value 127", "shift 31", "shift 992", "channel 15"} <= set(
        names
    )
    for token in (-1, VOCABULARY):
        with pytest.raises(ValueError, match="is outside"):
            token_name(token)
        with pytest.raises(ValueError, match="is outside"):
            EventTokens().decode([token])


def test_tokens_of_a_small_piece_in_words() -> None:
    rows = [
        (0, PROGRAM, 0, 19, 0),
        (0, ON, 0, 60, 80),
        (50, OFF, 0, 60, 0),
        (50, CONTROL, 0, 64, 127),
        (50, ON, 2, 62, 80),
        (2000, OFF, 2, 62, 0),
    ]
    tokens, seconds = EventTokens(controls=True).encode(grid_score(rows, GRID).as_score())
    words = [token_name(int(token)) for token in tokens]
    assert " / ".join(words) == (
        "start / program / value 19 / value 80 / on 60 / shift 32 / shift 18 / off 60 / control / "
        "value 64 / value 127 / channel 2 / on 62 / shift 992 / shift 928 / shift 30 / off 62"
    )
    assert seconds[[4, 5, 6, 7, 13, 14, 15, 16]] == pytest.approx(
        [0, 0.64, 1, 1, 20.84, 39.4, 40, 40]
    )


def test_no_time_tells_of_a_later_token() -> None:
    """Two pieces that differ from token k on have the same times before it."""
    short = [(0, ON, 0, 60, 64), (40, OFF, 0, 60, 0)]
    long = [(0, ON, 0, 60, 64), (63, OFF, 0, 60, 0)]
    for tokeniser in TOKENISERS:
        (a, t), (b, u) = (tokeniser.encode(grid_score(r, GRID).as_score()) for r in (short, long))
        first = int(np.argmin(a[: len(b)] == b[: len(a)]))
        assert first > 0 and t[:first].tolist() == u[:first].tolist()


def test_onset_times_are_real_and_not_rounded() -> None:
    score = read_midi(midi(track(note(0, 60, 100), note(37, 62, 100))))
    for tokeniser in (EventTokens(), ByteText()):
        _, seconds = tokeniser.encode(score)
        onset = 137 / 960
        assert any(abs(seconds - onset) < 1e-12), tokeniser


def test_text_is_the_papers_form() -> None:
    raw = midi(
        track(
            meta(0, 3, b"name"), event(0, 0xC1, 5), event(0, 0x91, 60, 80), event(480, 0x91, 60, 0)
        ),
        track(event(480, 0xB0, 64, 127), event(480 * 60, 0x90, 60, 1)),
    )
    header = text_header({"PIECE": "0000", "COMP": "Antonín  Dvořák", "TITLE": "  "})
    text, seconds = ByteText(controls=True).encode(read_midi(raw), header)
    assert text.tobytes() == (
        b"PIECE=0000|COMP=Anton_n_Dvo_k|TITLE=NA d000.pg005.c1 d000.on060.v080.c1 "
        b"d025.off060.c1 d000.cc064.v127.c0 d1500.on060.v001.c0\n"
    )
    assert seconds[-1] == 30.5 and seconds[text.tobytes().index(b"d1500") + 4] == 0.5
    assert len(ByteText(most_events=2).encode(read_midi(raw))[0]) == len(
        "d000.pg005.c1 d000.on060.v080.c1 "
    )
    paper = ByteText(rounding="message").encode(read_midi(raw))[0].tobytes()
    assert paper.endswith(b"d999.on060.v001.c0\n")
    with pytest.raises(ValueError, match="rounding 'none' is unknown; use time or message"):
        ByteText(rounding="none")


@pytest.mark.parametrize(
    ("milliseconds", "by_message", "by_time"), [(9, 0, 45), (30, 200, 150), (20, 100, 100)]
)
def test_rounding_each_message_loses_or_makes_time(
    milliseconds: int, by_message: int, by_time: int
) -> None:
    # 100 notes this far apart; a tick is a millisecond.
    notes = [event(milliseconds if i else 0, 0x90, i % 128, 9) for i in range(101)]
    score = read_midi(midi(track(*notes), division=500))
    found = {}
    for rounding in ("message", "time"):
        text = ByteText(rounding=rounding)
        found[rounding] = int(text.decode(text.encode(score)[0]).step[-1])
    assert found == {"message": by_message, "time": by_time}


@pytest.mark.parametrize("grid", [0.01, 0.02, 0.005])
def test_a_midi_file_is_written_and_read_again(tmp_path: Path, grid: float) -> None:
    mido = pytest.importorskip("mido")
    rows = [(0, PROGRAM, 3, 40, 0), (0, ON, 3, 60, 80), (7, CONTROL, 3, 64, 1), (9, OFF, 3, 60, 0)]
    score = grid_score(rows, grid)
    score.write(tmp_path / "piece.mid")
    again = read_midi((tmp_path / "piece.mid").read_bytes())
    assert again.on_grid(grid).rows() == rows and again.repairs == ()
    assert mido.MidiFile(tmp_path / "piece.mid").length == pytest.approx(9 * grid)
    assert score.notes() == [(0.0, pytest.approx(9 * grid), 60, 80)]
    with pytest.raises(ValueError, match="a MIDI file holds steps"):
        grid_score(rows, 1.0).write(tmp_path / "other.mid")
    with pytest.raises(ValueError, match="must be positive"):
        again.on_grid(0.0)


def test_writing_without_mido_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mido", None)
    with pytest.raises(MissingLibrary, match=re.escape('pip install "pjrope[music]"')):
        grid_score([(0, ON, 0, 60, 1)], GRID).write(tmp_path / "a.mid")


def test_notes_struck_again_or_never_ended_have_an_end() -> None:
    rows = [(0, ON, 0, 60, 9), (5, ON, 0, 60, 8), (6, ON, 0, 61, 7), (10, OFF, 0, 60, 0)]
    assert grid_score(rows, 1.0).notes() == [(0, 5, 60, 9), (5, 5, 60, 8), (6, 4, 61, 7)]


@pytest.fixture(scope="module")
def tokens_of_note() -> list[int]:
    return [START, NOTE_ON + 60]


def test_pieces_joined_begin_where_the_last_ended(tokens_of_note: list[int]) -> None:
    score = EventTokens().decode([*tokens_of_note, *tokens_of_note])
    assert score.rows() == [(0, ON, 0, 60, 64)] * 2


def test_100_real_pieces_come_back_within_the_grid(
    real_mirror: Callable[..., Path],
) -> None:
    home = real_mirror("maestro-v3.0.0/maestro-v3.0.0.csv", "musicnet/musicnet_metadata.csv")
    found = [piece for name in ("maestro", "musicnet") for piece in pieces(name, home=home)[0]]
    found.sort(key=lambda piece: piece.path.stat().st_size)
    for index, piece in enumerate(found[:110]):
        score = piece.read()
        tokeniser = TOKENISERS[index % 2]
        back = tokeniser.decode(tokeniser.encode(score)[0])
        assert back.rows() == score.on_grid(GRID).rows(), piece.id
        assert np.abs(back.step * GRID - score.seconds).max() <= GRID / 2 + 1e-9, piece.id
        assert abs(back.step[-1] * GRID - score.seconds[-1]) <= GRID, piece.id
    assert len(found) >= 110
