"""The formula behind the explorer of chapter alibi, against the kernel it stands for."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope import attend
from pjrope.interactive import attention_window, window_curves
from pjrope.kernels import Affine

EQUAL, FAR, WEIGHT = range(3)


def curve(which, **values):
    lags, ys = list(window_curves(**values).values())[which]
    assert lags == list(range(len(ys)))
    return ys


@torch.no_grad()
def weights_of_the_kernel(slope, match, keys):
    """Attention by lag, read off with values that name their key."""
    q = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    k = match * (torch.arange(keys - 1, -1, -1) >= 64).double()[None, None, :, None]
    v = torch.eye(keys, dtype=torch.float64)[None, None]
    return attend(q, k, v, Affine(1, 1, slope=slope), scale=1.0).flatten().flip(0)


def test_shares_and_weights_are_those_of_attention():
    wanted = weights_of_the_kernel(0.125, 6.0, 96)
    assert curve(FAR, slope=0.125, match=6.0, keys=96) == pytest.approx(
        wanted.cumsum(0).tolist(), abs=1e-6
    )
    assert curve(WEIGHT, slope=0.125, match=6.0, keys=96) == pytest.approx(
        (wanted / wanted.max()).tolist(), abs=1e-6
    )


@pytest.mark.parametrize("keys", [128, 1024])
def test_a_slope_has_a_window_that_does_not_grow(keys):
    share = curve(EQUAL, slope=0.125, keys=keys)
    assert share[63] == pytest.approx(1 - math.exp(-8), abs=1e-6)


def test_without_a_slope_the_share_is_the_count():
    assert curve(EQUAL, slope=0.0, keys=256)[63] == pytest.approx(0.25)


def test_content_moves_the_share_no_further_than_its_odds():
    far = 1 - curve(FAR, slope=0.0625, match=5.0, keys=512)[63]
    near = math.expm1(0.0625 * 64)
    assert 0.5 < far <= 1 / (1 + math.exp(-5) * near) + 1e-12


def test_the_figure_shows_what_the_function_says():
    figure = attention_window()
    assert set(figure.values) == {"slope", "match", "keys"}
    before = figure.children[-1].value
    figure.controls["match"].value = 0
    assert figure.children[-1].value != before
