"""The player in Python: what its page holds, what it refuses."""

from __future__ import annotations

import io
import re

import pytest
from PIL import Image

from pjrope.data.music import FORMS, motif_bars
from pjrope.interactive import NotePlayer

TUNE = [[0, 20, 60, 80], [20, 20, 64, 90], [40, 40, 67, 100]]


def player(tunes=None, **more):
    options = {"name": "tune", "alt": "Three rising notes."}
    return NotePlayer({"a triad": TUNE} if tunes is None else tunes, **{**options, **more})


def test_the_page_draws_the_roll_without_its_script():
    page = player().page()
    before, _, script = page.partition("<script>")
    assert before.count("<rect ") == 3
    assert 'aria-label="Piano roll, a triad: Three rising notes."' in before
    heights = [int(y) for y in re.findall(r'<rect x="[\d.]+" y="(\d+)"', before)]
    assert heights == sorted(heights, reverse=True)  # rising notes stand higher
    assert '"notes":[[0,20,60,80]' in script
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_the_bundle_has_a_picture_and_words():
    bundle = player({"one": TUNE, "two": TUNE[:2]})._repr_mimebundle_()
    assert bundle["text/plain"] == "NotePlayer('tune', one, two)"
    assert bundle["text/html"].count('<div class="pj-tune">') == 2
    picture = Image.open(io.BytesIO(player().png()))
    assert picture.format == "PNG" and picture.width > 400


def test_ids_are_counted_and_the_page_cannot_be_closed_from_inside():
    pages = [player({"</script>": TUNE}).page() for _ in "ab"]
    ids = [int(re.search(r'id="pj-tune-(\d+)"', page)[1]) for page in pages]
    assert ids[1] == ids[0] + 1
    assert all(page.count("</script>") == 1 for page in pages)


def test_a_minute_of_the_generated_corpus_is_a_few_kilobytes():
    score, _ = motif_bars(FORMS["short"], 48, seed=0)
    notes = [[round(s / 0.02), round(d / 0.02), p, v] for s, d, p, v in score.notes()]
    page = player({"48 bars": notes}).page()
    assert len(page) - len(player().page()) < 30_000


@pytest.mark.parametrize(
    ("tunes", "more", "message"),
    [
        ({}, {}, "has no tune"),
        ({"rest": []}, {}, "'rest' has no note"),
        ({"high": [[0, 1, 128, 64]]}, {}, r"the note \[0, 1, 128, 64\]"),
        ({"early": [[-1, 1, 60, 64]]}, {}, "start >= 0"),
        (None, {"alt": " "}, "has no alt text"),
        (None, {"name": "A tune"}, "lower-case letters"),
        (None, {"grid": 0.0}, "grid is 0.0 s"),
    ],
)
def test_what_cannot_be_played_is_refused(tunes, more, message):
    with pytest.raises(ValueError, match=message):
        player(tunes, **more)
