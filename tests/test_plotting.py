"""The figure style: resolution, colours that stay apart, words for axes and curves."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest

from pjrope import plotting


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.1."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", plotting.PALETTE)
@pytest.mark.parametrize("ground", ["#ffffff", "#121212"])
def test_lines_are_visible_in_light_and_dark(name, ground):
    assert contrast(plotting.PALETTE[name], ground) >= 3


def test_no_two_curves_differ_by_colour_alone():
    strokes = [str(stroke) for _, stroke in plotting.line_styles()]
    assert len(set(strokes)) == len(plotting.PALETTE)


def test_style_holds_inside_the_block_only():
    before = matplotlib.rcParams["figure.dpi"]
    with plotting.use_style(plotting.SQUARE):
        fig, ax = plt.subplots()
        colours = [ax.plot([0, 1], [k, k])[0].get_color() for k in range(3)]
        assert tuple(fig.get_size_inches()) == plotting.SQUARE
        assert fig.dpi == plotting.DPI
    plt.close(fig)
    assert colours == list(plotting.PALETTE.values())[:3]
    assert matplotlib.rcParams["figure.dpi"] == before


def test_axes_name_their_units():
    fig, ax = plt.subplots()
    plotting.label_axes(ax, x=("lag", "tokens"), y=("score", None))
    plt.close(fig)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lag (tokens)", "score (no unit)")


def test_axis_without_a_name_is_refused():
    with pytest.raises(ValueError, match="no name"):
        plotting.axis_label(" ", "tokens")


def test_alt_text_says_where_the_curve_goes():
    words = plotting.alt_text(
        {"bias": ([0, 1, 2], [0.0, -3.0, 1.5])}, "lag (tokens)", "bias (nats)"
    )
    assert words == (
        "Line figure: bias (nats) against lag (tokens). bias starts at 0 and ends at 1.5, "
        "lowest -3 at 1, highest 1.5 at 2."
    )


@pytest.mark.parametrize("curves", [{}, {"empty": ([], [])}])
def test_alt_text_of_nothing_is_refused(curves):
    with pytest.raises(ValueError, match="to describe"):
        plotting.alt_text(curves, "lag (tokens)", "bias (nats)")


def test_curves_and_marks_are_drawn_with_their_labels():
    fig, ax = plt.subplots()
    curves = {f"curve {k}": ([0, 1], [k, k + 1]) for k in range(7)}  # more than the palette holds
    plotting.draw_curves(ax, curves, xlabel="x", ylabel="y", ylim=(-1, 9), marks={"L": 0.5})
    plt.close(fig)
    assert [line.get_label() for line in ax.get_lines()] == [*curves, "L"]
    assert list(ax.get_lines()[6].get_ydata()) == [6, 7]
    assert ax.get_ylim() == (-1, 9)
