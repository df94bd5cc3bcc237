"""FlexAttention on the CPU: uncompiled, small, without gradients of q, k and v."""

from __future__ import annotations

import pytest
import torch

from pjrope.attention import attend, attend_plan
from pjrope.attention.backends import flex
from pjrope.kernels import ALiBi, LightCone, PJBias, PJInit, RoPE
from tests.kernels.catalogue import HEAD_DIM, HEADS, LENGTH, NAMES, Damped, kernels


def draw(queries=40, keys=40, kv=HEADS, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, HEADS, queries, HEAD_DIM, generator=generator)
    k, v = (torch.randn(2, kv, keys, HEAD_DIM, generator=generator) for _ in range(2))
    return [x.to(dtype) for x in (q, k, v)]


CALLS = [{"causal": False}, {"queries": 7}, {"queries": 1}, {"kv": 2}, {"shift": 3}]
# Every bias in one call; the others change the table's span and the mask, whatever the bias is.
KINDS = ["alibi", "near_table", "rope_pj", "pj_rotary_pj"]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        *((name, {}) for name in NAMES if kernels()[name].biases),
        *((name, call) for name in KINDS for call in CALLS),
    ],
)
def test_equals_the_truth(name, call):
    call = dict(call)
    shape = {n: call.pop(n) for n in ("queries", "kv") if n in call}
    q, k, v = draw(**shape)
    if shift := call.pop("shift", 0):
        call |= {"q_pos": torch.arange(40) + shift, "k_pos": torch.arange(40)}
    kernel = kernels(k.shape[1])[name]
    with torch.no_grad():  # uncompiled on the CPU it cannot train what acts on channels
        got = attend(q, k, v, kernel, backend="flex", **call)
        want = attend(q, k, v, kernel, backend="eager", **call)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)


def test_parameters_of_the_bias_get_their_gradients():
    kernel = RoPE(HEAD_DIM) + PJBias(HEADS, LENGTH, init=PJInit(zeta_scale=0.7))
    q, k, v = draw()
    grads = {}
    for backend in ("eager", "flex"):
        out = attend(q, k, v, kernel, backend=backend)
        grads[backend] = torch.autograd.grad(out.square().sum(), list(kernel.parameters()))
    for truth, fast in zip(*grads.values(), strict=True):
        torch.testing.assert_close(fast, truth, rtol=1e-4, atol=1e-4)


def test_one_score_function_a_kernel_whatever_the_length():
    kernel = ALiBi(HEADS)
    found = []
    for n in (8, 40, 8):
        q, k, v = draw(n, n)
        first = attend(q, k, v, kernel, backend="flex")
        assert torch.equal(first, attend(q, k, v, kernel, backend="flex"))
        found.append(flex._READERS[kernel].score.__self__)
    assert found[0] is found[1] is found[2]
    other = ALiBi(HEADS)
    attend(q, k, v, other, backend="flex")
    assert flex._READERS[other] is not flex._READERS[kernel]


@pytest.mark.parametrize(
    ("kernel", "change", "why"),
    [
        (RoPE(HEAD_DIM), {}, "adds no bias"),
        (Damped(near=4) + ALiBi(HEADS), {}, "an origin per block"),
        (ALiBi(HEADS), {"causal": "strict"}, "a mask beside causality"),
        (ALiBi(HEADS), {"grad": True}, "no gradients of q, k and v on the CPU"),
        (ALiBi(HEADS), {"n": 2100}, r"would hold 0\.1 GB of logits"),
    ],
)
def test_refusals(kernel, change, why):
    n = change.pop("n", 40)
    q, k, v = draw(n, n)
    q.requires_grad_(change.pop("grad", False))
    with pytest.raises(ValueError, match=why):
        attend(q, k, v, kernel, backend="flex", **change)


def test_auto_never_chooses_it_and_training_on_the_cpu_works():
    q, k, v = (x.requires_grad_() for x in draw(400, 400))
    kernel = LightCone(HEADS, LENGTH)
    assert attend_plan(q, k, v, kernel).backend == "toeplitz"
    attend(q, k, v, kernel).sum().backward()
    assert bool(torch.isfinite(q.grad).all())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: compiled flex not run")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [127, 1025])
def test_compiled_on_cuda(n, dtype):
    kernel = (RoPE(HEAD_DIM * 2) + PJBias(HEADS, 64, init=PJInit(zeta_scale=0.7))).cuda()
    x = [
        torch.randn(1, HEADS, n, HEAD_DIM * 2, device="cuda", dtype=dtype).requires_grad_()
        for _ in range(3)
    ]
    found = []
    for backend in ("eager", "flex"):
        out = attend(*x, kernel, backend=backend)
        grads = torch.autograd.grad(out.float().square().mean() * 0.01, [*x, *kernel.parameters()])
        found.append([out, *grads])
    for truth, fast in zip(*found, strict=True):
        assert bool(torch.isfinite(fast).all())
        bound = 1e-4 if dtype == torch.float32 else 5e-2
        scale = max(1.0, float(truth.detach().abs().max()))
        torch.testing.assert_close(fast.float(), truth.float(), rtol=0, atol=bound * scale)
