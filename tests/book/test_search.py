"""The site's own search, asked in a browser with the words that readers type."""

from __future__ import annotations

from pathlib import Path

import pytest
import search_words

SITE = Path(__file__).resolve().parents[2] / "_build" / "html"
FIRST = 3
# What is typed, and pages one of which must be among the first hits.
ASKED = {
    "YaRN": ("ch02_rope", "ch03_stretch"),
    "ALiBi": ("ch07_alibi",),
    "extrapolation": ("ch02_rope", "ch03_stretch"),
    "context length": ("ch02_rope", "ch03_stretch"),
    "llama": ("usage", "ch15_your_model"),
    "KV cache": ("ch12_speed", "usage"),
    "flash attention": ("ch12_speed",),
    "T5": ("ch07_alibi",),
    "music": ("ch14_music",),
    "colab gpu": ("index",),
    "recency": ("ch07_alibi",),
    "install": ("index",),
}
# The search itself, without the page that shows its hits one by one; the best come last.
HITS = """words => words.map(word =>
  Search._performSearch(...Search._parseQuery(word)).reverse().map(hit => hit[0]))"""


@pytest.fixture(scope="module")
def hits(browser):
    page = browser.new_page()
    page.goto((SITE / "search.html").as_uri())
    page.wait_for_function("Search.hasIndex()")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p id=search-progress></p>')")
    yield dict(zip(ASKED, page.evaluate(HITS, list(ASKED)), strict=True))
    page.close()


@pytest.mark.parametrize("word", ASKED)
def test_the_right_page_is_among_the_first_hits(hits, word):
    found = [name.rpartition("/")[2] for name in hits[word][:FIRST]]
    assert set(found) & set(ASKED[word]), found


def test_words_of_a_chapter_lead_to_it_alone():
    now = {"chapters/ch02_rope", "chapters/ch03_stretch"}
    assert "YaRN" not in search_words.here("chapters/ch02_rope", now)["ch-rope"]
    assert "YaRN" in search_words.here("chapters/ch03_stretch", now)["ch-stretch"]
    assert search_words.here("appendix/log", now) == {}
