"""How large a kernel's numbers get: the bound, the search, and where they leave a number type."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope.kernels import (
    Affine,
    ALiBi,
    FourierJet,
    JordanMixture,
    JordanRoPE,
    LightCone,
    PJBias,
    PJRotary,
    RoPE,
)
from pjrope.kernels.growth import ROOM, first_beyond, jet_bound
from tests.kernels.catalogue import kernels

LOUD = {"zeta_scale": 1.0, "seed": 3}


@pytest.mark.parametrize("number", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("order", [1, 2, 3, 8])
def test_the_position_is_the_one_of_the_formula(order, number):
    most = torch.finfo(number).max
    jet = FourierJet(1, 2, max_order=order, damping=0.0)
    with torch.no_grad():
        for zeta in (jet.zeta_re, jet.zeta_im):
            zeta.zero_()
        jet.zeta_re[0, order] = 0.5
    want = 2 * (most / 0.5 * math.factorial(order)) ** (1 / order)
    found = jet.overflow_at(number)
    if want < 2**62:
        assert found == pytest.approx(want, rel=1e-9, abs=1)
    elif want > 2**64:
        assert found is None
    block = JordanRoPE(2 * (order + 1), 1, 4, order=order + 1, gamma=0, eta=torch.tensor([[0.25]]))
    # The largest of the terms x^s/s! decides; their sum exceeds it by a factor near 1.
    far = 16 * (most / ROOM * math.factorial(order)) ** (1 / order)
    if far < 2**61 and number != torch.float16:
        found = block.overflow_at(number)
        assert 0.9 * far < found <= far + 1 if order < 3 else 0.5 * far < found <= far + 1


def test_a_bent_amplitude_never_overflows_and_a_bias_that_falls_stays_finite():
    for kernel in (
        LightCone(2, 16, max_order=9, zeta_scale=1.0),
        LightCone(2, 16, max_order=9, parts="amplitude", zeta_scale=1.0),
        Affine(2, 16, coordinate="lightcone"),
        PJRotary(8, 16, coordinate="lightcone"),
        RoPE(8),
        RoPE(8, coordinate="lightcone", length=16),
    ):
        number = torch.float16 if not isinstance(kernel, PJRotary) else torch.float32
        assert kernel.overflow_at(number) is None and kernel.growth.degree == 0
    assert ALiBi(8).overflow_at(torch.float16) == pytest.approx(2 * 65504, abs=1)  # slope 1/2
    assert ALiBi(8).overflow_at(torch.float32) is None


def test_damping_turns_the_shear_before_it_overflows():
    assert JordanRoPE(8, 1, 1, order=4, gamma=0.5, eta=1.0).overflow_at(torch.float32) is None
    damped = JordanRoPE(8, 1, 1, order=4, gamma=1e-13, eta=1.0)
    assert 1e11 < damped.overflow_at(torch.float32) < 1e13


def test_the_bound_is_a_bound_and_the_search_is_exact():
    x = torch.linspace(0, 40, 4001, dtype=torch.float64)
    a, c = torch.tensor([0.3, -2.0, 0.7]), torch.tensor(0.4)
    size = sum(a[r].abs() * x**r / math.factorial(r) for r in range(3)) * torch.exp(-c * x)
    for end in (0.5, 3.0, 40.0):
        top = float(size[x <= end].max())
        assert top <= jet_bound(a[None], c[None], end) * (1 + 1e-12) <= 1.3 * top + 1e-9
    assert first_beyond(lambda d: d, 12345) == 12346
    assert first_beyond(lambda d: 1.0, 2.0) is None and first_beyond(lambda d: 3.0, 2.0) == 0


@pytest.mark.parametrize("parts", [(3, 0), (2, 1), (1, 2)])
def test_absolute_shears_of_query_and_key_multiply(parts):
    """At p and -p they meet as one shear of 2 p: bounded, and by little more than it reaches."""
    order, p = 4, 4096
    straight = {"coordinate": "lightcone", "parts": "phase", "omega": torch.zeros(1)}
    for kernel in (
        PJRotary(2 * order, 16, order=order, **straight),
        JordanRoPE(2 * order, 1, 2, order=order, form="exact", gamma=0, eta=0.5, **straight),
    ):
        one = torch.zeros(1, 1, 1, 2 * order)
        q, k = one.clone(), one.clone()
        ends = (k, q) if kernel.mirrored else (q, k)
        ends[0][..., 0], ends[1][..., -2] = 1.0, 1.0  # what the highest power couples
        turned_q, turned_k = kernel.rotate(q, k, torch.tensor([p]), torch.tensor([-p]))
        products = float((turned_q * turned_k).abs().sum().detach())
        assert products <= kernel.growth.bound(float(p)) / ROOM <= 1.1 * products


KERNELS = kernels()


@pytest.mark.parametrize("name", [n for n in KERNELS if not KERNELS[n].unknown_growth()])
def test_answers_do_not_hang_on_the_default_device(name):
    kernel = KERNELS[name]
    for number in (torch.float16, torch.float32):
        want = kernel.overflow_at(number)
        with torch.device("meta"):
            assert kernel.overflow_at(number) == want


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_parameters_that_are_no_numbers_are_not_safe(wrong):
    made = {
        "zeta_re": FourierJet(2, 16, max_order=3),
        "raw_damping": FourierJet(2, 16, max_order=3),
        "zeta_im": LightCone(2, 16),
        "raw_slope": Affine(2, 16),
        "fj_zeta_re": PJBias(2, 16),
        "raw_affine_slope": PJBias(2, 16),
        "eta": JordanRoPE(8, 2, 16, eta=0.5),
        "gamma_raw": JordanRoPE(8, 2, 16, form="stabilized", eta=0.5),
        "alpha": JordanMixture(8, 2, 16),
    }
    for name, kernel in made.items():
        with torch.no_grad():
            getattr(kernel, name).view(-1)[0] = wrong
        assert kernel.growth.bound(10.0) == math.inf, name
        assert kernel.overflow_at(torch.float32) in (0, 1), name
    assert jet_bound(torch.tensor([[1.0, wrong]]), None, 1.0) == math.inf
    assert jet_bound(torch.ones(1, 2), torch.tensor([wrong]), 1.0) == math.inf


def test_powers_of_a_large_shear_are_taken_in_fp64():
    kernel = JordanRoPE(12, 1, 16, form="exact", gamma=0, eta=1e20, order=3)
    assert kernel.growth.bound(0.0) == ROOM
    assert kernel.growth.bound(1.0) == pytest.approx(ROOM * 0.5e40, rel=1e-6)
    assert kernel.overflow_at(torch.float64) is None


@pytest.mark.parametrize("number", [torch.int64, torch.complex64, "fp32"])
def test_only_floating_point_types_can_overflow(number):
    for kernel in (FourierJet(2, 16), JordanRoPE(8, 2, 16, form="stabilized"), RoPE(8) + ALiBi(2)):
        with pytest.raises(ValueError, match="a floating-point dtype is needed"):
            kernel.overflow_at(number)
