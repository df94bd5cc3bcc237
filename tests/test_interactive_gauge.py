"""The formula behind the explorer of chapter gates: what it keeps, and what its labels say."""

from __future__ import annotations

import math
import re

import pytest

from pjrope.interactive import gauge_curves, gauge_explorer

JET, LINE, CONE = range(3)


def values(**settings):
    return [ys for _, ys in gauge_curves(**settings).values()]


def said(which, word, **settings):
    """The number behind a word in a label."""
    label = list(gauge_curves(**settings))[which]
    return float(re.search(rf"{word} (\d+\.\d\d)", label)[1])


def test_at_equal_gates_the_sectors_are_thirds_of_their_formulas():
    jet, line, cone, bias = values(amplitude=3.0, slope=1.5)
    d, omega = 100, 2 * math.pi * 4 / 64
    assert jet[d] == pytest.approx(100 / 64 * math.cos(omega * d))
    assert line[d] == pytest.approx(-0.5 * 100 / 64)
    assert cone[d] == pytest.approx(2 / 3 * math.cos(omega * 64 * math.asinh(d / 64)))
    assert bias[d] == pytest.approx(jet[d] + line[d] + cone[d])


def test_kept_function_stays_while_gates_move():
    for before, after in zip(values(), values(jet=-3.0, line=2.5, keep="yes"), strict=True):
        assert after == pytest.approx(before, abs=1e-12)
    assert said(JET, "gate", jet=-3.0, keep="yes") == pytest.approx(math.exp(-3) / 2.05, abs=6e-3)
    assert said(JET, "amplitude", jet=-3.0, keep="yes") > 40
    assert said(JET, "=", jet=-3.0, keep="yes") == said(JET, "=") == 1.0


def test_without_the_switch_a_gate_is_part_of_the_function():
    before, after = values(), values(line=3.0)
    assert after[LINE][64] < 2 * before[LINE][64] < 0
    assert abs(after[JET][64]) < 0.2 * abs(before[JET][64])
    assert said(LINE, "slope", line=3.0) == 3.0


def test_sizes_are_about_the_mean_below_the_training_length():
    wanted = math.sqrt((64**2 - 1) / 12) / 64  # of a line that falls by 1 in L tokens
    assert said(LINE, "rms") == pytest.approx(wanted, abs=6e-3)
    assert said(LINE, "rms", slope=0.0) == 0.0


def test_another_word_for_keep_is_refused():
    with pytest.raises(ValueError, match="keep is 'maybe': no or yes"):
        gauge_curves(keep="maybe")


def test_the_figure_shows_what_the_function_says():
    figure = gauge_explorer()
    assert set(figure.values) == {"jet", "line", "amplitude", "slope", "keep"}
    before = figure.children[-1].value
    figure.controls["slope"].value = 0
    assert figure.children[-1].value != before
