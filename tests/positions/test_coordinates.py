import math

import pytest
import torch

from pjrope.positions import bounded_shear, coordinates, linear, phase, rapidity, velocity
from tests.golden import golden

GOLDEN = golden("lag_functions")
NAMES = {
    "linear": linear,
    "tau": bounded_shear,
    "rapidity_eta": rapidity,
    "phase_phi": phase,
    "velocity_beta": velocity,
}


def test_every_column_of_the_golden_rows_is_compared_with():
    """The trigonometric functions of each order are in tests/kernels/test_biases.py."""
    for row in GOLDEN["rows"]:
        assert set(row) == {"lag", "fourier_jet", "light_cone", *NAMES}
    assert len(GOLDEN["rows"]) == 11 and GOLDEN["rows"][-1]["lag"] == 1 << 20


@pytest.mark.parametrize("name", NAMES)
def test_golden(name):
    lags = torch.tensor([row["lag"] for row in GOLDEN["rows"]])
    want = torch.tensor([row[name] for row in GOLDEN["rows"]], dtype=torch.float64)
    got = NAMES[name](lags, GOLDEN["L"])
    assert got.dtype == torch.float64
    torch.testing.assert_close(got, want, rtol=1e-12, atol=0)
    # fp32 lags: the bound is a few roundings of the result.
    low = NAMES[name](lags.float(), GOLDEN["L"])
    assert low.dtype == torch.float32
    torch.testing.assert_close(low.double(), want, rtol=4e-7, atol=1e-7)


@pytest.mark.parametrize("turn", [torch.cos, torch.sin])
def test_golden_turns_along_a_light_cone(turn):
    """Order 0 of the light cone is its phase alone: cos and sin of omega phi."""
    name = turn.__name__
    lags = torch.tensor([row["lag"] for row in GOLDEN["rows"]])
    want = torch.tensor([row["light_cone"][0][name] for row in GOLDEN["rows"]], dtype=torch.float64)
    got = turn(GOLDEN["omega"] * phase(lags, GOLDEN["L"]))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_light_cone_values_by_hand():
    d = torch.tensor([1, 1024, 4096, 131072])
    assert velocity(d, 1024).tolist() == pytest.approx(
        [0.000976562, 0.7071067812, 0.9701425001, 0.9999694838], abs=1e-9
    )
    assert phase(d, 1024).tolist() == pytest.approx(
        [0.999999841, 902.526553, 2144.985648, 5678.277328], abs=1e-6
    )


@pytest.mark.parametrize("f", [linear, bounded_shear, rapidity, phase, velocity])
def test_far_and_narrow_lags_stay_finite_and_odd(f):
    far = torch.tensor([2**31, 2**40])
    assert bool(torch.isfinite(f(far, 512)).all())
    torch.testing.assert_close(f(-far, 512), -f(far, 512))
    half = torch.tensor([300.0, 60000.0], dtype=torch.float16)  # d^2 would overflow
    assert f(half, 512).dtype == torch.float32
    assert bool(torch.isfinite(f(half, 512)).all())


def test_identities():
    d = torch.arange(0, 100_000, 37)
    torch.testing.assert_close(velocity(d, 64), torch.tanh(rapidity(d, 64)))
    assert float(velocity(torch.tensor(10**9), 512)) < 1.0
    step = phase(torch.tensor([32768]), 1024) - phase(torch.tensor([32767]), 1024)
    assert float(step) == pytest.approx(1024 / math.hypot(32767.5, 1024), rel=1e-6)


def test_lengths_and_lags_that_are_no_tokens_are_refused():
    for f in (linear, bounded_shear, rapidity, coordinates.phase, velocity):
        for length in (0, -1.0, math.inf, math.nan):
            with pytest.raises(ValueError, match=f"length is {length}"):
                f(torch.tensor([1]), length)
        with pytest.raises(ValueError, match=r"lags have dtype torch\.complex64"):
            f(torch.tensor([1 + 2j]), 512)
