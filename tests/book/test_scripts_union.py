"""The page's formulas of chapter union's figure, held against Python's in a real browser."""

from __future__ import annotations

import pytest

from pjrope.interactive import union_curves, union_explorer, union_roots

NAMES = ("fj", "order", "omega", "c", "slope", "lc", "length")
SETTINGS = [
    dict(zip(NAMES, values, strict=True))
    for values in (
        (1, 1, 0.3, 1, 0.5, 0, 32),
        (0.75, 3, 1.45, 0.25, 2, 1.5, 4),
        (2, 2, 0, 0, 1, 0.25, 64),
        (1, 0, 0, 0, 0.5, 0, 16),
        (0, 2, 0.6, 1, 0, 1, 16),
    )
]


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 1100})
    page = context.new_page()
    page.set_content(f"<main>{union_explorer().page()}</main>")
    yield page
    context.close()


@pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))
def test_curves(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = union_curves(**setting)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == xs
        assert [y for _, y in drawn[label]] == pytest.approx(ys, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))
def test_roots(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjDots(v)", setting)
    wanted = union_roots(**setting)
    assert len(drawn) == len(wanted)
    for re, im, text in drawn:
        near = [r for r in wanted if abs(r.value - complex(re, im)) < 1e-12]
        assert [f"×{r.multiplicity}" for r in near] == [text]


def test_a_slider_moves_the_dots_and_the_list(page):
    dots = page.locator("circle.pj-dot")
    assert dots.count() == 3
    before = dots.first.get_attribute("cx")
    page.locator("input[name=omega]").fill("1.2")
    assert dots.first.get_attribute("cx") != before
    page.locator("input[name=fj]").fill("0")
    assert dots.count() == 1
    assert page.locator("figure.pj-fig ul").last.inner_text().strip() == "1.00: ×2"
    page.locator("input[name=slope]").fill("0")
    assert page.locator("figure.pj-fig ul").last.inner_text().strip() == "none"
