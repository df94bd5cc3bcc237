"""Backend "triton" against backend "eager", for every kernel of the catalogue that it takes."""

from __future__ import annotations

import os

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from pjrope.attention import KVCache, attend, attend_plan
from pjrope.attention.decoding import attend_cached
from pjrope.kernels import ALiBi, FourierJet, PJBias, PJInit, RoPE
from pjrope.positions import left_padded_positions, packed_positions
from tests.kernels.catalogue import HEAD_DIM, HEADS, LENGTH, NAMES, kernels

# A kernel that only rotates does so before any backend: one stands for all, unless all are asked for.
QUICK = ["none", "jordan", "jordan_lag", "damped_local", "affine", "jet3", "lightcone", "rope_pj"]
WEEKLY = os.environ.get("PJROPE_WEEKLY") == "1"
NOT_TAKEN = {"jordan_lag", "damped_local"}  # whole scores; an origin for each block


@pytest.fixture(autouse=True)
def small(tiles):
    tiles(16, 16)


def drawn(queries, keys, kv=1, batch=1, seed=0, number=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((HEADS, queries), (kv, keys), (kv, keys))
    inputs = (torch.randn(batch, *s, HEAD_DIM, generator=generator) for s in shapes)
    return [x.to(number).requires_grad_() for x in inputs]


def agree(inputs, kernel, bound=1e-5, **call):
    """Outputs and all gradients, the kernel's parameters among them."""
    wanted = [*inputs, *(p for p in kernel.parameters() if p.requires_grad)]
    found = []
    for backend in ("eager", "triton"):
        out = attend(*inputs, kernel, backend=backend, **call)
        weights = torch.linspace(-1, 1, out.numel()).view_as(out)
        loss = (out.float() * weights).sum()
        found.append([out, *torch.autograd.grad(loss, wanted, allow_unused=True)])
    for truth, fast in zip(*found, strict=True):
        assert (truth is None) == (fast is None)
        if truth is not None:
            size = max(1.0, float(truth.detach().abs().max()))
            torch.testing.assert_close(fast, truth, rtol=0, atol=bound * size)


@pytest.mark.parametrize("name", NAMES if WEEKLY else QUICK)
def test_every_kernel_of_the_catalogue(name):
    kernel = kernels(key_heads=1)[name]
    inputs = drawn(17, 17)
    if name in NOT_TAKEN:
        with pytest.raises(ValueError, match=r"whole scores|origin per block"):
            attend(*inputs, kernel, backend="triton")
        return
    agree(inputs, kernel)


def masked_calls():
    real = torch.ones(2, 20, dtype=torch.bool)
    real[0, :11] = False
    padded = left_padded_positions(real)
    packed, ids = packed_positions([1, 1, 5, 13])
    far = torch.arange(20) + 1000
    return {
        "strict": {"causal": "strict"},
        "any": {"causal": False},
        "padded": {"q_pos": padded, "k_pos": padded, "keep": real[:, None, None]},
        "packed": {"q_pos": packed, "k_pos": packed, "segments": (ids[None], ids[None])},
        "packed_1d": {"q_pos": packed, "k_pos": packed, "segments": (ids, ids)},
        "offset": {"q_pos": far + 3, "k_pos": far},
        "offset_any": {"q_pos": far, "k_pos": far + 3, "causal": False},
    }


FEW = ["padded", "offset_any"]


@pytest.mark.parametrize("call", masked_calls() if WEEKLY else FEW)
def test_masks_and_offsets(call):
    kernel = PJBias(HEADS, LENGTH, init=PJInit(zeta_scale=0.7, seed=3, slope=1.5))
    agree(drawn(20, 20, batch=2), RoPE(HEAD_DIM) + kernel, **masked_calls()[call])


SHAPES = st.tuples(
    st.sampled_from([1, 2, 16, 17, 23]),
    st.sampled_from([1, 5, 16, 31]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([True, False, "strict"]),
)


@hypothesis.settings(
    max_examples=12 if WEEKLY else 2, deadline=None, database=None, derandomize=True
)
@hypothesis.given(SHAPES)
def test_drawn_shapes(shape):
    queries, keys, kv, causal = shape
    offset = torch.arange(keys - queries, keys)
    call = {"q_pos": offset, "k_pos": torch.arange(keys)} if queries > keys else {}
    kernel = FourierJet(HEADS, LENGTH, max_order=2, zeta_scale=0.7, seed=3)
    agree(drawn(queries, keys, kv), kernel, causal=causal, **call)


def test_half_precision_keeps_the_kernel_in_fp32():
    inputs = drawn(20, 20, number=torch.bfloat16)
    agree(inputs, RoPE(HEAD_DIM) + ALiBi(HEADS), bound=3e-2)


def test_checkpointed_and_compiled():
    kernel = ALiBi(HEADS)
    inputs = drawn(6, 6)
    call = lambda *x: attend(*x, kernel, backend="triton")  # noqa: E731
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs), call(*inputs))


@torch.no_grad()
def test_tokens_behind_a_cache():
    kernel = RoPE(HEAD_DIM) + ALiBi(HEADS)
    q, k, v = (x.detach() for x in drawn(20, 20, kv=2))
    cache = KVCache(kernel=kernel)
    pos = torch.arange(20)
    for part in (slice(0, 17), slice(17, 20)):
        cache.append(k[:, :, part], v[:, :, part], pos[part])
        out = attend_cached(q[:, :, part], cache, q_pos=pos[part], backend="triton")
        want = attend_cached(q[:, :, part], cache, q_pos=pos[part], backend="eager")
        torch.testing.assert_close(out, want, rtol=0, atol=1e-5)


@torch.no_grad()
def test_few_queries_behind_many_keys_are_decoded():
    q, k, v = (x.detach() for x in drawn(1, 520, kv=1))
    kernel = ALiBi(HEADS)
    keep = torch.ones(1, 1, 1, 520, dtype=torch.bool)
    keep[..., :40] = False
    for call in ({"keep": keep},):
        want = attend(q, k, v, kernel, backend="eager", **call)
        torch.testing.assert_close(
            attend(q, k, v, kernel, backend="triton", **call), want, rtol=0, atol=1e-5
        )


def test_the_plan_names_it():
    assert attend_plan(*drawn(4, 4), ALiBi(HEADS), backend="triton").backend == "triton"
