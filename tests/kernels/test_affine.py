"""Affine recency: a learned slope along the lag or a light cone's logarithm."""

import math

import pytest
import torch

from pjrope.kernels import Affine


@pytest.mark.parametrize("coordinate", ["linear", "lightcone"])
def test_the_bias_is_the_formula(coordinate):
    kernel = Affine(2, 16, slope=torch.tensor([0.5, 3.0]), coordinate=coordinate).double()
    bias = kernel.lag_bias(torch.tensor([0, 1, 40, -40]))
    for head, slope in enumerate((0.5, 3.0)):
        for column, lag in enumerate((0, 1, 40, 40)):
            x = lag / 16 if coordinate == "linear" else math.asinh(lag / 16)
            assert float(bias[head, column].detach()) == pytest.approx(-slope * x, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Affine(2, -1), "length is -1"),
        (lambda: Affine(2, 16, slope=0.0), "slope"),
        (lambda: Affine(2, 16, slope=torch.ones(3)), r"\(3,\)"),
        (lambda: Affine(2, 16, coordinate="log"), "'log'"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
