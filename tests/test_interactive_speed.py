"""The formula behind the explorer of chapter speed, against the fold it stands for."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope.attention.backends.fold import TOLERANCE, error_bound
from pjrope.interactive import fold_error, fold_error_curves, fold_errors
from pjrope.kernels import FourierJet

LENGTH = 100  # no power of two: those divide exactly


def one_jet(order: int) -> FourierJet:
    """A jet of amplitude 1 at one order, on a phase that never turns."""
    kernel = FourierJet(1, LENGTH, max_order=order, omega=torch.zeros(1), damping=0, zeta_scale=0)
    with torch.no_grad():
        kernel.zeta_re[0, order] = 1.0
    return kernel


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_it_is_the_library_s_bound(order):
    origin, query, key = 1000, 1255, 300  # the kernel folds about its last key
    with torch.no_grad():
        phi_q, phi_k = one_jet(order).fold(torch.tensor([query]), torch.tensor([key, origin]))
    wanted = float(error_bound(phi_q, phi_k)[0, 0])
    assert fold_error(query - origin, key - origin, order, LENGTH) == pytest.approx(
        wanted, rel=1e-9
    )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_rounding_stays_below_it(order):
    near = torch.arange(9_000, 9_064)  # queries and keys far from the origin on the same side
    x = near.double() / LENGTH

    def powers(y, s):
        return y**s / math.factorial(s)

    total = sum(
        powers(x, order - s).float()[:, None] * powers(-x, s).float() for s in range(order + 1)
    )
    exact = powers(x[:, None] - x, order)
    worst = fold_error(9_063, 9_063, order, LENGTH)
    assert 1e-4 * worst < float((total.double() - exact).abs().max()) < worst


def test_far_origins_hurt_and_near_ones_do_not():
    far, near, allowed = (y for _, y in fold_error_curves(length=LENGTH, order=3, lag=4).values())
    assert far[0] == near[0] and far == sorted(set(far))
    assert len(set(near)) == 1 and near[0] < allowed[0] < far[-1]
    assert 10 ** allowed[0] == pytest.approx(TOLERANCE)


def test_the_figure_shows_what_the_function_says():
    figure = fold_errors()
    assert set(figure.values) == {"length", "order", "lag"}
    before = figure.children[-1].value
    figure.controls["order"].value = 0
    assert figure.children[-1].value != before
