"""The page's formula of chapter lightcone's figure, held against Python's in a real browser."""

from __future__ import annotations

import pytest

from pjrope.interactive import lightcone_curves, lightcone_explorer

SETTINGS = [
    {"length": 1024, "order": 3, "reach": 10**4.5, "show": "amplitudes without raw"},
    {"length": 64, "order": 3, "reach": 1e6, "show": "all amplitudes"},
    {"length": 4096, "order": 0, "reach": 100, "show": "all amplitudes"},
    {"length": 192, "order": 2, "reach": 10**5.25, "show": "amplitudes without raw"},
    {"length": 320, "order": 1, "reach": 1e6, "show": "phases"},
]


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 800})
    page = context.new_page()
    page.set_content(f"<main>{lightcone_explorer().page()}</main>")
    yield page
    context.close()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s['length']}-{s['order']}")
def test_lightcone_explorer(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = lightcone_curves(**setting)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == pytest.approx(xs, abs=1e-12)
        assert [y for _, y in drawn[label]] == pytest.approx(ys, rel=1e-12, abs=1e-9)


def test_a_slider_that_counts_in_powers_of_ten_moves_the_curves(page):
    def shown():
        return page.locator(".pj-fig ul").inner_text()

    page.select_option("select[name=show]", "all amplitudes")
    assert "raw: 10^12.7 at the end" in shown()
    page.locator("input[name=reach]").fill("6")
    assert "raw: 10^17.2 at the end" in shown()
    page.locator("input[name=order]").fill("1")
    assert "raw: 10^6.0 at the end" in shown()
