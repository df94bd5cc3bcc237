"""The page's formula of chapter jordan's figure, held against Python's in a real browser."""

from __future__ import annotations

import pytest

from pjrope.interactive import jordan_mode_curves, jordan_modes
from pjrope.kernels.jordan import FORMS

SETTINGS = [
    {"form": form, "omega": omega, "c": c, "eta": eta, "length": length, "offset": offset}
    for form in FORMS
    for omega, c, eta, length, offset in ((0.2, 1, 2, 64, 256), (0.06, 0.25, -4, 16, 1024))
]


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 800})
    page = context.new_page()
    page.set_content(f"<main>{jordan_modes().page()}</main>")
    yield page
    context.close()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s['form']}-{s['length']}")
def test_jordan_modes(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = jordan_mode_curves(**setting)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == xs
        assert [y for _, y in drawn[label]] == pytest.approx(ys, abs=1e-9)


def test_only_the_stabilized_form_moves_with_the_key(page):
    for form in FORMS:
        page.select_option("select", form)
        paths = [p.get_attribute("d") for p in page.locator("path.pj-curve").all()]
        assert (paths[0] != paths[1]) == (form == "stabilized")
