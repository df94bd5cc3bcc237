"""One token behind a cache takes a path of its own: it must agree with the general one."""

from __future__ import annotations

import pytest
import torch

from pjrope.attention import AttentionLayer, KVCache, decoding
from pjrope.kernels import FourierJet, RoPE
from tests.kernels.catalogue import HEAD_DIM, HEADS, LENGTH, NAMES, kernels

WIDTH, TOKENS = HEADS * HEAD_DIM, 30


def filled(kernel, dtype=torch.float64, **options):
    """A layer, its cache of all tokens but the last, and the tokens."""
    torch.manual_seed(0)
    layer = AttentionLayer(WIDTH, HEADS, kernel=kernel, **options).to(dtype)
    x = torch.randn(2, TOKENS, WIDTH, dtype=dtype)
    cache = KVCache()
    layer(x[:, :-1], cache=cache)
    return layer, cache, x


@torch.no_grad()
@pytest.mark.parametrize("kv_heads", [1, 2, HEADS])
@pytest.mark.parametrize("name", ["none", "rope", "alibi", "pj_full"])
def test_one_token_equals_the_general_path_with_shared_key_heads(name, kv_heads, monkeypatch):
    kernel = kernels()[name]
    layer, cache, x = filled(kernel, kv_heads=kv_heads)
    fast = layer(x[:, -1:], cache=cache)
    cache.truncate(TOKENS - 1)
    monkeypatch.setattr(decoding, "is_simple", lambda *call: False)
    torch.testing.assert_close(fast, layer(x[:, -1:], cache=cache), rtol=0, atol=1e-12)


@pytest.fixture
def taken(monkeypatch):
    """Calls that took the path for one token."""
    calls, decode_one = [], decoding.decode_one

    def counted(*call):
        calls.append(call)
        return decode_one(*call)

    monkeypatch.setattr(decoding, "decode_one", counted)
    return calls


@torch.no_grad()
def test_what_it_cannot_serve_goes_the_general_way(taken):
    kernel = FourierJet(HEADS, LENGTH, zeta_scale=1.0)
    layer, cache, x = filled(kernel)
    last = x[:, -1:]
    layer(last, cache=cache)
    assert len(taken) == 1
    keep = torch.ones(1, 1, 1, TOKENS + 1, dtype=torch.bool)
    layer(last, cache=cache, keep=keep)
    layer(last, cache=cache, q_pos=torch.tensor([90]))  # the bias at lags that do not run on
    layer(last, cache=cache, q_pos=torch.tensor([91]))
    layer.backend = "eager"
    layer(last, cache=cache)
    half, cache, x = filled(kernel, dtype=torch.bfloat16)
    half(x[:, -1:], cache=cache)
    assert len(taken) == 1


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_a_truncated_cache_goes_on_as_if_nothing_had_followed(name):
    kernel = kernels()[name]
    layer, cache, x = filled(kernel)
    guess = torch.randn_like(x[:, :5])
    layer(guess, cache=cache)
    cache.truncate(TOKENS - 1)
    got = layer(x[:, -1:], cache=cache)
    _, fresh, _ = filled(kernel)
    fresh.kernel = layer.kernel
    torch.testing.assert_close(got, layer(x[:, -1:], cache=fresh), rtol=0, atol=1e-12)


@torch.no_grad()
def test_truncation_keeps_positions_that_run_on(taken):
    layer, cache, x = filled(FourierJet(HEADS, LENGTH, zeta_scale=1.0))
    cache.truncate(10)
    layer(x[:, 10:11], cache=cache)
    assert len(taken) == 1 and cache.length == 11
    cache.truncate(0)
    first = layer(x[:, :1], cache=cache, q_pos=torch.tensor([7]))
    torch.testing.assert_close(first, layer(x[:, :1]), rtol=0, atol=1e-12)
    for length in (-1, 2):
        with pytest.raises(ValueError, match=f"length is {length}, the cache holds 0 to 1 tokens"):
            cache.truncate(length)


@torch.no_grad()
def test_a_bias_follows_a_cache_that_outgrows_its_table():
    layer, cache, _ = filled(FourierJet(HEADS, LENGTH, zeta_scale=1.0) + RoPE(HEAD_DIM))
    x = torch.randn(2, 100, WIDTH, dtype=torch.float64)
    cache.truncate(0)
    rows = [layer(token, cache=cache) for token in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(rows, dim=1), layer(x), rtol=0, atol=1e-10)
