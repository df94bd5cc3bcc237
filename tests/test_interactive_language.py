"""The formula behind the explorer of chapter phase-language, against the experiment's yardstick."""

from __future__ import annotations

import pytest

from pjrope.experiments.sequences.linear_readers import SPANS, readout_ceiling
from pjrope.interactive import SHEARS, linear_reader, reader_accuracy, reader_curves
from pjrope.positions import geometric

OMEGA = float(geometric(32)[3])
TARGETS = {1: "mixed_raw", 2: "high_jet_r2", 3: "high_jet_r3"}


@pytest.mark.parametrize("power", TARGETS)
@pytest.mark.parametrize("name", SPANS)
def test_it_is_the_yardstick(name, power):
    order, shear, c = SPANS[name]
    for times in (1, 8):
        found = reader_accuracy(128 * times - 1, OMEGA, power, order, shear, c, 128)
        wanted = readout_ceiling(TARGETS[power], name, times, 128, OMEGA)
        assert found == pytest.approx(wanted, abs=1e-7)


def test_an_exact_block_of_order_two_reads_the_first_jet_at_every_length_and_no_other():
    phase, block = reader_curves(3, 1, 2).values()
    assert block[1] == pytest.approx([1.0] * 29, abs=1e-6)
    assert phase[1] == pytest.approx([5 / 6] * 29, abs=2e-3)
    assert max(reader_curves(3, 2, 2)["the block"][1]) < 0.96


def test_damping_costs_more_the_longer_the_exam():
    curve = reader_curves(3, 1, 2, damping=1.0)["the block"][1]
    assert curve == sorted(curve, reverse=True) and curve[0] > 0.9 and curve[-1] < 0.7


def test_the_figure_shows_what_the_function_says():
    figure = linear_reader()
    assert set(figure.values) == {"index", "power", "order", "shear", "damping"}
    before = figure.children[-1].value
    figure.controls["power"].value = 3
    assert figure.children[-1].value != before


def test_unknown_shear_is_refused():
    with pytest.raises(ValueError, match=", ".join(SHEARS)):
        reader_accuracy(10, OMEGA, 1, 2, "squared", 0.0, 8)
