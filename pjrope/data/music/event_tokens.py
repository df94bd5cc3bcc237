"""Music as event tokens: a few tokens a note, so that a window holds music and not formatting."""

from __future__ import annotations

from collections.abc import Sequence
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

# The vocabulary, in order. A shift of 1 to 31 steps is one token, longer ones take a token of
# 32 to 992 steps before it.
START, SET_PROGRAM, SET_CONTROL = 0, 1, 2
CHANNEL = 3
FINE = CHANNEL + 16 - 1  # + 1 to 31
COARSE = FINE + 31  # + 1 to 31
VALUE = COARSE + 31 + 1  # + 0 to 127
NOTE_ON = VALUE + 128
NOTE_OFF = NOTE_ON + 128
VOCABULARY = NOTE_OFF + 128
_FINEST = 32
_FIRST_VELOCITY = 64


@dataclass(frozen=True)
class EventTokens:
    """Tokens for time shifts, notes on and off, velocities, programs, controls and channels.

    A note on is preceded by its velocity and channel only where they change. Without controls
    and with one channel, a piano note costs about five tokens: shift, velocity, on, shift, off.

    Args:
        grid: time step, in seconds.
        controls: keep control changes; pedals are about half of a performance's events.
        programs: keep program changes.

    Limits:
        Release velocities, pitch bends and aftertouch are not kept.
    """

    grid: float = 0.02
    controls: bool = False
    programs: bool = True

    @property
    def vocab_size(self) -> int:
        """Number of token values."""
        return VOCABULARY

    def encode(self, score: Score) -> tuple[np.ndarray, Seconds]:
        """Turn a score into tokens.

        Args:
            score: a piece.

        Returns:
            Tokens (n,), int16, beginning with START, and the time known once each token is read
            (n,), in seconds: the real onset for the tokens of an event, the grid time reached for
            a shift. No token's time tells anything of a later token.
        """
        kept = score.keep(controls=self.controls, programs=self.programs)
        tokens, owner, reached = _encode(kept.on_grid(self.grid))
        onsets = np.concatenate([[0.0], kept.seconds])
        seconds = np.where(reached >= 0, reached * self.grid, onsets[owner])
        return tokens, np.maximum.accumulate(seconds)

    def decode(self, tokens: Sequence[int] | np.ndarray) -> GridScore:
        """Turn tokens back into events; any sequence has a meaning, a model's samples too.

        Args:
            tokens: integers in 0 … vocab_size − 1; what makes no sense where it stands is skipped.

        Returns:
            The events. Of encoded tokens, exactly those that were encoded, in the same order.

        Raises:
            ValueError: for a number outside the vocabulary.
        """
        return grid_score(_decode([int(token) for token in tokens]), self.grid)


def token_name(token: int) -> str:
    """Return a token in words, such as "on 60" or "shift 32"."""
    if token in (START, SET_PROGRAM, SET_CONTROL):
        return ("start", "program", "control")[token]
    for first, name, scale in (
        (NOTE_OFF, "off", 1),
        (NOTE_ON, "on", 1),
        (VALUE, "value", 1),
        (COARSE, "shift", _FINEST),
        (FINE, "shift", 1),
        (CHANNEL, "channel", 1),
    ):
        if first <= token < VOCABULARY and (token > first or name not in ("shift",)):
            return f"{name} {(token - first) * scale}"
    raise ValueError(f"token {token} is outside 0 … {VOCABULARY - 1}")


def _encode(score: GridScore) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return tokens, the event each belongs to (+ 1), and the step reached (−1: not a shift)."""
    tokens, owner, reached = [START], [0], [-1]
    now, channel, velocity = 0, 0, _FIRST_VELOCITY
    for index, (step, kind, own_channel, number, value) in enumerate(score.rows(), start=1):
        for token, size in _shift(step - now):
            now += size
            tokens.append(token)
            owner.append(index)
            reached.append(now)
        event = [CHANNEL + own_channel] if own_channel != channel else []
        if kind == ON:
            event += [VALUE + value] if value != velocity else []
            event.append(NOTE_ON + number)
            velocity = value
        elif kind == OFF:
            event.append(NOTE_OFF + number)
        elif kind == CONTROL:
            event += [SET_CONTROL, VALUE + number, VALUE + value]
        else:
            event += [SET_PROGRAM, VALUE + number]
        channel = own_channel
        tokens += event
        owner += [index] * len(event)
        reached += [-1] * len(event)
    return np.array(tokens, np.int16), np.array(owner), np.array(reached)


def _shift(steps: int) -> list[tuple[int, int]]:
    found = []
    while steps >= _FINEST:
        coarse = min(steps // _FINEST, 31)
        found.append((COARSE + coarse, coarse * _FINEST))
        steps -= coarse * _FINEST
    if steps:
        found.append((FINE + steps, steps))
    return found


def _decode(tokens: list[int]) -> list[Row]:
    rows: list[Row] = []
    now, channel, velocity = 0, 0, _FIRST_VELOCITY
    waiting: list[int] = []  # a marker and the values that have come after it
    for token in tokens:
        if not 0 <= token < VOCABULARY:
            raise ValueError(f"token {token} is outside 0 … {VOCABULARY - 1}")
        if VALUE <= token < NOTE_ON:
            value = token - VALUE
            if not waiting:
                velocity = max(value, 1)
            elif waiting[0] == SET_PROGRAM:
                rows.append((now, PROGRAM, channel, value, 0))
                waiting = []
            elif len(waiting) == 2:
                rows.append((now, CONTROL, channel, waiting[1], value))
                waiting = []
            else:
                waiting.append(value)
            continue
        waiting = [token] if token in (SET_PROGRAM, SET_CONTROL) else []
        if token >= NOTE_OFF:
            rows.append((now, OFF, channel, token - NOTE_OFF, 0))
        elif token >= NOTE_ON:
            rows.append((now, ON, channel, token - NOTE_ON, velocity))
        elif token > COARSE:
            now += (token - COARSE) * _FINEST
        elif token > FINE:
            now += token - FINE
        elif token >= CHANNEL:
            channel = token - CHANNEL
        elif token == START:
            channel, velocity = 0, _FIRST_VELOCITY
    return rows
