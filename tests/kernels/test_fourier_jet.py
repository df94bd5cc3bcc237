"""Fourier jets: a frequency with polynomial amplitudes, damped."""

import pytest
import torch

from pjrope.kernels import FourierJet, PJBias
from tests.golden import golden

LAGS = golden("lag_functions")


def jet(order, part):
    """The cosine or sine of one order alone, in fp64."""
    omega = torch.tensor([LAGS["omega"]], dtype=torch.float64)
    damping = torch.tensor(LAGS["damping_c"], dtype=torch.float64)
    kernel = FourierJet(1, LAGS["L"], max_order=3, omega=omega, damping=LAGS["damping_c"]).double()
    with torch.no_grad():
        kernel.omega.copy_(omega)
        kernel.raw_damping.copy_(torch.log(torch.expm1(damping)))
        kernel.zeta_re.zero_()[0, order] = 1.0 if part == "cos" else 0.0
        kernel.zeta_im.zero_()[0, order] = 0.0 if part == "cos" else -1.0  # a cos - b sin
    return kernel


@pytest.mark.parametrize("part", ["cos", "sin"])
@pytest.mark.parametrize("order", range(4))
def test_lag_functions_golden(order, part):
    lags = torch.tensor([row["lag"] for row in LAGS["rows"]])
    want = torch.tensor(
        [row["fourier_jet"][order][part] for row in LAGS["rows"]], dtype=torch.float64
    )
    kernel = jet(order, part)
    torch.testing.assert_close(kernel.lag_bias(lags)[0], want, rtol=1e-12, atol=1e-12)
    # In fp32 the parameters are rounded: omega by 6e-8 of itself, which a far phase multiplies.
    error = (kernel.float().lag_bias(lags)[0].double() - want).abs()
    size = max(1.0, float(want.abs().max()))
    assert bool((error <= 2e-7 * (1 + LAGS["omega"] * lags) * size).all())


def test_amplitudes_come_from_the_seed_and_reset_draws_anew():
    one, same, other = (FourierJet(2, 64, seed=s) for s in (1, 1, 2))
    assert torch.equal(one.zeta_re, same.zeta_re)
    assert not torch.equal(one.zeta_re, other.zeta_re)
    state = torch.get_rng_state()
    PJBias(2, 64)
    assert torch.equal(torch.get_rng_state(), state), "building a kernel disturbs the global stream"
    one.reset_parameters(torch.Generator().manual_seed(2))
    assert torch.equal(one.zeta_re, other.zeta_re)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FourierJet(2, 16, max_order=-1), "max_order is -1"),
        (lambda: FourierJet(2, 16, damping=-0.1), "damping"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ["zeta_scale", "omega_cycles"])
def test_initial_values_are_finite_numbers(name):
    for wrong in (float("nan"), float("inf"), "much"):
        with pytest.raises(ValueError, match=f"{name} is .*, one finite number is needed"):
            FourierJet(4, 512, **{name: wrong})
