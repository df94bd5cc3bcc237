"""Generated music: bars return where they should, and the control differs in nothing else."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pjrope.data import DataError
from pjrope.data.music import (
    FORMS,
    NAMES,
    ByteText,
    EventTokens,
    MotifForm,
    motif_bars,
    motif_corpus,
    read_midi,
)


def bars_of(form: MotifForm, bars: int, **options: object) -> tuple[np.ndarray, np.ndarray]:
    """The tokens bar by bar, and the lags of the returns."""
    score, lags = motif_bars(form, bars, seed=3, **options)
    tokens, _ = EventTokens().encode(score.as_score())
    return tokens[1:].reshape(bars, form.tokens), lags


def repeats(table: np.ndarray, reach: int) -> float:
    """Share of bars that stand within `reach` bars before themselves."""
    rows = [bar.tobytes() for bar in table]
    return float(np.mean([row in rows[max(0, b - reach) : b] for b, row in enumerate(rows)]))


@pytest.mark.parametrize("name", FORMS)
def test_bars_return_at_the_stated_lags(name: str) -> None:
    form = FORMS[name]
    table, lags = bars_of(form, 600)
    for bar, lag in enumerate(lags):
        assert lag == 0 or (lag in form.lags and (table[bar] == table[bar - lag]).all())
    counts = Counter(lags[max(form.lags) :].tolist())
    assert 0.4 < counts[0] / (600 - max(form.lags)) < 0.6
    assert all(counts[lag] > 60 for lag in form.lags)


def test_short_returns_fit_a_window_and_long_ones_do_not() -> None:
    assert [lag * FORMS["short"].tokens for lag in FORMS["short"].lags] == [56, 112, 224]
    assert (max(FORMS["short"].lags) + 1) * FORMS["short"].tokens <= 256
    assert min(FORMS["long"].lags) * FORMS["long"].tokens > 512


@pytest.mark.parametrize("name", FORMS)
def test_the_control_has_the_same_bars_and_no_returns(name: str) -> None:
    form = FORMS[name]
    table, _ = bars_of(form, 800)
    control, lags = bars_of(form, 800, shuffled=True)
    assert not lags.any()
    assert sorted(map(bytes, table)) == sorted(map(bytes, control))
    reach = max(form.lags)
    assert repeats(table, reach) > 0.45 > 0.12 > repeats(control, reach)


def test_music_is_pinned_and_parts_are_independent() -> None:
    assert motif_corpus("motif_short", bars=60).sha256.startswith("088142cd543c2281")
    one, two = (bars_of(FORMS["short"], 50, part=part)[0] for part in (0, 1))
    assert (one != two).any()
    first = bars_of(FORMS["short"], 20)[0]
    assert (bars_of(FORMS["short"], 50)[0][:20] == first).all(), "a longer piece begins alike"


@pytest.mark.parametrize("name", NAMES)
def test_corpora_are_whole(name: str) -> None:
    corpus = motif_corpus(name, bars=90)
    form = FORMS[name.split("_")[1]]
    assert [len(corpus.split(s)) for s in ("train", "validation", "test")] == [
        90 * form.tokens + 1,
        30 * form.tokens + 1,
        30 * form.tokens + 1,
    ]
    assert corpus.stand_in and corpus.vocab_size == EventTokens().vocab_size
    assert ("random order" in corpus.description) == name.endswith("shuffled")
    with pytest.raises(DataError, match="unknown generated music 'motif'"):
        motif_corpus("motif")


def test_a_held_out_split_of_the_full_size_holds_32768_tokens() -> None:
    for form in FORMS.values():
        assert form.bars // 3 * form.tokens > 32_768 + 16_384


def test_other_tokens_and_a_file(tmp_path: object) -> None:
    corpus = motif_corpus("motif_short", tokenizer=ByteText(), bars=20)
    assert corpus.vocab_size == 256
    score, _ = motif_bars(FORMS["short"], 8, seed=0)
    assert score.step[-1] == 8 * 60
    pytest.importorskip("mido")
    score.write(f"{tmp_path}/motif.mid")
    with open(f"{tmp_path}/motif.mid", "rb") as file:
        assert read_midi(file.read()).on_grid(0.02).rows() == score.rows()
    with pytest.raises(ValueError, match="bars is 0"):
        motif_bars(FORMS["short"], 0, seed=0)
