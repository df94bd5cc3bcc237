"""What users hand over in other forms: every backend agrees with the truth or refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pjrope import ALiBi, AttentionLayer, KVCache, RoPE, attend, attend_plan
from pjrope.attention import blocks
from pjrope.attention.decoding import attend_cached
from pjrope.kernels import PositionKernel
from tests.kernels.catalogue import HEAD_DIM, HEADS, NAMES, kernels

BACKENDS = ["auto", "eager", "sdpa", "toeplitz", "fold", "flex"]
BUILT = {name: kernel.double() for name, kernel in kernels().items()}
N = 24


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "LARGEST_BLOCK", 16)


def drawn(queries: int = N, keys: int = N, batch: int = 2, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(batch, HEADS, n, HEAD_DIM, generator=generator).to(dtype)
        for n in (queries, keys, keys)
    ]


def taken(backend: str, *call, **options) -> torch.Tensor | None:
    """What a backend gives, None where it refuses."""
    try:
        return attend(*call, backend=backend, **options)
    except ValueError as error:
        assert "cannot take this call" in str(error) and "\n" not in str(error)
        return None


# Keys that are not finite -----------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", NAMES)
def test_what_padding_holds_does_not_count(name, bad):
    kernel = BUILT[name]
    q, k, v = drawn()
    real = torch.ones(2, N, dtype=torch.bool)
    real[1, :5] = False
    want = attend(q, k, v, kernel, key_keep=real, backend="eager")
    for x in (k, v):
        x[1, :, :5] = bad
    for backend in BACKENDS:
        out = taken(backend, q, k, v, kernel, key_keep=real)
        if out is not None:
            torch.testing.assert_close(out, want, rtol=0, atol=1e-9)


def test_gradients_of_padding_that_is_not_finite_are_zero():
    q, k, v = drawn()
    real = torch.ones(2, N, dtype=torch.bool)
    real[1, :5] = False
    k[1, :, :5], v[1, :, :5] = torch.nan, torch.inf
    for x in (q, k, v):
        x.requires_grad_()
    attend(q, k, v, RoPE(HEAD_DIM) + ALiBi(HEADS), key_keep=real).sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in (q, k, v))
    assert not bool(k.grad[1, :, :5].any()) and not bool(v.grad[1, :, :5].any())


@torch.no_grad()
@pytest.mark.parametrize("where", ["key", "value"])
@pytest.mark.parametrize("name", ["none", "rope", "alibi", "rope_pj", "jordan", "jordan_lag"])
def test_a_row_before_a_broken_key_is_clean_and_one_behind_it_is_not(name, where):
    kernel, at = BUILT[name], 15
    q, k, v = drawn()
    want = attend(q, k, v, kernel, backend="eager")
    (k if where == "key" else v)[0, 1, at] = torch.nan
    reached = 0
    for backend in BACKENDS:
        out = taken(backend, q, k, v, kernel)
        if out is not None:
            reached += 1
            torch.testing.assert_close(out[:, :, :at], want[:, :, :at], rtol=0, atol=1e-9)
            torch.testing.assert_close(out[1], want[1], rtol=0, atol=1e-9)
            assert bool(out[0, 1, at:].isnan().all())
    assert reached == 2  # auto and eager: the others say that they cannot
    assert "not finite" in attend_plan(q, k, v, kernel).reason


# Biases that are not even -----------------------------------------------------------------------


class Sided(PositionKernel, register=False):
    """A learned bias that tells keys ahead from keys behind, as T5's bidirectional one does."""

    bias_heads = HEADS

    def __init__(self) -> None:
        super().__init__()
        self.ahead, self.behind = (
            nn.Parameter(torch.full((HEADS,), 0.5)),
            nn.Parameter(torch.arange(HEADS) / 10),
        )

    def lag_bias(self, lags):
        d = lags.double()
        behind = -self.behind.double()[:, None] * d.clamp(min=0)
        return behind - self.ahead.double()[:, None] * (-d).clamp(min=0).sqrt()


def by_hand(q, k, v, kernel, q_pos, k_pos, mask=None):
    logits = q @ k.mT / HEAD_DIM**0.5
    d = q_pos[:, None] - k_pos
    logits = logits + kernel.lag_bias(d.flatten()).unflatten(1, d.shape)
    logits = logits if mask is None else logits.masked_fill(~mask, -torch.inf)
    return logits.softmax(-1) @ v


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shift", [None, 0, 7, "sparse"])
@pytest.mark.parametrize(("queries", "causal"), [(N, False), (N, True), (5, False), (5, True)])
def test_a_bias_need_not_be_even(queries, causal, shift, backend):
    kernel = Sided().double()
    q, k, v = drawn(queries)
    k_pos = torch.arange(N)
    q_pos = k_pos[N - queries :]
    given = {}
    if shift == "sparse":
        k_pos = k_pos * 1000
        q_pos = k_pos[N - queries :] + 3
    elif shift is not None:
        q_pos = q_pos - shift  # keys that are visible stand ahead of their queries
    if shift is not None:
        given = {"q_pos": q_pos, "k_pos": k_pos}
    mask = torch.ones(queries, N, dtype=torch.bool).tril(N - queries) if causal else None
    want = by_hand(q, k, v, kernel, q_pos, k_pos, mask)
    grads = torch.autograd.grad(want.square().sum(), list(kernel.parameters()))
    out = taken(backend, q, k, v, kernel, causal=causal, **given)
    if out is not None:
        torch.testing.assert_close(out, want, rtol=0, atol=1e-9)
        found = torch.autograd.grad(out.square().sum(), list(kernel.parameters()))
        for got, expected in zip(found, grads, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


# Scales, masks and positions --------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (HEADS,)])
@pytest.mark.parametrize("name", ["none", "rope", "alibi", "rope_pj", "jordan", "jordan_lag"])
def test_a_scale_can_train(name, shape):
    kernel = BUILT[name]
    for backend in BACKENDS:
        scale = nn.Parameter(torch.full(shape, 0.3, dtype=torch.float64))
        out = taken(backend, *drawn(), kernel, scale=scale)
        if out is None:
            continue
        want = attend(*drawn(), kernel, scale=0.3, backend="eager")
        torch.testing.assert_close(out, want, rtol=0, atol=1e-9)
        (grad,) = torch.autograd.grad(out.square().sum(), scale)
        assert grad.shape == shape
        more, less = (
            attend(*drawn(), kernel, scale=0.3 + step, backend="eager").square().sum()
            for step in (1e-5, -1e-5)
        )
        slope = ((more - less) / 2e-5).detach()
        torch.testing.assert_close(grad.sum(), slope, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"scale has shape \(3,\), one number or one a head"):
        attend(*drawn(), kernel, scale=torch.ones(3))


@torch.no_grad()
def test_two_axes_of_a_mask_are_queries_and_keys_and_padding_has_its_own():
    q, k, v = drawn(batch=N)  # B = Q = K: nothing in the shape tells them apart
    mask = torch.rand(N, N, generator=torch.Generator().manual_seed(0)) > 0.3
    mask |= torch.eye(N, dtype=torch.bool)
    mask[:, 0] = True
    for backend in ("eager", "sdpa"):
        by_pair = attend(q, k, v, keep=mask, backend=backend)
        want = attend(q, k, v, keep=mask[None, None], backend=backend)
        torch.testing.assert_close(by_pair, want, rtol=0, atol=0)
        by_key = attend(q, k, v, key_keep=mask, backend=backend)
        want = attend(q, k, v, keep=mask[:, None, None], backend=backend)
        torch.testing.assert_close(by_key, want, rtol=0, atol=0)
        both = attend(q, k, v, keep=mask, key_keep=mask, backend=backend)
        want = attend(q, k, v, keep=mask & mask[:, None, None], backend=backend)
        torch.testing.assert_close(both, want, rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"key_keep is torch.bool \(1, 24\), a boolean \(B, K\)"):
        attend(q, k, v, key_keep=mask[:1])


@torch.no_grad()
def test_padding_reaches_layers_and_caches():
    layer = AttentionLayer(HEADS * HEAD_DIM, HEADS, kernel=RoPE(HEAD_DIM) + ALiBi(HEADS)).double()
    x = torch.randn(2, N, HEADS * HEAD_DIM, dtype=torch.float64)
    real = torch.ones(2, N, dtype=torch.bool)
    real[1, :7] = False
    want = layer(x, keep=real[:, None, None])
    torch.testing.assert_close(layer(x, key_keep=real), want, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        layer(x, key_keep=real, last_only=True), want[:, -1:], rtol=0, atol=1e-12
    )
    cache = KVCache()
    rows = [
        layer(x[:, start:stop], cache=cache, key_keep=real[:, :stop])
        for start, stop in ((0, 10), (10, 11), (11, N))
    ]
    torch.testing.assert_close(torch.cat(rows, 1), want, rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("name", [n for n in NAMES if kernels()[n].claims.relative])
@pytest.mark.parametrize("start", [2**52, 2**62])
def test_lags_keep_their_digits_at_any_position(name, start):
    kernel = BUILT[name]
    q, k, v = drawn()
    near = torch.arange(N)
    want = attend(q, k, v, kernel, q_pos=near, k_pos=near, backend="eager")
    for backend in BACKENDS:
        out = taken(backend, q, k, v, kernel, q_pos=near + start, k_pos=near + start)
        if out is not None:
            torch.testing.assert_close(out, want, rtol=0, atol=1e-9)
    cache, rows = KVCache(kernel=kernel), []
    for n in (slice(0, 20), slice(20, 21), slice(21, 24)):
        cache.append(k[:, :, n], v[:, :, n], near[n] + start)
        rows.append(attend_cached(q[:, :, n], cache, q_pos=near[n] + start))
    torch.testing.assert_close(torch.cat(rows, 2), want, rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("make", [lambda p: p.numpy(), lambda p: p.tolist()])
def test_positions_and_masks_of_numpy_and_lists(make):
    kernel = RoPE(HEAD_DIM) + ALiBi(HEADS)
    q, k, v = drawn()
    pos, mask = torch.arange(N) + 5, torch.ones(N, N, dtype=torch.bool).tril()
    want = attend(q, k, v, kernel, q_pos=pos, k_pos=pos)
    torch.testing.assert_close(attend(q, k, v, kernel, q_pos=make(pos), k_pos=make(pos)), want)
    torch.testing.assert_close(attend(q, k, v, kernel, q_pos=make(pos)), want)
    torch.testing.assert_close(attend(q, k, v, kernel, keep=make(mask)), want, rtol=0, atol=1e-9)
    real = torch.ones(2, N, dtype=torch.bool)
    torch.testing.assert_close(
        attend(q, k, v, kernel, key_keep=make(real)), want, rtol=0, atol=1e-9
    )
    layer = AttentionLayer(HEADS * HEAD_DIM, HEADS, kernel=kernel).double()
    x, cache = torch.randn(2, N, HEADS * HEAD_DIM, dtype=torch.float64), KVCache()
    torch.testing.assert_close(
        layer(x, cache=cache, q_pos=make(pos)), layer(x, q_pos=pos), rtol=0, atol=1e-9
    )
    with pytest.raises(ValueError, match="positions are integers"):
        attend(q, k, v, kernel, q_pos=np.linspace(0, 1, N))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_an_empty_batch_gives_an_empty_answer(name, backend):
    kernel = BUILT[name]
    q, k, v = (x.requires_grad_() for x in drawn(batch=0))
    rows = torch.arange(N).expand(0, -1)
    mask = torch.ones(0, 1, N, N, dtype=torch.bool)
    for options in (
        {},
        {"q_pos": rows, "k_pos": rows},
        {"keep": mask},
        {"key_keep": mask[:, 0, 0]},
    ):
        out = taken(backend, q, k, v, kernel, **options)
        if out is not None:
            assert out.shape == (0, HEADS, N, HEAD_DIM)
            out.sum().backward()
            assert q.grad.shape == q.shape and k.grad.shape == k.shape
