"""The formula behind the explorer of chapter jordan, against the kernels it stands for."""

from __future__ import annotations

import pytest
import torch

from pjrope.interactive import jordan_mode_curves, jordan_modes
from pjrope.kernels import JordanRoPE
from pjrope.kernels.jordan import FORMS


@pytest.fixture
def fp64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("length", "offset"), [(48, 0), (96, 320)])
def test_scores_are_the_kernel_s(fp64, form, length, offset):
    unit = length if form == "scaled" else 64
    rates = {"c": 0.75, "eta": -1.5}
    per = 1 if form == "scaled" else unit
    kernel = JordanRoPE(
        4, 1, length, form=form, omega=[0.3], gamma=rates["c"] / per, eta=rates["eta"] / per
    )
    q, k = torch.tensor([1.0, 0, 0, 0]), torch.tensor([1.0, 0, 1, 0])
    q, k = q.expand(1, 1, 257, 4), k.expand(1, 1, 1, 4)
    at, j = torch.arange(257) + offset, torch.tensor([offset])
    if form == "lag":
        wanted = kernel.scores(q, k, at, j)[0, 0, :, 0]
    else:
        a, b = kernel.rotate(q, k, at, j)
        wanted = (a @ b.mT)[0, 0, :, 0]
    curves = jordan_mode_curves(form, 0.3, length=length, offset=offset, **rates)
    assert curves["key moved"][1] == pytest.approx(wanted.tolist(), abs=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_only_the_stabilized_form_notices_where_the_key_stands(form):
    (_, still), (_, moved), _ = jordan_mode_curves(form).values()
    apart = max(abs(a - b) for a, b in zip(still, moved, strict=True))
    assert apart > 0.1 if form == "stabilized" else apart == 0


def test_the_figure_shows_what_the_function_says():
    figure = jordan_modes()
    assert set(figure.values) == {"form", "omega", "c", "eta", "length", "offset"}
    before = figure.children[-1].value
    figure.controls["form"].value = "stabilized"
    assert figure.children[-1].value != before


def test_unknown_form_is_refused():
    with pytest.raises(ValueError, match=r"raw.*scaled, exact"):
        jordan_mode_curves("raw")
