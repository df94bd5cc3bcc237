"""The page's formula of chapter speed's figure, held against Python's in a real browser."""

from __future__ import annotations

import pytest

from pjrope.interactive import fold_error_curves, fold_errors

SETTINGS = [
    {"length": 1024, "order": 2, "lag": 8},
    {"length": 64, "order": 4, "lag": 0},
    {"length": 4096, "order": 0, "lag": 255},
    {"length": 512, "order": 1, "lag": 100},
]


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 800})
    page = context.new_page()
    page.set_content(f"<main>{fold_errors().page()}</main>")
    yield page
    context.close()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"order-{s['order']}")
def test_fold_errors(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = fold_error_curves(**setting)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == xs
        assert [y for _, y in drawn[label]] == pytest.approx(ys, abs=1e-9)


def test_moving_the_order_redraws(page):
    def shown():
        return page.locator("path.pj-curve").first.get_attribute("d")

    before = shown()
    page.locator("input[name=order]").fill("0")
    assert shown() != before
