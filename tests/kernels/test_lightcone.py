"""Light-cone jets: phases in rapidity, amplitudes in velocity."""

import pytest
import torch

from pjrope.kernels import LightCone
from tests.golden import golden

LAGS = golden("lag_functions")


def jet(order, part):
    """The cosine or sine of one order alone, in fp64."""
    omega = torch.tensor([LAGS["omega"]], dtype=torch.float64)
    kernel = LightCone(1, LAGS["L"], max_order=3, omega=omega).double()
    with torch.no_grad():
        kernel.omega.copy_(omega)
        kernel.zeta_re.zero_()[0, order] = 1.0 if part == "cos" else 0.0
        kernel.zeta_im.zero_()[0, order] = 0.0 if part == "cos" else -1.0  # a cos - b sin
    return kernel


@pytest.mark.parametrize("part", ["cos", "sin"])
@pytest.mark.parametrize("order", range(4))
def test_lag_functions_golden(order, part):
    lags = torch.tensor([row["lag"] for row in LAGS["rows"]])
    want = torch.tensor(
        [row["light_cone"][order][part] for row in LAGS["rows"]], dtype=torch.float64
    )
    kernel = jet(order, part)
    torch.testing.assert_close(kernel.lag_bias(lags)[0], want, rtol=1e-12, atol=1e-12)
    # In fp32 the parameters are rounded: omega by 6e-8 of itself, which a far phase multiplies.
    error = (kernel.float().lag_bias(lags)[0].double() - want).abs()
    size = max(1.0, float(want.abs().max()))
    assert bool((error <= 2e-7 * (1 + 200) * size).all())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LightCone(2, 16, parts="half"), "'half'"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ["zeta_scale", "omega_cycles"])
def test_initial_values_are_finite_numbers(name):
    for wrong in (float("nan"), float("inf"), "much"):
        with pytest.raises(ValueError, match=f"{name} is .*, one finite number is needed"):
            LightCone(4, 512, **{name: wrong})
