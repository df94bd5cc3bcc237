"""The formulas that pages repeat in JavaScript, held against Python's in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from pjrope import interactive as pj
from pjrope.interactive import SCHEMES, SHEARS, InteractiveFigure, Slider
from pjrope.interactive.jordan import FORMS

UNION = ("fj", "order", "omega", "c", "slope", "lc", "length")


@dataclass(frozen=True)
class Explorer:
    """A figure, the Python behind it, values to compare them at, and how near they must be."""

    figure: Callable[[], InteractiveFigure]
    curves: Callable
    settings: list[dict]
    near: dict = field(default_factory=lambda: {"abs": 1e-9})
    near_x: dict = field(default_factory=lambda: {"rel": 0, "abs": 0})


EXPLORERS = {
    "rope": Explorer(
        lambda: pj.rope_scores(longest=600),
        lambda **values: pj.rope_score_curves(**values, longest=600),
        [
            {"base": 1e4, "head_dim": 64, "extension": "none", "scale": 4},
            {"base": 1e2, "head_dim": 4, "extension": "PI", "scale": 7},
            {"base": 1e6, "head_dim": 128, "extension": "NTK", "scale": 32},
            {"base": 1e3, "head_dim": 4, "extension": "NTK", "scale": 2},
            {"base": 1e4, "head_dim": 64, "extension": "YaRN", "scale": 16},
            {"base": 1e5, "head_dim": 20, "extension": "YaRN", "scale": 1},
        ],
        near={"rel": 1e-6, "abs": 1e-6},
    ),
    "alibi": Explorer(
        pj.attention_window,
        pj.window_curves,
        [
            {"slope": 0.0625, "match": 3, "keys": 256},
            {"slope": 0, "match": 12, "keys": 1024},
            {"slope": 0.25, "match": 0.5, "keys": 1024},
            {"slope": 0.25, "match": 12, "keys": 64},
        ],
    ),
    "gauge": Explorer(
        pj.gauge_explorer,
        pj.gauge_curves,
        [
            {"jet": 0, "line": 0, "amplitude": 3, "slope": 3, "keep": "no"},
            {"jet": -3.5, "line": 2, "amplitude": 3, "slope": 3, "keep": "no"},
            {"jet": -3.5, "line": 2, "amplitude": 3, "slope": 3, "keep": "yes"},
            {"jet": 4, "line": -4, "amplitude": 0, "slope": 6, "keep": "yes"},
            {"jet": 1, "line": 0.5, "amplitude": 5.5, "slope": 0, "keep": "yes"},
        ],
    ),
    "jordan": Explorer(
        pj.jordan_modes,
        pj.jordan_mode_curves,
        [
            {"form": form, "omega": omega, "c": c, "eta": eta, "length": length, "offset": offset}
            for form in FORMS
            for omega, c, eta, length, offset in ((0.2, 1, 2, 64, 256), (0.06, 0.25, -4, 16, 1024))
        ],
    ),
    "language": Explorer(
        pj.linear_reader,
        pj.reader_curves,
        [
            {"index": 3, "power": 1, "order": 2, "shear": "stabilized", "damping": 0},
            {"index": 0, "power": 2, "order": 1, "shear": "exact", "damping": 0.5},
            *(
                {"index": 7, "power": 3, "order": 4, "shear": shear, "damping": 2}
                for shear in SHEARS
            ),
            {"index": 5, "power": 2, "order": 3, "shear": "exact", "damping": 0},
        ],
        near={"abs": 1e-6},
    ),
    "lightcone": Explorer(
        pj.lightcone_explorer,
        pj.lightcone_curves,
        [
            {"length": 1024, "order": 3, "reach": 10**4.5, "show": "amplitudes without raw"},
            {"length": 64, "order": 3, "reach": 1e6, "show": "all amplitudes"},
            {"length": 4096, "order": 0, "reach": 100, "show": "all amplitudes"},
            {"length": 192, "order": 2, "reach": 10**5.25, "show": "amplitudes without raw"},
            {"length": 320, "order": 1, "reach": 1e6, "show": "phases"},
        ],
        near={"rel": 1e-12, "abs": 1e-9},
        near_x={"abs": 1e-12},  # powers of ten, which two languages round each its own way
    ),
    "order": Explorer(
        pj.lag_scores,
        pj.lag_score_rows,
        [
            {"scheme": scheme, "query": query, "shift": shift, "slope": 0.0625, "omega": omega}
            for scheme in SCHEMES
            for query, shift, omega in ((0, 0, 0.05), (7, 5, 0.5), (15, 64, 1.5))
        ],
        near={"abs": 1e-6},
    ),
    "speed": Explorer(
        pj.fold_errors,
        pj.fold_error_curves,
        [
            {"length": 1024, "order": 2, "lag": 8},
            {"length": 64, "order": 4, "lag": 0},
            {"length": 4096, "order": 0, "lag": 255},
            {"length": 512, "order": 1, "lag": 100},
        ],
    ),
    "union": Explorer(
        pj.union_explorer,
        pj.union_curves,
        [
            dict(zip(UNION, values, strict=True))
            for values in (
                (1, 1, 0.3, 1, 0.5, 0, 32),
                (0.75, 3, 1.45, 0.25, 2, 1.5, 4),
                (2, 2, 0, 0, 1, 0.25, 64),
                (1, 0, 0, 0, 0.5, 0, 16),
                (0, 2, 0.6, 1, 0, 1, 16),
            )
        ],
        near={"rel": 1e-9, "abs": 1e-9},
    ),
}
SETTINGS = [
    pytest.param(name, setting, id=f"{name}-{k}")
    for name, explorer in EXPLORERS.items()
    for k, setting in enumerate(explorer.settings)
]


@pytest.fixture(scope="module")
def context(browser):
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 1100})
    yield context
    context.close()


@pytest.fixture(scope="module")
def opened(context):
    """The page of an explorer, opened once for the tests that leave it as it is."""
    pages = {}

    def page_of(name):
        if name not in pages:
            pages[name] = open_page(context, name)
        return pages[name]

    return page_of


@pytest.fixture
def page(context, request):
    """A page of the explorer named by the test's parameter, for a test that moves its controls."""
    page = open_page(context, request.param)
    yield page
    page.close()


def open_page(context, name):
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.set_content(f"<main>{EXPLORERS[name].figure().page()}</main>")
    assert not wrong
    return page


def on(name):
    return pytest.mark.parametrize("page", [name], indirect=True)


def paths(page):
    return [path.get_attribute("d") for path in page.locator("path.pj-curve").all()]


def labels(page):
    return page.locator(".pj-fig ul").first.inner_text()


@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_curves_are_those_of_python(opened, name, setting):
    explorer = EXPLORERS[name]
    drawn = opened(name).evaluate("v => document.querySelector('.pj-fig').pjCurves(v)", setting)
    wanted = explorer.curves(**setting)
    assert list(drawn) == list(wanted)
    for label, (xs, ys) in wanted.items():
        assert [x for x, _ in drawn[label]] == pytest.approx(xs, **explorer.near_x)
        assert [y for _, y in drawn[label]] == pytest.approx(ys, **explorer.near)


@pytest.mark.parametrize("setting", EXPLORERS["union"].settings, ids=range(5))
def test_roots_are_those_of_python(opened, setting):
    drawn = opened("union").evaluate("v => document.querySelector('.pj-fig').pjDots(v)", setting)
    wanted = pj.union_roots(**setting)
    assert len(drawn) == len(wanted)
    for re, im, text in drawn:
        near = [r for r in wanted if abs(r.value - complex(re, im)) < 1e-12]
        assert [f"×{r.multiplicity}" for r in near] == [text]


@pytest.mark.parametrize(
    ("page", "control", "value"),
    [("alibi", "slope", "0"), ("speed", "order", "0"), ("language", "power", "3")],
    indirect=["page"],
)
def test_a_moved_slider_redraws(page, control, value):
    before = paths(page)
    page.locator(f"input[name={control}]").fill(value)
    assert paths(page)[0] != before[0]


@on("language")
def test_raising_the_power_lowers_both_curves(page):
    before = paths(page)
    page.locator("input[name=power]").fill("3")
    assert all(a != b for a, b in zip(before, paths(page), strict=True))


@on("rope")
def test_controls_start_where_python_put_them(page):
    assert page.locator("output").all_text_contents() == ["10000", "64", "4"]
    assert page.locator("select").input_value() == "none"


@on("rope")
def test_choosing_an_extension_adds_its_curve(page):
    page.select_option("select", "YaRN")
    assert page.locator("path.pj-curve").count() == 2
    assert "with YaRN" in labels(page)
    page.select_option("select", "none")
    assert page.locator("path.pj-curve").count() == 1


@pytest.mark.parametrize("width", [390, 900])
@on("rope")
def test_figure_fits_and_controls_are_large_enough(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = [c.bounding_box() for c in page.locator("input, select").all()]
    assert all(box["height"] >= 44 and box["width"] >= 44 for box in boxes)
    drawn = page.locator(".pj-fig > svg").get_attribute("viewBox").split()
    shown = page.locator(".pj-fig > svg").bounding_box()["width"]
    assert abs(float(drawn[2]) - shown) <= 1, "text is scaled with the drawing"


def line(high=2):
    return InteractiveFigure(
        lambda a: {"line": ([0, 1], [0, a])},
        "return {line: [[0, 0], [1, v.a]]};",
        [Slider("a", "slope", 0, high, 0.5, 1)],
        xlabel="x (no unit)",
        ylabel="y (no unit)",
        ylim=(0, 2),
        alt="A line.",
        name="line",
    )


def test_a_second_figure_stands_beside_the_first(context):
    page = context.new_page()
    page.set_content(line().page() + line().page())
    before = paths(page)
    page.locator("input").first.press("ArrowLeft")
    after = paths(page)
    page.close()
    assert len(before) == 2 and before[1] == after[1] and before[0] != after[0]


def test_what_leaves_the_axes_is_cut_off_and_not_bent(context):
    """A value moved to the edge of the axes would draw a plateau."""
    page = context.new_page()
    page.set_content(line(high=1e30).page() + line().page())
    page.locator("input").first.fill("1e30")
    first, second = page.locator("path.pj-curve").all()
    height = float(page.locator(".pj-fig > svg").first.get_attribute("viewBox").split()[3])
    end = float(first.get_attribute("d").split(" ")[-1])
    assert -1e6 <= end < -10 * height, "the end of the line lies far above the drawing"
    ids = [path.get_attribute("clip-path") for path in (first, second)]
    assert ids[0] != ids[1] and all(page.locator(i[4:-1]).count() == 1 for i in ids)
    inside = page.evaluate(
        "() => { const r = document.querySelector('clipPath rect'); "
        "return [r.y.baseVal.value, r.height.baseVal.value]; }"
    )
    assert inside[0] > 0 and inside[0] + inside[1] < height
    page.close()


@on("gauge")
def test_keeping_the_function_leaves_the_curves_where_they_are(page):
    page.select_option("select[name=keep]", "yes")
    before = paths(page), labels(page)
    page.locator("input[name=line]").fill("3")
    after = paths(page), labels(page)
    assert after[0] == before[0] and after[1] != before[1]
    page.select_option("select[name=keep]", "no")
    assert paths(page) != before[0]


@on("jordan")
def test_only_the_stabilized_form_moves_with_the_key(page):
    for form in FORMS:
        page.select_option("select", form)
        still, moved, *_ = paths(page)
        assert (still != moved) == (form == "stabilized")


@on("order")
def test_only_the_added_wave_parts_from_its_shifted_self(page):
    for scheme in SCHEMES:
        page.select_option("select", scheme)
        still, moved = paths(page)
        assert (still != moved) == (scheme == "added wave")


@on("lightcone")
def test_a_slider_that_counts_in_powers_of_ten_moves_the_curves(page):
    page.select_option("select[name=show]", "all amplitudes")
    assert "raw: 10^12.7 at the end" in labels(page)
    page.locator("input[name=reach]").fill("6")
    assert "raw: 10^17.2 at the end" in labels(page)
    page.locator("input[name=order]").fill("1")
    assert "raw: 10^6.0 at the end" in labels(page)


@on("union")
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
