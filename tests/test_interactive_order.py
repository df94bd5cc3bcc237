"""The formula behind the explorer of chapter order, against the kernels it stands for."""

from __future__ import annotations

import pytest
import torch

from pjrope.interactive import SCHEMES, lag_score_rows, lag_scores
from pjrope.kernels import ALiBi, RoPE

INDEX = list(range(16))


def rows(scheme, **more):
    both = lag_score_rows(scheme, **{"query": 6, "shift": 9, **more})
    (start, first), (again, moved) = both.values()
    assert start == again == INDEX
    return first, moved


@pytest.mark.parametrize("scheme", ["none", "ALiBi", "RoPE"])
def test_relative_schemes_do_not_notice_a_shift(scheme):
    first, moved = rows(scheme)
    assert moved == pytest.approx(first, abs=1e-12)


def test_an_added_wave_notices_a_shift():
    first, moved = rows("added wave")
    assert max(abs(a - b) for a, b in zip(first, moved, strict=True)) > 0.1


def test_rope_row_is_the_kernel_s():
    x = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(1, 1, 16, 2)
    pos = torch.arange(16)
    kernel = RoPE(2, omega=torch.tensor([0.7], dtype=torch.float64))
    q, k = kernel.rotate(x, x, pos, pos)
    wanted = (q @ k.transpose(-1, -2))[0, 0, 6].tolist()
    assert rows("RoPE", omega=0.7)[0] == pytest.approx(wanted, abs=1e-12)


def test_alibi_row_is_the_kernel_s():
    kernel = ALiBi(1)
    wanted = 1 + kernel.lag_bias(6 - torch.arange(16))[0]
    first, _ = rows("ALiBi", slope=float(kernel.slopes[0]))
    assert first == pytest.approx(wanted.tolist(), abs=1e-12)


def test_added_wave_row_is_a_product_of_sums():
    pos = torch.arange(16).double()
    tokens = torch.stack([1 + torch.cos(0.3 * pos), torch.sin(0.3 * pos)], dim=-1) / 2
    wanted = (tokens @ tokens.T)[6].tolist()
    assert rows("added wave", omega=0.3)[0] == pytest.approx(wanted, abs=1e-12)


def test_the_figure_shows_what_the_function_says():
    figure = lag_scores()
    assert set(figure.values) == {"scheme", "query", "shift", "slope", "omega"}
    before = figure.children[-1].value
    figure.controls["scheme"].value = "added wave"
    assert figure.children[-1].value != before


def test_unknown_scheme_is_refused():
    with pytest.raises(ValueError, match=", ".join(SCHEMES)):
        lag_score_rows("learned", query=0, shift=0)
