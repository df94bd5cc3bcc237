"""A short row, padded on the right, answers as it does alone, whatever its neighbours' length."""

from __future__ import annotations

import pytest
import torch

from pjrope import NTK, PI, ALiBi, Decoder, DecoderConfig, KVCache, RoPE, YaRN, attend
from pjrope.attention import AttentionLayer
from pjrope.positions import LongRoPE

D, L, N, SHORT = 16, 8, 24, 11  # both rows beyond the training length, by different factors
KERNELS = {
    "ntk": RoPE(D, extension=NTK(length=L)),
    "pi": RoPE(D, extension=PI(length=L)),
    "yarn": RoPE(D, extension=YaRN(length=L)),
    "longrope": RoPE(D, extension=LongRoPE(4.0, L + 4, short=[1.0] * 8, long=[3.0] * 8)),
    "ntk_alibi": RoPE(D, extension=NTK(length=L)) + ALiBi(2),
    "rope": RoPE(D),
}
REAL = torch.arange(N) < torch.tensor([[N], [SHORT]])


def drawn():
    g = torch.Generator().manual_seed(0)
    return torch.randn(3, 2, 2, N, D, generator=g, dtype=torch.float64)


@pytest.mark.parametrize("mask", ["key_keep", "keep", "keep of heads"])
@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("backend", ["auto", "eager", "sdpa"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_short_row_is_its_own(name, backend, placed, mask):
    q, k, v = drawn()
    positions = {"q_pos": torch.arange(N) + 3, "k_pos": torch.arange(N) + 3} if placed else {}
    masks = {
        "key_keep": {"key_keep": REAL},
        "keep": {"keep": REAL[:, None, None]},
        "keep of heads": {"keep": REAL[:, None, None].expand(-1, 2, -1, -1)},
    }
    got = attend(q, k, v, KERNELS[name], backend=backend, **positions, **masks[mask])
    for row, n in enumerate((N, SHORT)):
        own = {key: pos[:n] for key, pos in positions.items()}
        alone = (x[row : row + 1, :, :n] for x in (q, k, v))
        want = attend(*alone, KERNELS[name], backend="eager", **own)
        torch.testing.assert_close(got[row : row + 1, :, :n], want, rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("name", ["ntk", "yarn", "ntk_alibi"])
def test_a_short_row_of_a_model_is_its_own(name):
    config = DecoderConfig(
        vocab=13, width=2 * D, layers=2, heads=2, length=L, kernel=KERNELS[name].spec
    )
    model = Decoder(config, seed=0).double()
    tokens = torch.randint(13, (2, N), generator=torch.Generator().manual_seed(1))
    got = model(tokens, key_keep=REAL)[1, :SHORT]
    torch.testing.assert_close(got, model(tokens[1:, :SHORT])[0], rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_short_row_of_a_cache_is_its_own():
    layer = AttentionLayer(2 * D, 2, kernel=KERNELS["ntk"]).double()
    x = torch.randn(2, N, 2 * D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    got = layer(x, cache=KVCache(), key_keep=REAL)
    want = layer(x[1:, :SHORT], cache=KVCache())
    torch.testing.assert_close(got[1:, :SHORT], want, rtol=0, atol=1e-12)


def test_the_query_of_a_key_that_only_some_may_not_see_keeps_its_position():
    """A mask of pairs hides the last key from all, as strict causality does: no padding."""
    q, k, v = drawn()
    below = torch.ones(N, N, dtype=torch.bool).tril(-1)
    want = attend(q, k, v, KERNELS["ntk"], causal="strict")
    torch.testing.assert_close(attend(q, k, v, KERNELS["ntk"], keep=below), want)
