"""Lag codes: they are the kernels' own functions, and rounding and buckets do what they say."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from pjrope.experiments.codes.lag_codes import (
    CYCLES,
    PHASES,
    VARIANTS,
    amplitudes,
    bucket,
    code,
    even_lags,
    path,
)
from pjrope.experiments.codes.rounding import quantize
from pjrope.kernels import FourierJet, LightCone

LENGTH = 64
LAGS = torch.arange(1, 40 * LENGTH)


def weighted(kernel, name):
    """The kernel's bias from a code, with the kernel's own frequency and amplitudes."""
    zeta = torch.stack([kernel.zeta_re[0], -kernel.zeta_im[0]], -1).flatten().detach().double()
    cycles = float(kernel.omega[0].detach()) * LENGTH / (2 * math.pi)
    return code(name, LAGS, LENGTH, [cycles]) @ zeta


@pytest.mark.parametrize(
    ("name", "parts"), [("lc", "both"), ("lc_phase_only", "phase"), ("lc_amp_only", "amplitude")]
)
def test_light_cone_codes_span_the_light_cone_kernel(name, parts):
    kernel = LightCone(1, LENGTH, max_order=3, omega_cycles=3.3, parts=parts).double()
    bias = weighted(kernel, name)
    torch.testing.assert_close(bias, kernel.lag_bias(LAGS)[0].detach(), rtol=1e-5, atol=1e-6)


def test_scaled_code_spans_the_damped_fourier_jet():
    kernel = FourierJet(1, LENGTH, max_order=3, omega_cycles=3.3, damping=0.1).double()
    bias = weighted(kernel, "scaled")
    torch.testing.assert_close(bias, kernel.lag_bias(LAGS)[0].detach(), rtol=1e-5, atol=1e-5)


def test_a_wrong_scale_is_the_light_cone_phase_over_L():
    torch.testing.assert_close(
        path("lc", LAGS, LENGTH) / LENGTH, path("lc_wrong_scale", LAGS, LENGTH)
    )
    torch.testing.assert_close(
        amplitudes("lc", LAGS, LENGTH), amplitudes("lc_wrong_scale", LAGS, LENGTH)
    )


@pytest.mark.parametrize("name", PHASES)
def test_phase_only_codes_have_one_norm(name):
    rows = code(name, LAGS, LENGTH, CYCLES["fair"])
    assert rows.shape == (len(LAGS), 6)
    torch.testing.assert_close(rows.norm(dim=1), torch.full((len(LAGS),), math.sqrt(3)).double())


def test_the_code_is_ordered_by_frequency_order_and_cosine():
    d = torch.tensor([100.0], dtype=torch.float64)
    row = code("scaled", d, LENGTH, [1.0, 2.0])[0]
    height = (100 / LENGTH) ** 2 / 2 * math.exp(-0.1 * 100 / LENGTH)
    turn = 2 * math.pi * 2 / LENGTH * 100  # of the second frequency
    assert row[8 + 4].item() == pytest.approx(height * math.cos(turn))
    assert row[8 + 5].item() == pytest.approx(height * math.sin(turn))


@pytest.mark.parametrize("name", [*VARIANTS, *PHASES])
def test_integer_lags_are_computed_in_fp64_and_fp32_stays_fp32(name):
    assert code(name, LAGS, LENGTH, [1.0]).dtype == torch.float64
    assert code(name, LAGS.float(), LENGTH, [1.0]).dtype == torch.float32


def test_an_unknown_code_is_named():
    with pytest.raises(ValueError, match=r"'lcc'.*lc_wrong_scale"):
        code("lcc", LAGS, LENGTH, [1.0])


@pytest.mark.parametrize("name", [*VARIANTS, *PHASES])
def test_a_lag_below_0_is_refused(name):
    with pytest.raises(ValueError, match=r"a lag is -3"):
        code(name, torch.tensor([1, -3]), LENGTH, [1.0])


def test_what_no_rounding_and_no_bucket_can_serve_is_said():
    with pytest.raises(ValueError, match=r"bits is 1: at least 2"):
        quantize(torch.ones(3), 1)
    with pytest.raises(ValueError, match=r"bits is -4"):
        quantize(torch.ones(3), -4)
    with pytest.raises(ValueError, match=r"no bucket 'x2'; choose from: train, x1_4"):
        bucket("x2", 1024)
    with pytest.raises(ValueError, match=r"count is 1: at least 2"):
        even_lags("train", 1024, 1, 0)
    assert even_lags("x1_4", 1024, 2, 0).tolist() == [1024, 4095]


@pytest.mark.parametrize(("dim", "shared"), [(None, 1), (0, 5), (1, 40)])
def test_rounding_uses_one_step_for_what_shares_it(dim, shared):
    values = torch.randn(40, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rounded = quantize(values, 4, dim)
    peak = values.abs().max() if dim is None else values.abs().amax(dim, keepdim=True)
    steps = rounded / (peak / 7)
    torch.testing.assert_close(steps, steps.round())
    assert steps.abs().max() <= 7 + 1e-9
    assert ((rounded - values).abs() <= peak / 14 + 1e-12).all()
    assert (steps.round().abs() == 7).sum() >= shared
    assert torch.equal(quantize(values, 0, dim), values)


def test_buckets_join_without_overlap():
    ends = [bucket(name, 1024) for name in ("train", "x1_4", "x4_16", "x16_32")]
    assert ends[0] == (1, 1023) and ends[-1][1] == 32767
    assert all(low == high + 1 for (_, high), (low, _) in itertools.pairwise(ends))


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_query_lags_stay_in_their_bucket_and_move_with_the_seed(seed):
    lags = even_lags("x16_32", 1024, 128, seed)
    assert lags.min() >= 16384 and lags.max() <= 32767 and len(lags.unique()) == 128
    first = even_lags("x16_32", 1024, 128, 0)
    assert (first[0], first[-1]) == (16384, 32767)
    assert torch.equal(lags, first) == (seed == 0)
