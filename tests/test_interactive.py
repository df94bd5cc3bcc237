"""Interactive figures in Python: controls, the three lives, and what every explorer must do."""

import io
import re

import ipywidgets
import pytest
from PIL import Image

from pjrope import interactive as pj
from pjrope.interactive import SCHEMES, SHEARS, Choice, InteractiveFigure, Slider, rope_scores

# Each explorer, the names of its controls, and one control with a value that must redraw it.
EXPLORERS = {
    "rope": (pj.rope_scores, "base head_dim extension scale", "extension", "YaRN"),
    "order": (pj.lag_scores, "scheme query shift slope omega", "scheme", "added wave"),
    "jordan": (pj.jordan_modes, "form omega c eta length offset", "form", "stabilized"),
    "language": (pj.linear_reader, "index power order shear damping", "power", 3),
    "alibi": (pj.attention_window, "slope match keys", "match", 0),
    "union": (pj.union_explorer, "fj order omega c slope lc length", "omega", 1.0),
    "gauge": (pj.gauge_explorer, "jet line amplitude slope keep", "slope", 0),
    "lightcone": (pj.lightcone_explorer, "length order reach show", "order", 1),
    "speed": (pj.fold_errors, "length order lag", "order", 0),
}
REFUSED = {
    "extension": (
        lambda: pj.rope_score_curves(base=1e4, head_dim=64, extension="LongRoPE"),
        "none, PI, NTK, YaRN",
    ),
    "scheme": (lambda: pj.lag_score_rows("learned", query=0, shift=0), ", ".join(SCHEMES)),
    "form": (lambda: pj.jordan_mode_curves("raw"), r"raw.*scaled, exact"),
    "shear": (
        lambda: pj.reader_accuracy(10, 0.3, 1, 2, "squared", 0.0, 8),
        ", ".join(SHEARS),
    ),
    "keep": (lambda: pj.gauge_curves(keep="maybe"), "keep is 'maybe': no or yes"),
    "show": (lambda: pj.lightcone_curves(show="both"), "show is 'both': choose from"),
}


def line(**more):
    """A figure of y = a x."""
    options = {"xlabel": "x (no unit)", "ylabel": "y (no unit)", "alt": "A line.", "name": "line"}
    return InteractiveFigure(
        lambda a: {"line": ([0.0, 1.0], [0.0, a])},
        "return {line: [[0, 0], [1, v.a]]};",
        [Slider("a", "slope", 0, 2, 0.5, 1)],
        **{**options, **more},
    )


def test_a_moved_slider_redraws_the_still():
    figure = line()
    before = figure.children[-1].value
    figure.controls["a"].value = 2
    assert figure.values == {"a": 2}
    assert figure.children[-1].value != before


def test_bundle_serves_kernel_page_and_print():
    data = line()._repr_mimebundle_()
    assert data["text/plain"] == "InteractiveFigure('line', a=1.0)"
    assert "return {line: [[0, 0], [1, v.a]]};" in data["text/html"]
    assert data["image/png"].startswith("iVBOR")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_still_is_a_small_palette_picture_of_the_book_s_resolution():
    still = Image.open(io.BytesIO(rope_scores().png()))
    assert still.mode == "P" and still.format == "PNG"
    assert len(rope_scores().png()) < 25_000
    assert still.info["dpi"][0] == pytest.approx(110, abs=0.1)


def test_page_starts_where_the_kernel_stands():
    figure = line()
    figure.controls["a"].value = 1.5
    assert '"value": 1.5' in figure.page()


def test_log_slider_hands_over_powers_and_stores_exponents():
    figure = InteractiveFigure(
        lambda base: {"flat": ([0, 1], [base, base])},
        "return {flat: [[0, v.base], [1, v.base]]};",
        [Slider("base", "base", 2, 6, 0.5, 4, log=True)],
        xlabel="x", ylabel="y", alt="A flat line.", name="flat",
    )  # fmt: skip
    assert figure.values == {"base": 10_000}
    assert '"value": 4.0' in figure.page()


def test_ids_are_counted_and_pages_otherwise_equal():
    figure = line()
    first, second = figure.page(), figure.page()
    ids = [re.search(r'id="pj-line-(\d+)"', page)[1] for page in (first, second)]
    assert int(ids[1]) == int(ids[0]) + 1
    assert first.replace(f"line-{ids[0]}", "") == second.replace(f"line-{ids[1]}", "")


def test_page_cannot_be_closed_from_inside():
    page = line(alt='A "line" </script>', caption="</script>").page()
    assert page.count("</script>") == 1
    assert 'alt="A &quot;line&quot; &lt;/script&gt;"' in page


def test_page_asks_the_network_for_nothing():
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", rope_scores().page()) == []


def test_widgets_are_core_ones():
    modules = {w.get_state()["_model_module"] for w in rope_scores().controls.values()}
    assert modules == {"@jupyter-widgets/controls"}


def test_works_with_a_parent_that_has_no_bundle(monkeypatch):
    """ipywidgets 7 has no such method on its widgets."""
    monkeypatch.delattr(ipywidgets.Widget, "_repr_mimebundle_", raising=False)
    data = line()._repr_mimebundle_()
    assert {"text/html", "image/png", "text/plain"} <= set(data)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"alt": "  "}, "no alt text"),
        ({"name": "Not A Name"}, "lower-case"),
    ],
)
def test_unusable_figures_are_refused(more, match):
    with pytest.raises(ValueError, match=match):
        line(**more)


def test_two_controls_of_one_name_are_refused():
    twice = [Slider("a", "a", 0, 1, 1, 0), Choice("a", "b", ("x",), "x")]
    with pytest.raises(ValueError, match="its own name"):
        InteractiveFigure(dict, "", twice, xlabel="", ylabel="", alt="a", name="a")


def test_values_outside_a_control_are_refused():
    with pytest.raises(ValueError, match="low <= value <= high"):
        Slider("a", "a", 0, 1, 0.1, 2)
    with pytest.raises(ValueError, match="is not in"):
        Choice("a", "a", ("x", "y"), "z")


@pytest.mark.parametrize("name", EXPLORERS)
def test_an_explorer_shows_what_its_function_says(name):
    make, names, control, value = EXPLORERS[name]
    figure = make()
    assert set(figure.values) == set(names.split())
    before = figure.children[-1].value
    figure.controls[control].value = value
    assert figure.children[-1].value != before


@pytest.mark.parametrize("name", REFUSED)
def test_unknown_names_are_refused(name):
    call, says = REFUSED[name]
    with pytest.raises(ValueError, match=says):
        call()
