"""The formulas behind the explorer of chapter union, against the kernels and roots they stand for."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope.interactive import Plane, union_curves, union_explorer, union_roots
from pjrope.kernels import Affine, FourierJet, LightCone
from pjrope.kernels.algebra import difference, prony, residual

SETTING = {"omega": 0.35, "order": 2, "length": 24}
JET, LINE, CONE, SUM = "Fourier jet", "line", "light cone", "their sum"


def values(name, **setting):
    lags, ys = union_curves(**setting)[name]
    assert lags == list(range(129))
    return torch.tensor(ys, dtype=torch.float64)


@torch.no_grad()
def of_kernel(kernel, amplitude=None):
    kernel = kernel.double()
    if amplitude is not None:
        kernel.zeta_re.zero_()[0, -1] = amplitude
        kernel.zeta_im.zero_()
    return kernel.lag_bias(torch.arange(129))[0]


def test_sectors_are_those_of_the_kernels():
    shared = {"max_order": 2, "omega": [SETTING["omega"]]}
    jet = of_kernel(FourierJet(1, 24, damping=1.25, **shared), 0.75)
    cone = of_kernel(LightCone(1, 24, **shared), 1.5)
    line = of_kernel(Affine(1, 24, slope=0.5))
    setting = SETTING | {"fj": 0.75, "c": 1.25, "slope": 0.5, "lc": 1.5}
    for name, wanted in ((JET, jet), (CONE, cone), (LINE, line), (SUM, jet + cone + line)):
        assert values(name, **setting).tolist() == pytest.approx(wanted.tolist(), abs=1e-6)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_roots_are_those_that_the_samples_give_back(order):
    setting = {"fj": 1.0, "order": order, "omega": 0.6, "c": 1.0, "slope": 1.0, "length": 32}
    wanted = union_roots(**setting)
    found = prony(values(SUM, **setting))
    assert sorted(r.multiplicity for r in found) == sorted(r.multiplicity for r in wanted)
    for root in wanted:
        assert min(abs(root.value - other.value) for other in found) < 1e-4


def test_the_equation_kills_jet_and_line_and_not_the_light_cone():
    setting = SETTING | {"fj": 1.0, "c": 0.5, "slope": 1.0}
    rest = residual(values(SUM, **setting), union_roots(**setting))
    assert float(rest.abs().max()) < 1e-10
    bent = residual(values(SUM, **setting, lc=1.0), union_roots(**setting, lc=1.0))
    assert float(bent.abs().max()) > 1e-5


def test_what_is_off_has_no_roots_and_what_meets_shares_them():
    assert union_roots(fj=0, slope=0, lc=1) == []
    assert [r.multiplicity for r in union_roots(omega=0, c=0, order=3, slope=1)] == [4]
    assert [r.multiplicity for r in union_roots(omega=0, c=0, order=0, slope=1)] == [2]
    (root,) = union_roots(omega=0, c=2, length=8, order=1, slope=0)
    assert root.value == pytest.approx(math.exp(-0.25)) and root.multiplicity == 2
    assert float(difference(values(LINE, slope=2.0), 1, 2).abs().max()) < 1e-12


def test_the_figure_shows_both_panels_and_redraws_both():
    figure = union_explorer()
    assert set(figure.values) == {"fj", "order", "omega", "c", "slope", "lc", "length"}
    before = figure.children[-1].value
    figure.controls["omega"].value = 1.0
    assert figure.children[-1].value != before
    assert "unit circle" in before and "A bias against the lag" in before
    assert "pjDots" in figure.page()
    assert len(figure.png()) < 30_000


def test_a_plane_needs_words():
    with pytest.raises(ValueError, match="no alt text"):
        Plane(lambda: [], "return [];", title="roots", alt=" ")
