"""torch.func and second derivatives, at lengths on both sides of every threshold of the plan."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, grad, vmap

from pjrope import ALiBi, PJBias, PJInit, RoPE, attend, attend_plan
from pjrope.attention import blocks
from tests.kernels.catalogue import HEAD_DIM, HEADS, LENGTH

LENGTHS = [24, 300, 600]


def made():
    learned = PJBias(HEADS, LENGTH, init=PJInit(zeta_scale=0.7)).double()
    return {"fixed": ALiBi(HEADS), "learned": learned, "both": RoPE(HEAD_DIM) + learned}


def drawn(tokens: int, batch: int = 1):
    generator = torch.Generator().manual_seed(0)
    shape = (batch, HEADS, tokens, HEAD_DIM)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("name", ["fixed", "learned", "both"])
def test_func_grad_is_the_gradient(name, tokens):
    kernel = made()[name]
    parameters = {n: p.detach() for n, p in kernel.named_parameters()}

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = kernel

        def forward(self, q, k, v):
            return attend(q, k, v, self.kernel)

    module = Attention()

    def loss(values, q, k, v):
        named = {f"kernel.{n}": x for n, x in values.items()}
        return functional_call(module, named, (q, k, v)).square().sum()

    q, k, v = drawn(tokens)
    found = grad(loss, argnums=(0, 1))(parameters, q, k, v)
    q.requires_grad_()
    want = torch.autograd.grad(attend(q, k, v, kernel).square().sum(), [q, *kernel.parameters()])
    torch.testing.assert_close(found[1], want[0], rtol=1e-8, atol=1e-9)
    for got, expected in zip(found[0].values(), want[1:], strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("tokens", LENGTHS)
def test_vmap_maps_over_calls(tokens):
    kernel = made()["both"]
    calls = [x[:, None] for x in drawn(tokens, batch=3)]
    found = vmap(lambda q, k, v: attend(q, k, v, kernel))(*calls)
    want = attend(*(x[:, 0] for x in calls), kernel)
    torch.testing.assert_close(found[:, 0], want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("causal", [True, "strict", False])
@pytest.mark.parametrize("tokens", [24, 300])
@pytest.mark.parametrize("name", ["fixed", "learned"])
def test_second_derivatives_are_those_of_the_truth(name, tokens, causal, monkeypatch):
    monkeypatch.setattr(blocks, "LARGEST_BLOCK", 64)
    kernel, found = made()[name], []
    for backend in ("eager", "toeplitz"):
        inputs = [x.requires_grad_() for x in drawn(tokens)]
        weights = [*inputs, *kernel.parameters()]
        out = attend(*inputs, kernel, causal=causal, backend=backend)
        first = torch.autograd.grad(out.square().sum(), weights, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), weights)
        found.append([*first, *second])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-7)


def test_the_table_is_taken_where_no_transform_is_at_work():
    (q, k, v), kernel, seen = drawn(600), made()["learned"], []

    def loss(q):
        seen.append(attend_plan(q, k, v, kernel))
        return q.sum()

    grad(loss)(q)
    assert seen[0].backend == "sdpa" and "torch.func" in seen[0].reason
    assert attend_plan(q.requires_grad_(), k, v, kernel).backend == "toeplitz"
