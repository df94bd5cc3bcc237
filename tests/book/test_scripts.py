"""The formulas that pages repeat in JavaScript, held against Python's in a real browser."""

from __future__ import annotations

import pytest

from pjrope.interactive import InteractiveFigure, Slider, rope_score_curves, rope_scores

SETTINGS = [
    {"base": 1e4, "head_dim": 64, "extension": "none", "scale": 4},
    {"base": 1e2, "head_dim": 4, "extension": "PI", "scale": 7},
    {"base": 1e6, "head_dim": 128, "extension": "NTK", "scale": 32},
    {"base": 1e3, "head_dim": 4, "extension": "NTK", "scale": 2},
    {"base": 1e4, "head_dim": 64, "extension": "YaRN", "scale": 16},
    {"base": 1e5, "head_dim": 20, "extension": "YaRN", "scale": 1},
]


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 800})
    page = context.new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.set_content(f"<main>{rope_scores(longest=600).page()}</main>")
    assert not wrong
    yield page
    context.close()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s['extension']}-{s['head_dim']}")
def test_rope_scores(page, setting):
    drawn = page.evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = rope_score_curves(**setting, longest=600)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == xs
        assert [y for _, y in drawn[label]] == pytest.approx(ys, abs=1e-6)


def test_controls_start_where_python_put_them(page):
    assert page.locator("output").all_text_contents() == ["10000", "64", "4"]
    assert page.locator("select").input_value() == "none"


def test_choosing_an_extension_adds_its_curve(page):
    page.select_option("select", "YaRN")
    assert page.locator("path.pj-curve").count() == 2
    assert "with YaRN" in page.locator(".pj-fig ul").inner_text()
    page.select_option("select", "none")
    assert page.locator("path.pj-curve").count() == 1


@pytest.mark.parametrize("width", [390, 900])
def test_figure_fits_and_controls_are_large_enough(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = [c.bounding_box() for c in page.locator("input, select").all()]
    assert all(box["height"] >= 44 and box["width"] >= 44 for box in boxes)
    drawn = page.locator(".pj-fig > svg").get_attribute("viewBox").split()
    shown = page.locator(".pj-fig > svg").bounding_box()["width"]
    assert abs(float(drawn[2]) - shown) <= 1, "text is scaled with the drawing"


def test_a_second_figure_stands_beside_the_first(browser):
    figure = InteractiveFigure(
        lambda a: {"line": ([0, 1], [0, a])},
        "return {line: [[0, 0], [1, v.a]]};",
        [Slider("a", "slope", 0, 2, 0.5, 1)],
        xlabel="x (no unit)",
        ylabel="y (no unit)",
        alt="A line.",
        name="line",
    )
    page = browser.new_page()
    page.set_content(figure.page() + figure.page())
    before = [p.get_attribute("d") for p in page.locator("path.pj-curve").all()]
    page.locator("input").first.press("ArrowLeft")
    after = [p.get_attribute("d") for p in page.locator("path.pj-curve").all()]
    page.close()
    assert len(before) == 2 and before[1] == after[1]
    assert page.is_closed()
