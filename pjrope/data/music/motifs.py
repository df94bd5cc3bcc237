"""Generated music in which bars return at known distances, and the same bars in shuffled order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pjrope.data.corpora import is_prepared
from pjrope.data.manifest import DataError
from pjrope.data.music.corpus import SPLITS, MusicCorpus, Tokenizer, join, load_music, music_corpus
from pjrope.data.music.event_tokens import EventTokens
from pjrope.data.music.pieces import music_entry
from pjrope.data.music.score import OFF, ON, GridScore, Row, grid_score

GRID = 0.02
# A line over a bass, in the Dorian mode: melodies walk by steps and thirds and turn at the edges.
_SCALE = (0, 2, 3, 5, 7, 9, 10)
_DEGREES, _ROOT, _BASS = 15, 62, 38
_MOVES = (-3, -2, -1, -1, 1, 1, 2, 3)
_RHYTHMS = (
    (15, 15, 15, 15),
    (20, 10, 20, 10),
    (10, 20, 10, 20),
    (30, 10, 10, 10),
    (10, 10, 10, 30),
)
_HELD_OUT_BARS_A_BAR = 3  # a held-out split has a third of the training bars


@dataclass(frozen=True)
class MotifForm:
    """How long bars are and how far back they return.

    Args:
        notes: melody notes in a bar, a multiple of 4.
        lags: distances of a return, in bars, drawn with equal odds.
        bars: bars of the training split.
    """

    notes: int
    lags: tuple[int, ...]
    bars: int

    @property
    def tokens(self) -> int:
        """Event tokens in a bar: on, shift, off for each note, and the bass on and off."""
        return 3 * self.notes + 2


# Short: 14 tokens a bar, returns 56, 112 and 224 tokens back, inside a window of 256. Long: 50
# tokens a bar, returns 600, 1,200 and 2,400 tokens back, outside a window of 512.
FORMS = {
    "short": MotifForm(notes=4, lags=(4, 8, 16), bars=14_000),
    "long": MotifForm(notes=16, lags=(12, 24, 48), bars=4_000),
}
NAMES = tuple(f"motif_{form}{control}" for form in FORMS for control in ("", "_shuffled"))


def motif_bars(
    form: MotifForm, bars: int, *, seed: int, part: int = 0, shuffled: bool = False
) -> tuple[GridScore, np.ndarray]:
    """Compose bars: half of them return exactly, from one of the form's lags, the rest are new.

    Args:
        form: bar length and lags.
        bars: number of bars.
        seed: non-negative; the same seed gives the same music on every machine.
        part: which of several independent pieces of this seed.
        shuffled: put the same bars in random order, which keeps everything but the returns.

    Returns:
        The music on a grid of 20 ms, and the lag of each bar's return, 0 for a new bar and
        throughout a shuffled piece.

    Raises:
        ValueError: for less than one bar.
    """
    if bars < 1:
        raise ValueError(f"bars is {bars}; a piece has at least one")
    draw = _Draw(seed, part)
    made: list[list[tuple[int, int]]] = []
    lags = np.zeros(bars, np.int64)
    for bar in range(bars):
        returns, lag = draw.below(2), form.lags[draw.below(len(form.lags))]
        fresh = _new_bar(form, draw)  # drawn in any case, so that the draws stay in step
        if returns and lag <= bar:
            lags[bar] = lag
            made.append(made[bar - lag])
        else:
            made.append(fresh)
    if shuffled:
        for last in range(bars - 1, 0, -1):
            other = draw.below(last + 1)
            made[last], made[other] = made[other], made[last]
        lags[:] = 0
    return grid_score(_rows(made), GRID), lags


def motif_corpus(
    name: str, *, tokenizer: Tokenizer | None = None, seed: int = 0, bars: int | None = None
) -> MusicCorpus:
    """Generate a motif corpus: three independent pieces as train, validation and test.

    Args:
        name: "motif_short", "motif_long", or one of these with "_shuffled".
        tokenizer: how the pieces become tokens; default `EventTokens()`.
        seed: of the composition.
        bars: bars of the training piece; default, those of the form. The others have a third.

    Raises:
        DataError: for another name.
    """
    if name not in NAMES:
        raise DataError(f"unknown generated music {name!r}; there is {', '.join(NAMES)}")
    tokenizer = tokenizer or EventTokens(grid=GRID)
    shuffled = name.endswith("_shuffled")
    form = FORMS[name.removeprefix("motif_").removesuffix("_shuffled")]
    splits = {}
    for part, split in enumerate(SPLITS):
        number = (bars or form.bars) // (_HELD_OUT_BARS_A_BAR if part else 1)
        score, _ = motif_bars(form, max(number, 1), seed=seed, part=part, shuffled=shuffled)
        splits[split] = join([(f"{name}/{split}", *tokenizer.encode(score.as_score()))])
    order = "in random order" if shuffled else f"that return {form.lags} bars later"
    return music_corpus(
        name,
        f"generated bars of {form.tokens} event tokens {order}",
        splits,
        licence="generated, free of rights",
        vocab_size=tokenizer.vocab_size,
        stand_in=True,
    )


def music_or_stand_in(
    name: str,
    *,
    tokenizer: Tokenizer | None = None,
    home: str | Path | None = None,
    **choice: Any,
) -> MusicCorpus:
    """Load music by name, or generated music where it was not downloaded.

    Args:
        name: a music corpus, or one of the generated ones.
        tokenizer: how pieces become tokens; default `EventTokens()`.
        home: folder that corpora are kept in; default `data_home()`.
        choice: `order`, `count`, `held_out` and `seed` as for `load_music`; of generated music
            only the seed counts.

    Returns:
        The corpus, or "motif_short" under a name that says what it stands in for.

    Raises:
        DataError: for an unknown name, or a corpus that is there but damaged.
    """
    seed = choice.get("seed", 0)
    if name in NAMES:
        return motif_corpus(name, tokenizer=tokenizer, seed=seed)
    if is_prepared(music_entry(name).name, home=home):
        return load_music(name, tokenizer=tokenizer, home=home, **choice)
    found = motif_corpus("motif_short", tokenizer=tokenizer, seed=seed)
    return replace(found, name=f"{found.name} (stand-in for {name})")


class _Draw:
    """Whole numbers from a raw bit stream, which is promised never to change."""

    def __init__(self, seed: int, part: int) -> None:
        self._bits = np.random.PCG64([seed, part])

    def below(self, limit: int) -> int:
        return (int(self._bits.random_raw()) >> 32) * limit >> 32


def _new_bar(form: MotifForm, draw: _Draw) -> list[tuple[int, int]]:
    """Return a bar's notes as (degree, steps)."""
    degree = draw.below(_DEGREES)
    notes = []
    for _ in range(form.notes // 4):
        for steps in _RHYTHMS[draw.below(len(_RHYTHMS))]:
            notes.append((degree, steps))
            degree += _MOVES[draw.below(len(_MOVES))]
            degree = abs(degree)
            degree = min(degree, 2 * (_DEGREES - 1) - degree)
    return notes


def _pitch(degree: int) -> int:
    octave, place = divmod(degree, len(_SCALE))
    return 12 * octave + _SCALE[place]


def _rows(made: list[list[tuple[int, int]]]) -> list[Row]:
    rows: list[Row] = []
    now = 0
    for bar in made:
        bass = _BASS + _pitch(bar[0][0] % len(_SCALE))
        rows.append((now, ON, 0, bass, 64))
        for degree, steps in bar:
            pitch = _ROOT + _pitch(degree)
            rows.append((now, ON, 0, pitch, 64))
            now += steps
            rows.append((now, OFF, 0, pitch, 0))
        rows.append((now, OFF, 0, bass, 0))
    return rows
