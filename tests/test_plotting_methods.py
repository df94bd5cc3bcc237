"""Looks of methods, and the figure of a value by length."""

from __future__ import annotations

import math
from itertools import combinations

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgb

from pjrope import plotting, record
from pjrope.experiments import load
from pjrope.experiments.analysis.statistics import summary

TRAINED_BY_LENGTH = (
    "byte_lm/baselines",
    "byte_lm/extrapolation",
    "byte_lm/lightcone",
    "byte_lm/long",
)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def rows(*values, method="rope", length=64):
    return [
        {"method": method, "seed": n, "length": length, "loss": v} for n, v in enumerate(values)
    ]


def luminance(color):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_no_two_methods_look_alike_and_all_stand_out_on_white():
    for a, b in combinations(plotting.METHODS.values(), 2):
        assert (a.color, a.marker) != (b.color, b.marker), (a, b)
        assert a.label != b.label
    assert all(1.05 / (luminance(color) + 0.05) >= 3 for color in plotting.FAMILIES.values())
    assert len(set(plotting.FAMILIES.values())) == len(plotting.FAMILIES)


@pytest.mark.parametrize("name", [*TRAINED_BY_LENGTH, "phase_lm", "signal_regression"])
def test_every_method_read_at_several_lengths_has_a_look(name):
    assert record.recorded()
    assert {row["method"] for row in load(name, "book").rows} <= set(plotting.METHODS)


def test_forms_differ_among_themselves_and_stand_out_on_white():
    for a, b in combinations(plotting.FORMS.values(), 2):
        assert (a.color, a.marker, a.linestyle) != (b.color, b.marker, b.linestyle), (a, b)
        assert a.label != b.label
    assert all(1.05 / (luminance(f.color) + 0.05) >= 3 for f in plotting.FORMS.values())
    assert not plotting.FORMS.keys() & plotting.METHODS.keys()


def test_a_look_is_found_in_either_table_and_refused_elsewhere():
    assert plotting.look_of("rope") is plotting.METHODS["rope"]
    assert plotting.look_of("yarn").drawn == {
        "label": "YaRN", "color": "#b3123c", "marker": "D", "linestyle": "-",
    }  # fmt: skip
    with pytest.raises(ValueError, match="'rope_of_tomorrow' has no look"):
        plotting.look_of("rope_of_tomorrow")


def test_sectors_and_methods_share_their_colours():
    """A jet, a line and a light cone look the same whether a figure is by lag or by length."""
    of_sectors = [color for color, _ in plotting.line_styles()]
    looks = [plotting.method_look(name).color for name in ("fj", "affine", "lc", "full")]
    assert looks == of_sectors[:4]


def test_means_and_intervals_are_those_of_the_summaries(ax):
    result = load("byte_lm/baselines", "book").where(kind="loss")
    result = result if result.rows else load("byte_lm/baselines", "book")
    drawn = plotting.by_length(ax, result, "loss", ["rope", "alibi"], trained=256)
    lengths, means = drawn["rope"]
    assert lengths[0] == 256 and len(lengths) > 3
    containers = {c.get_label(): c for c in ax.containers}
    for method, label in (("rope", "RoPE"), ("alibi", "ALiBi")):
        _, _, (bars,) = containers[label].lines
        for n, length in enumerate(lengths):
            found = summary(r["loss"] for r in result.where(method=method, length=length).rows)
            assert drawn[method][1][n] == pytest.approx(found.mean, rel=1e-12)
            low, high = (y for _, y in bars.get_segments()[n])
            assert (low, high) == pytest.approx((found.low, found.high), rel=1e-9)
    assert means[-1] > means[0]
    assert [t.get_text() for t in ax.get_xticklabels()][:2] == ["L", "2 L"]


def test_points_stand_beside_each_other_and_never_reach_the_next_tick(ax):
    found = [
        r for m in ("rope", "alibi", "none") for n in (64, 128) for r in rows(1, method=m, length=n)
    ]
    plotting.by_length(ax, found, "loss", ["rope", "alibi", "none"])
    at = sorted(float(x) for c in ax.containers for x in c.lines[0].get_xdata())
    assert len(set(at)) == 6 and at[2] / at[0] < math.sqrt(math.sqrt(2))
    assert [t.get_text() for t in ax.get_xticklabels()] == ["64", "128"]


def test_one_seed_has_no_interval_and_a_loss_that_is_not_finite_leaves_a_gap(ax):
    drawn = plotting.by_length(ax, rows(2.0) + rows(1.0, None, length=128), "loss", ["rope"])
    assert drawn["rope"][0] == [64, 128]
    assert drawn["rope"][1][0] == 2.0 and math.isnan(drawn["rope"][1][1])
    low, high = ax.containers[0].lines[2][0].get_segments()[0]
    assert low[1] == high[1] == 2.0


@pytest.mark.parametrize(
    ("found", "methods", "says"),
    [
        (rows(1), [], "no method to draw"),
        (rows(1), ["rope_of_tomorrow"], "has no look: add it to METHODS"),
        (rows(1), ["alibi"], "no row of 'alibi' holds 'loss' and 'length'"),
        (rows(1) * 2, ["rope"], "rope has several rows of seed 0 at length 64"),
    ],
)
def test_what_cannot_be_drawn_is_named(ax, found, methods, says):
    with pytest.raises(ValueError, match=says):
        plotting.by_length(ax, found, "loss", methods)
