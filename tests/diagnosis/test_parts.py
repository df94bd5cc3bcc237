"""Pieces of a diagnosis against what they should be by other means."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from pjrope.diagnosis import Shape, arms, source_of
from pjrope.diagnosis.arms import Cell, build, starting_frequencies
from pjrope.diagnosis.plan import split, training_config
from pjrope.diagnosis.planted import Planted
from pjrope.diagnostics import kernels_by_layer
from pjrope.kernels.alibi import alibi_slopes

TINY = Shape(length=16, width=16, layers=1, heads=4, max_order=1, batch=4, scored=16, segments=16)


def test_the_last_tenth_is_held_out_and_nothing_of_it_is_trained_on():
    source = source_of(torch.arange(20_000) % 7, name="x")
    data = split(source, TINY)
    assert len(data.train) == 18_000
    assert torch.equal(data.windows.tokens, source.tokens[18_000:])
    first, _ = data.windows.windows(max(TINY.lengths))  # contexts come from the last tenth too
    assert torch.equal(first[0], source.tokens[18_000:][: first.shape[1]])


@pytest.mark.parametrize("arm", ["affine", "union"])
def test_learned_slopes_start_where_alibis_stand(arm):
    start = "uniform" if arm == "union" else ""
    omega = {"fj": torch.linspace(0.4, 1.6, 4).double(), "lc": torch.linspace(0.5, 2.0, 4).double()}
    model = build(Cell(arm, start, 0), TINY, 7, omega)
    for _, kernel in kernels_by_layer(model):
        slopes = torch.nn.functional.softplus(kernel.raw_affine_slope.detach().double())
        want = torch.as_tensor(alibi_slopes(4)).double() * TINY.length
        assert_close(slopes, want, rtol=1e-5, atol=0)
        if arm == "union":
            assert_close(kernel.omega.detach().double(), omega["fj"], rtol=1e-6, atol=0)
            assert_close(kernel.lc_omega.detach().double(), omega["lc"], rtol=1e-6, atol=0)


def test_a_strong_recency_does_not_hide_a_period(monkeypatch):
    lags = torch.arange(1, 65).double()
    wave = 0.005 * torch.cos(2 * math.pi * 8 * lags / 64)
    monkeypatch.setattr(arms, "match_rates", lambda tokens, length: 0.1 + 0.6 / lags + wave)
    found = starting_frequencies(torch.zeros(99), Shape(length=64, heads=1))["fj"]
    assert abs(float(found) * 64 / (2 * math.pi) - 8) < 0.3


def test_a_planted_light_cone_runs_on_its_own_clock():
    length, d = 64, torch.arange(64).double()
    beta = d / (d**2 + length**2).sqrt()
    phase = length * torch.asinh(d / length)
    for order in (0, 1, 2):
        found = Planted("lc", order, 9.0, turns=11.7).bias(length)
        want = 9.0 * beta**order * torch.cos(2 * math.pi * 11.7 / length * phase)
        assert_close(found, want, rtol=1e-9, atol=1e-9)


def test_the_note_on_rare_ids_names_their_share():
    rare = 3000 - 2047  # ids, each once
    assert f"{rare / 3000:.1%} of the tokens" in source_of(torch.arange(3000), name="many").notes[0]


def test_short_trainings_are_watched_as_often_as_long_ones():
    for steps in (60, 300, 4000):
        config = training_config(TINY, steps)
        assert 7 <= -(-steps // config.log_every) <= 8
        assert config.warmup == steps // 20
