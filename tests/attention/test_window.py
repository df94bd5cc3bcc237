"""A sliding window is what the same mask would give, at a cost of N times the window."""

from __future__ import annotations

import pytest
import torch

from pjrope import AttentionLayer, KVCache, attend, attend_plan
from pjrope.attention import blocks, pages
from pjrope.attention.backends import toeplitz
from pjrope.attention.decoding import attend_cached
from pjrope.kernels import ALiBi, RoPE
from pjrope.positions import left_padded_positions
from tests.kernels.catalogue import HEAD_DIM, HEADS, NAMES, kernels

BUILT = {name: kernel.double() for name, kernel in kernels().items()}
BACKENDS = ["auto", "eager", "sdpa", "toeplitz"]
CALLS = [
    (37, 37, True, 6),
    (37, 37, True, 1),
    (37, 37, "strict", 6),
    (37, 37, False, 6),
    (5, 37, True, 6),
    (37, 20, True, 6),
    (5, 37, False, 30),
]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "LARGEST_BLOCK", 16)
    monkeypatch.setattr(toeplitz, "FORWARD_ROWS", 8)
    monkeypatch.setattr(toeplitz, "BACKWARD_ROWS", 8)
    monkeypatch.setattr(pages, "PAGE", 8)


def drawn(queries: int, keys: int, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((queries, HEADS), (keys, HEADS), (keys, HEADS))
    return [
        torch.randn(2, h, n, HEAD_DIM, generator=generator, dtype=torch.float64) for n, h in shapes
    ]


def near(queries: int, keys: int, window: int) -> torch.Tensor:
    """The window as a mask, (Q, K)."""
    apart = torch.arange(queries)[:, None] + keys - queries - torch.arange(keys)
    return apart.abs() < window


def taken(backend: str, *call, **options) -> torch.Tensor | None:
    """What a backend gives, None where it refuses."""
    try:
        return attend(*call, backend=backend, **options)
    except ValueError as error:
        assert "cannot take this call" in str(error)
        return None


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_every_backend_gives_what_the_mask_gives(name):
    kernel, reached = BUILT[name], set()
    for queries, keys, causal, window in CALLS:
        call = (*drawn(queries, keys), kernel)
        mask = near(queries, keys, window)
        want = attend(*call, causal=causal, keep=mask, backend="eager")
        for backend in BACKENDS:
            out = taken(backend, *call, causal=causal, window=window)
            if out is not None:
                torch.testing.assert_close(out, want, rtol=0, atol=1e-9)
                reached.add(backend)
    assert {"auto", "eager"} <= reached
    if kernel.biases and not kernel.scored:
        assert "toeplitz" in reached


@pytest.mark.parametrize("backend", ["eager", "sdpa", "toeplitz"])
@pytest.mark.parametrize("name", ["rope", "alibi", "rope_pj", "jordan_alibi"])
def test_gradients_are_those_of_the_mask(name, backend):
    kernel, found = kernels()[name].double(), []
    for options in ({"keep": near(37, 37, 6), "backend": "eager"}, {"window": 6}):
        inputs = [x.requires_grad_() for x in drawn(37, 37)]
        kernel.zero_grad()
        out = taken(options.pop("backend", backend), *inputs, kernel, **options)
        if out is None:
            return
        out.square().sum().backward()
        found.append([x.grad for x in inputs] + [p.grad.clone() for p in kernel.parameters()])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_a_window_decodes_from_a_cache(name):
    layer = AttentionLayer(HEADS * HEAD_DIM, HEADS, kernel=BUILT[name], window=6).double()
    x = torch.randn(
        2, 30, HEADS * HEAD_DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    if not BUILT[name].claims.length_free:
        return
    cache = KVCache()
    got = torch.cat([layer(c, cache=cache) for c in x.split([12, 1, 1, 10, 1, 5], dim=1)], dim=1)
    torch.testing.assert_close(got, layer(x), rtol=0, atol=1e-9)


@torch.no_grad()
def test_masks_and_windows_meet():
    kernel = RoPE(HEAD_DIM) + ALiBi(HEADS)
    real = torch.ones(2, 37, dtype=torch.bool)
    real[1, :9] = False
    positions = left_padded_positions(real)
    keep, segments = real[:, None, None], (torch.arange(37) // 11,) * 2
    for extra in (
        {"q_pos": positions, "k_pos": positions, "keep": keep},
        {"segments": segments},
    ):
        both = near(37, 37, 6)[None, None] & extra.get("keep", torch.tensor(True))
        want = attend(*drawn(37, 37), kernel, **{**extra, "keep": both}, backend="eager")
        for backend in BACKENDS:
            out = taken(backend, *drawn(37, 37), kernel, window=6, **extra)
            if out is not None:
                torch.testing.assert_close(out, want, rtol=0, atol=1e-9)


def test_a_window_costs_what_it_spans(monkeypatch):
    monkeypatch.undo()
    q, k, v = (torch.empty(1, 1, 1, 64).expand(1, 8, 32_768, 64) for _ in range(3))
    for kernel in (RoPE(64), RoPE(64) + ALiBi(8)):
        plan = attend_plan(q, k, v, kernel, window=1024)
        assert plan.peak_bytes < 4 * 8 * 32_768 * 64 * 4 * 1.6, plan
    assert attend_plan(q, k, v, RoPE(64), window=1024).reason.endswith("there is a window")
    whole = attend_plan(q, k, v, RoPE(64), window=32_768)  # hides nothing
    assert whole.reason == "no bias and no mask: one fused call"


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "8"])
def test_a_window_is_a_number_of_tokens(wrong):
    with pytest.raises(ValueError, match="a number of tokens >= 1 is needed"):
        attend(*drawn(4, 4), window=wrong)
    with pytest.raises(ValueError, match="a number of tokens >= 1 is needed"):
        AttentionLayer(8, 1, window=wrong)


@torch.no_grad()
def test_one_token_reads_the_window_alone():
    q, k, v = drawn(1, 50)
    cache = KVCache(kernel=ALiBi(HEADS))
    cache.append(k, v, torch.arange(50))
    got = attend_cached(q, cache, q_pos=torch.tensor([49]), window=6)
    want = attend(q, k[:, :, -6:], v[:, :, -6:], ALiBi(HEADS))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
