"""The page's formula of chapter gates' figure, held against Python's in a real browser."""

from __future__ import annotations

import pytest

from pjrope.interactive import gauge_curves, gauge_explorer

SETTINGS = [
    {"jet": 0, "line": 0, "amplitude": 3, "slope": 3, "keep": "no"},
    {"jet": -3.5, "line": 2, "amplitude": 3, "slope": 3, "keep": "no"},
    {"jet": -3.5, "line": 2, "amplitude": 3, "slope": 3, "keep": "yes"},
    {"jet": 4, "line": -4, "amplitude": 0, "slope": 6, "keep": "yes"},
    {"jet": 1, "line": 0.5, "amplitude": 5.5, "slope": 0, "keep": "yes"},
]


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 800})
    page = context.new_page()
    page.set_content(f"<main>{gauge_explorer().page()}</main>")
    yield page
    context.close()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s['jet']}-{s['keep']}")
def test_gauge_explorer(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = gauge_curves(**setting)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == xs
        assert [y for _, y in drawn[label]] == pytest.approx(ys, abs=1e-9)


def test_keeping_the_function_leaves_the_curves_where_they_are(page):
    def shown():
        curves = [p.get_attribute("d") for p in page.locator("path.pj-curve").all()]
        return curves, page.locator(".pj-fig ul").inner_text()

    page.select_option("select[name=keep]", "yes")
    before = shown()
    page.locator("input[name=line]").fill("3")
    after = shown()
    assert after[0] == before[0] and after[1] != before[1]
    page.select_option("select[name=keep]", "no")
    assert shown()[0] != before[0]
