"""The formula behind the explorer of chapter lightcone, against the codes and the kernel's phase."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope.experiments.codes.lag_codes import amplitudes
from pjrope.experiments.codes.lag_codes import path as phase_path
from pjrope.interactive import lightcone_curves, lightcone_explorer

NAMES = {"raw": "raw", "scaled": "scaled", "clipped": "clipped", "log": "log", "light cone": "lc"}
ALL = "all amplitudes"


def values(name, **setting):
    """Lags and values of one curve, no longer as powers of ten."""
    (found,) = [c for label, c in lightcone_curves(**setting).items() if label.startswith(name)]
    return [10 ** torch.tensor(side, dtype=torch.float64) for side in found]


@pytest.mark.parametrize("shown, name", NAMES.items())
@pytest.mark.parametrize("order", [0, 2, 3])
def test_amplitudes_are_those_of_the_codes(shown, name, order):
    lags, sizes = values(shown, length=192, order=order, reach=1e4, show=ALL)
    wanted = amplitudes(name, lags, 192, order)[:, order]
    torch.testing.assert_close(sizes, wanted, rtol=1e-9, atol=0)
    assert lags[-1] == pytest.approx(1e4)


def test_phases_are_those_of_the_codes():
    for shown, name in (("linear", "raw"), ("light-cone", "lc")):
        lags, tokens = values(shown, length=64, reach=1e5, show="phases")
        torch.testing.assert_close(tokens, phase_path(name, lags, 64), rtol=1e-9, atol=0)


def test_below_the_training_length_the_cures_are_one_curve():
    curves = lightcone_curves(length=4096, order=1, reach=100)
    assert len(curves) == 4 and not any(label.startswith("raw") for label in curves)
    ends = [ys[-1] for _, ys in curves.values()]
    assert max(ends) - min(ends) < 0.01


def test_a_power_is_a_straight_line_of_that_slope():
    lags, sizes = values("raw", order=3, show=ALL)
    steps = sizes.log10().diff() / lags.log10().diff()
    torch.testing.assert_close(steps, torch.full_like(steps, 3.0), rtol=0, atol=1e-9)


def test_labels_say_where_a_curve_ends_and_small_values_are_left_out():
    labels = list(lightcone_curves(length=1024, order=3, reach=32768, show=ALL))
    power = math.log10(32768**3 / 6)
    assert labels[0] == f"raw: 10^{power:.1f} at the end"
    assert labels[-1] == "light cone: 10^0.0 at the end"
    lags, _ = values("scaled", length=64, order=3, reach=1e6)
    assert lags[-1] < 1e5
    assert any(label.startswith("scaled: 10^-") for label in lightcone_curves(64, 3, 1e6))


def test_another_view_is_refused():
    with pytest.raises(ValueError, match="show is 'both': choose from"):
        lightcone_curves(show="both")


def test_the_figure_shows_what_the_function_says():
    figure = lightcone_explorer()
    assert set(figure.values) == {"length", "order", "reach", "show"}
    before = figure.children[-1].value
    figure.controls["order"].value = 1
    assert figure.children[-1].value != before
