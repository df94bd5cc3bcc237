"""The page's formula of chapter phase-language's figure, held against Python's in a real browser."""

from __future__ import annotations

import pytest

from pjrope.interactive import SHEARS, linear_reader, reader_curves

SETTINGS = [
    {"index": 3, "power": 1, "order": 2, "shear": "stabilized", "damping": 0},
    {"index": 0, "power": 2, "order": 1, "shear": "exact", "damping": 0.5},
    *({"index": 7, "power": 3, "order": 4, "shear": shear, "damping": 2} for shear in SHEARS),
    {"index": 5, "power": 2, "order": 3, "shear": "exact", "damping": 0},
]


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 900})
    page = context.new_page()
    page.set_content(f"<main>{linear_reader().page()}</main>")
    yield page
    context.close()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"r{s['power']}-{s['shear']}")
def test_linear_reader(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = reader_curves(**setting)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == xs
        assert [y for _, y in drawn[label]] == pytest.approx(ys, abs=1e-6)


def test_raising_the_power_lowers_both_curves(page):
    def shown():
        return [p.get_attribute("d") for p in page.locator("path.pj-curve").all()]

    before = shown()
    page.locator("input[name=power]").fill("3")
    assert all(a != b for a, b in zip(before, shown(), strict=True))
