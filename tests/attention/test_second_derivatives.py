"""Second derivatives, which optimisers and penalties on gradients ask for: every kernel and backend."""

from __future__ import annotations

import pytest
import torch

from pjrope import attend
from pjrope.attention import blocks
from tests.kernels.catalogue import HEAD_DIM, HEADS, NAMES, kernels

BACKENDS = ["auto", "sdpa", "toeplitz", "fold"]
N = 12


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "LARGEST_BLOCK", 8)


def drawn(tokens: int):
    generator = torch.Generator().manual_seed(0)
    shape = (1, HEADS, tokens, HEAD_DIM)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for _ in range(3)
    ]


def derivatives(kernel, **options):
    """Gradients of a loss, and those of their squares, in the inputs and in every parameter."""
    inputs = drawn(N)
    weights = [*inputs, *(p for p in kernel.parameters() if p.requires_grad)]
    out = attend(*inputs, kernel, **options)
    first = torch.autograd.grad(out.square().sum(), weights, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), weights)
    return [*first, *second]


@pytest.mark.parametrize(
    ("name", "window"),
    [*((n, None) for n in NAMES), *((n, 5) for n in ("none", "rope", "rope_pj", "jordan"))],
)
def test_every_backend_has_the_second_derivatives_of_the_truth(name, window):
    kernel = kernels()[name].double()
    want, tried = derivatives(kernel, window=window, backend="eager"), 0
    for backend in BACKENDS:
        try:
            found = derivatives(kernel, window=window, backend=backend)
        except ValueError as error:
            assert "cannot take this call" in str(error) and backend != "auto"
            continue
        tried += 1
        for got, expected in zip(found, want, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-7)
    assert tried >= 1


@pytest.mark.parametrize("name", ["rope", "rope_pj", "jordan", "jordan_lag"])
def test_the_truth_is_that_of_finite_differences(name):
    kernel = kernels()[name].double()
    inputs = [x[:, :, :3].detach().requires_grad_() for x in drawn(3)]
    assert torch.autograd.gradgradcheck(
        lambda q, k, v: attend(q, k, v, kernel, backend="eager"), inputs, fast_mode=True
    )


@pytest.mark.parametrize("number", [torch.float32, torch.bfloat16])
def test_one_fused_call_has_them_in_any_number_type(number):
    """RoPE alone, the call of torch's own kernel, against the truth in the same type."""
    found = []
    for backend in ("auto", "eager"):
        q, k, v = (x.detach().to(number).requires_grad_() for x in drawn(64))
        out = attend(q, k, v, kernels()["rope"], backend=backend).float()
        first = torch.autograd.grad(out.square().sum(), (q, k, v), create_graph=True)
        loss = sum(g.float().square().sum() for g in first)
        found.append(torch.autograd.grad(loss, (q, k, v)))
    near = 1e-4 if number == torch.float32 else 0.1
    for got, want in zip(*found, strict=True):
        assert float((got - want).float().norm()) <= near * float(want.float().norm())
