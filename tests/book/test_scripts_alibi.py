"""The page's formula of chapter alibi's figure, held against Python's in a real browser."""

from __future__ import annotations

import pytest

from pjrope.interactive import attention_window, window_curves

SETTINGS = [
    {"slope": 0.0625, "match": 3, "keys": 256},
    {"slope": 0, "match": 12, "keys": 1024},
    {"slope": 0.25, "match": 0.5, "keys": 1024},
    {"slope": 0.25, "match": 12, "keys": 64},
]


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 800})
    page = context.new_page()
    page.set_content(f"<main>{attention_window().page()}</main>")
    yield page
    context.close()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s['slope']}-{s['keys']}")
def test_attention_window(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = window_curves(**setting)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == xs
        assert [y for _, y in drawn[label]] == pytest.approx(ys, abs=1e-9)


def test_moving_the_slope_redraws(page):
    def shown():
        return page.locator("path.pj-curve").first.get_attribute("d")

    before = shown()
    page.locator("input[name=slope]").fill("0")
    assert shown() != before
