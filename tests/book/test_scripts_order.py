"""The page's formula of chapter order's figure, held against Python's in a real browser."""

from __future__ import annotations

import pytest

from pjrope.interactive import SCHEMES, lag_score_rows, lag_scores

SETTINGS = [
    {"scheme": scheme, "query": query, "shift": shift, "slope": 0.0625, "omega": omega}
    for scheme in SCHEMES
    for query, shift, omega in ((0, 0, 0.05), (7, 5, 0.5), (15, 64, 1.5))
]


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 800})
    page = context.new_page()
    page.set_content(f"<main>{lag_scores().page()}</main>")
    yield page
    context.close()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s['scheme']}-{s['query']}")
def test_lag_scores(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = lag_score_rows(**setting)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == xs
        assert [y for _, y in drawn[label]] == pytest.approx(ys, abs=1e-6)


def drawn_paths(page):
    return [path.get_attribute("d") for path in page.locator("path.pj-curve").all()]


def test_only_the_added_wave_parts_from_its_shifted_self(page):
    for scheme in SCHEMES:
        page.select_option("select", scheme)
        still, moved = drawn_paths(page)
        assert (still != moved) == (scheme == "added wave")
