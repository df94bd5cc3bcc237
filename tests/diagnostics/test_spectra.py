"""Spectra equal the reference numbers, have gradients where amplitudes are 0, and say what they need."""

from __future__ import annotations

import pytest
import torch

from pjrope.diagnostics import (
    effective_mass,
    functional_energy,
    leave_one_order_out,
    order_components,
    order_mass,
)
from pjrope.kernels import (
    Affine,
    ALiBi,
    FourierJet,
    LightCone,
    NoPE,
    PJBias,
    PJInit,
    RoPE,
    direct_sum,
)
from pjrope.models import Decoder, DecoderConfig
from tests.golden import golden

PJ = golden("pj_bias")
LAGS = torch.arange(256)
SPECTRA = {
    "effective_mass": effective_mass,
    "order_mass": order_mass,
    "functional_energy": lambda kernel: functional_energy(kernel, LAGS),
    "leave_one_order_out": lambda kernel: leave_one_order_out(kernel, LAGS, torch.zeros(256)),
}


def pj():
    kernel = PJBias(2, PJ["L"], max_order=PJ["max_order"]).double()
    tensors = {n: torch.tensor(v, dtype=torch.float64) for n, v in PJ["parameters"].items()}
    kernel.load_state_dict(tensors, strict=True)
    return kernel


def wanted(name):
    return torch.tensor([head[name] for head in PJ["heads"]], dtype=torch.float64)


def close(got, want, tolerance=1e-10):
    torch.testing.assert_close(got.detach(), want, rtol=0, atol=tolerance)


def test_golden_numbers():
    kernel = pj()
    mass = effective_mass(kernel)
    close(mass["fj"], wanted("fj_effective_mass"))
    close(mass["lc"], wanted("lc_effective_mass"))
    close(functional_energy(kernel, LAGS), wanted("functional_energy"))
    close(
        functional_energy(kernel, LAGS, sectors=("fj",), gated=False),
        wanted("fj_functional_energy"),
    )
    target = LAGS / PJ["L"] * torch.cos(0.049 * LAGS.double())
    close(leave_one_order_out(kernel, LAGS, target), wanted("leave_one_order_out"))
    per_head = target.expand(2, -1)
    close(leave_one_order_out(kernel, LAGS, per_head), wanted("leave_one_order_out"))


def test_spectra_of_a_sum_are_those_of_its_jets():
    kernel = pj()
    whole = RoPE(8) + kernel
    for name in ("fj", "lc"):
        close(effective_mass(whole)[name], effective_mass(kernel)[name].detach(), 0)
    for name in set(SPECTRA) - {"effective_mass"}:
        close(SPECTRA[name](whole), SPECTRA[name](kernel).detach(), 0)
    # A slope outside the PJBias is part of the prediction that an order is left out of.
    y = torch.linspace(-1, 0, 256, dtype=torch.float64)
    sloped = leave_one_order_out(kernel + ALiBi(2), LAGS, y)
    moved = leave_one_order_out(kernel, LAGS, y - ALiBi(2).lag_bias(LAGS))
    close(sloped, moved, 1e-9)
    assert not torch.allclose(sloped, leave_one_order_out(kernel, LAGS, y))


@pytest.mark.parametrize(("make", "name"), [(FourierJet, "fj"), (LightCone, "lc")])
def test_kernels_without_gates_have_bare_amplitudes(make, name):
    kernel = make(2, 64, max_order=3, zeta_scale=1.0)
    mass = effective_mass(kernel)
    assert list(mass) == [name]
    close(mass[name], (kernel.zeta_re**2 + kernel.zeta_im**2).sqrt().detach(), 1e-6)
    close(order_components(kernel, LAGS).sum(1), kernel.lag_bias(LAGS).detach(), 1e-12)


def test_two_jet_kernels_in_a_sum_merge_by_order():
    low, high = FourierJet(2, 64, max_order=1), LightCone(2, 64, max_order=3, zeta_scale=1.0)
    both = low + high
    assert {n: tuple(m.shape) for n, m in effective_mass(both).items()} == {
        "fj": (2, 2),
        "lc": (2, 4),
    }
    orders = order_components(both, LAGS)
    assert orders.shape == (2, 4, 256)
    close(orders.sum(1), both.lag_bias(LAGS).detach(), 1e-12)
    close(orders[:, 3], high.order_components(LAGS)[:, 3].detach(), 0)
    close(order_mass(both).sum(1), torch.ones(2), 1e-6)
    side_by_side = direct_sum(RoPE(8) + low, RoPE(8) + high)
    close(order_components(side_by_side, LAGS), orders.detach(), 0)
    with pytest.raises(ValueError, match="two parts of this sum bring the sector 'fj'"):
        effective_mass(low + FourierJet(2, 64))


def test_only_enabled_sectors_are_there():
    kernel = PJBias(2, 64, sectors=("fj", "affine"))
    assert list(effective_mass(kernel)) == ["fj"]
    assert functional_energy(kernel, LAGS).shape == (2, 3)
    with pytest.raises(ValueError, match=r"sectors are \('lc',\), this kernel has \('fj',\)"):
        functional_energy(kernel, LAGS, sectors=("lc",))


@pytest.mark.parametrize("make", [FourierJet, LightCone])
def test_spectra_are_finite_and_differentiable_where_amplitudes_are_zero(make):
    kernel = make(2, 64, zeta_scale=0.0)
    with torch.no_grad():
        kernel.zeta_re[0, 1] = 3.0
        kernel.zeta_im[0, 1] = 4.0
    total = sum(m.sum() for m in effective_mass(kernel).values())
    total = total + order_mass(kernel).sum() + functional_energy(kernel, LAGS).sum()
    assert float(total.detach()) == pytest.approx(5 + 1 + 1, abs=1e-5)
    total.backward()
    for p in kernel.parameters():
        assert p.grad is None or bool(p.grad.isfinite().all())
    mass_only = effective_mass(kernel)["fj" if make is FourierJet else "lc"].sum()
    re, im = torch.autograd.grad(mass_only, [kernel.zeta_re, kernel.zeta_im])
    assert re[0].tolist() == pytest.approx([0, 0.6, 0])
    assert im[0].tolist() == pytest.approx([0, 0.8, 0])
    assert not re[1].any() and not im[1].any()


def test_masses_of_a_zero_start_reach_gates_and_amplitudes():
    kernel = PJBias(2, 64, init=PJInit(zeta_scale=0.0)).double()
    sum(m.sum() for m in effective_mass(kernel).values()).backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in kernel.parameters())
    assert order_mass(kernel).tolist() == [[0.0] * 3] * 2


def test_gradcheck():
    kernel = pj()
    named = dict(kernel.named_parameters())
    target = torch.linspace(-1, 1, 20, dtype=torch.float64)

    def spectra(*values):
        out = torch.func.functional_call(
            _Spectra(kernel, target),
            {f"kernel.{n}": v for n, v in zip(named, values, strict=True)},
            (),
        )
        return out

    values = [p.detach().clone().requires_grad_() for p in named.values()]
    assert torch.autograd.gradcheck(spectra, values)


class _Spectra(torch.nn.Module):
    def __init__(self, kernel, target):
        super().__init__()
        self.kernel, self.target = kernel, target

    def forward(self):
        lags = torch.arange(20)
        return (
            order_mass(self.kernel),
            functional_energy(self.kernel, lags),
            leave_one_order_out(self.kernel, lags, self.target),
        )


def test_the_linear_teacher_still_names_an_order():
    """Order mass leaves the affine sector out: a head that is all slope has a top order as well."""
    kernel = PJBias(1, 64, max_order=3, init=PJInit(gates="affine", slope=5.0, order=3))
    assert int(order_mass(kernel).argmax()) == 3
    assert kernel.gate("affine").item() > 0.96


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize(
    "kernel",
    [
        Affine(2, 64),
        ALiBi(2),
        NoPE(),
        RoPE(8),
        RoPE(8) + ALiBi(2),
        PJBias(2, 64, sectors=("affine",)),
    ],
    ids=lambda k: type(k).__name__,
)
def test_what_has_no_jets_is_told_what_is_accepted(spectrum, kernel):
    with pytest.raises(
        ValueError, match=f"{type(kernel).__name__} has no jets: a PJBias with a jet"
    ):
        SPECTRA[spectrum](kernel)


def test_other_wrong_arguments():
    model = Decoder(DecoderConfig(5, 8, 1, 2, 16), seed=0)
    with pytest.raises(ValueError, match=r"Decoder is no position kernel: .*kernels_by_layer"):
        effective_mass(model)
    for sectors in ("fj", (), ("affine",), ("fj", "xy")):
        with pytest.raises(ValueError, match="affine has no orders"):
            functional_energy(pj(), LAGS, sectors=sectors)
    with pytest.raises(ValueError, match=r"target has shape \(3,\), \(256,\) or \(2, 256\)"):
        leave_one_order_out(pj(), LAGS, torch.zeros(3))
