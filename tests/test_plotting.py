"""The figure style: resolution, colours that stay apart, words for axes and curves."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest
import torch

from pjrope import plotting
from pjrope.diagnostics import effective_mass
from pjrope.kernels import ALiBi, FourierJet, PJBias, PJInit, RoPE


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
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lag (tokens)", "score")


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


@pytest.mark.parametrize("place, right, upper", [("upper right", True, True), ("lower left", 0, 0)])
def test_the_legend_goes_where_it_is_sent(place, right, upper):
    fig, ax = plt.subplots()
    plotting.draw_curves(ax, {"f": ([0, 1], [0, 1])}, xlabel="x", ylabel="y", legend=place)
    fig.canvas.draw()
    box = ax.get_legend().get_window_extent().transformed(ax.transAxes.inverted())
    assert (box.x0 > 0.5) == bool(right) and (box.y0 > 0.5) == bool(upper)
    plt.close(fig)


@pytest.fixture
def ax():
    fig, ax = plt.subplots()
    yield ax
    plt.close(fig)


def drawn(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_lag_response_draws_sectors_and_their_sum(ax):
    kernel = PJBias(2, 16, init=PJInit(zeta_scale=1.0))
    lags = torch.arange(40)
    words = plotting.lag_response(ax, RoPE(8) + kernel, lags, head=1)
    lines = drawn(ax)
    assert set(lines) == {"sum", "Fourier jets", "affine", "light cone", "L = 16"}
    assert list(lines["sum"].get_ydata()) == kernel.lag_bias(lags)[1].tolist()
    parts = [lines[n].get_ydata() for n in ("Fourier jets", "affine", "light cone")]
    assert [sum(p) for p in zip(*parts, strict=True)] == pytest.approx(
        list(lines["sum"].get_ydata()), abs=1e-6
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lag d (tokens)", "bias (nats)")
    assert words.startswith("Line figure: bias (nats) against lag d (tokens). sum starts at")


def test_lag_response_of_one_sector_has_no_sum_and_marks_only_lengths_in_view(ax):
    plotting.lag_response(ax, FourierJet(1, 64), torch.arange(64))
    assert set(drawn(ax)) == {"Fourier jets"}


def test_lag_response_refuses_what_it_cannot_draw(ax):
    with pytest.raises(ValueError, match="head is 2, this kernel has heads 0 to 1"):
        plotting.lag_response(ax, ALiBi(2), torch.arange(4), head=2)
    with pytest.raises(ValueError, match="RoPE has no sector"):
        plotting.lag_response(ax, RoPE(8), torch.arange(4))
    with pytest.raises(ValueError, match=r"lags have shape \(0,\): one or more"):
        plotting.lag_response(ax, ALiBi(2), torch.arange(0))


def test_sectors_differ_by_more_than_colour_and_look_as_in_figures_with_sliders(ax):
    plotting.lag_response(ax, PJBias(1, 16), torch.arange(12))
    names = ("Fourier jets", "affine", "light cone", "sum")
    lines = [drawn(ax)[name] for name in names]
    assert len({line.get_color() for line in lines}) == 4
    assert len({str(line._dash_pattern) for line in lines}) == 4
    other = plt.figure().add_subplot()
    curves = {name: ([0, 1], [0, 1]) for name in names}
    plotting.draw_curves(other, curves, xlabel="x", ylabel="y")
    assert [x.get_color() for x in other.get_lines()] == [line.get_color() for line in lines]
    plt.close(other.figure)


def test_gates_over_training(ax):
    gates = {"fj": [[0.5, 0.2, 0.1], [0.5, 0.4, 0.3]], "lc": [0.5, 0.7, 0.8]}
    words = plotting.gates_over_training(ax, [0, 10, 20], gates)
    lines = drawn(ax)
    assert list(lines["Fourier jets"].get_ydata()) == pytest.approx([0.5, 0.3, 0.2])
    assert set(lines["equal gates"].get_ydata()) == {0.5}
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(0.1) and band[:, 1].max() == pytest.approx(0.5)
    assert "light cone starts at 0.5 and ends at 0.8" in words
    assert ax.get_xlabel() == "training (steps)"


def test_equal_gates_are_those_of_all_sectors(ax):
    two_of_three = {"fj": [0.4, 0.2], "lc": [0.3, 0.6]}
    plotting.gates_over_training(ax, [0, 1], two_of_three)
    assert "equal gates" not in drawn(ax), "how many there are cannot be known"
    plotting.gates_over_training(ax, [0, 1], two_of_three, sectors=3)
    assert set(drawn(ax)["equal gates"].get_ydata()) == {1 / 3}


def test_figures_take_tensors_that_train(ax):
    kernel = PJBias(2, 16)
    words = plotting.order_spectrum(ax, {"fj": effective_mass(kernel)["fj"]})
    mean = effective_mass(kernel)["fj"].mean(0).tolist()
    assert f"order 0 {mean[0]:.3g}, order 1 {mean[1]:.3g}" in words
    log = torch.nn.Parameter(torch.tensor([0.3, 0.4])).bfloat16()
    plotting.gates_over_training(ax, [0, 1], {"fj": log, "lc": [1 - log[0], 1 - log[1]]})
    assert list(drawn(ax)["light cone"].get_ydata()) == pytest.approx([0.7, 0.6], abs=1e-2)


def test_order_spectrum(ax):
    words = plotting.order_spectrum(
        ax, {"trained": [[0.1, 0.9], [0.3, 0.7]], "start": [0.5, -0.5]}, y=("energy", None)
    )
    heights = [bar.get_height() for bars in ax.containers for bar in bars]
    assert heights == pytest.approx([0.2, 0.8, 0.5, -0.5])
    (spread,) = ax.collections  # a single run has none
    ends = [segment[:, 1].tolist() for segment in spread.get_segments()]
    assert ends == [pytest.approx([0.1, 0.3]), pytest.approx([0.7, 0.9])]
    hatches = [bars[0].get_hatch() for bars in ax.containers]
    assert len(set(hatches)) == 2
    assert words == (
        "Bar figure: energy by order of the jet. trained: order 0 0.2, order 1 0.8. "
        "start: order 0 0.5, order 1 -0.5."
    )


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda ax: plotting.gates_over_training(ax, [0, 1], {}), "no gates to draw"),
        (lambda ax: plotting.gates_over_training(ax, [0, 1], {"xy": [0, 1]}), "sector is 'xy'"),
        (
            lambda ax: plotting.gates_over_training(ax, [0, 1], {"fj": [0]}),
            r"\(2,\) or \(seeds, 2\)",
        ),
        (
            lambda ax: plotting.gates_over_training(ax, [0], {"fj": [1], "lc": [0]}, sectors=1),
            "sectors is 1, 2 gates are passed",
        ),
        (lambda ax: plotting.order_spectrum(ax, {}), "0 spectra: 1 to 5"),
        (lambda ax: plotting.order_spectrum(ax, {"a": [0, 1], "b": [0]}), r"spectrum 'b' have"),
    ],
)
def test_figures_of_sectors_refuse_what_does_not_fit(ax, draw, says):
    with pytest.raises(ValueError, match=says):
        draw(ax)
