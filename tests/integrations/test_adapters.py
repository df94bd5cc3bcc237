"""Thin adapters against the libraries that they are for: SDPA, NumPy, FlexAttention, x-transformers."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from pjrope import attend, integrations
from pjrope.extras import MissingLibrary
from pjrope.integrations import bias_tensor, score_mod, to_numpy
from pjrope.kernels import (
    Affine,
    ALiBi,
    FourierJet,
    LightCone,
    NearTable,
    NoPE,
    PositionKernel,
    RoPE,
    alibi_slopes,
)

HAS_XT = importlib.util.find_spec("x_transformers") is not None


def kernels():
    found = [ALiBi(4), Affine(4, 16), NearTable(4, 5), FourierJet(4, 16), LightCone(4, 16)]
    found[2].table.data.normal_(generator=torch.Generator().manual_seed(0))
    return found


class Ahead(PositionKernel, register=False):
    """A bias that is not even: it tells past from future."""

    bias_heads = 4

    def lag_bias(self, lags):
        return 0.1 * lags.float().expand(4, -1)


def qkv(queries=7, keys=11, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 4, n, 8, generator=draw) for n in (queries, keys, keys)]


@pytest.mark.parametrize("kernel", [*kernels(), Ahead()], ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("causal", [True, False])
def test_a_bias_for_sdpa(kernel, causal):
    q, k, v = qkv()
    mask = bias_tensor(kernel, 7, 11, causal=causal)
    assert mask.shape == (1, 4, 7, 11)
    found = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert_close(found, attend(q, k, v, kernel, causal=causal), rtol=0, atol=2e-6)
    places = torch.tensor([0, 3, 4, 9, 20, 21, 40, 41, 50, 60, 61])
    mask = bias_tensor(kernel, 7, 11, q_pos=places[4:], k_pos=places, causal=causal)
    found = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    want = attend(q, k, v, kernel, q_pos=places[4:], k_pos=places, causal=causal)
    assert_close(found, want, rtol=0, atol=2e-6)


def test_the_bias_for_sdpa_trains_the_kernel():
    kernel, (q, k, v) = Affine(4, 16), qkv()
    scaled_dot_product_attention(
        q, k, v, attn_mask=bias_tensor(kernel, 7, 11)
    ).square().sum().backward()
    other = Affine(4, 16)
    attend(q, k, v, other).square().sum().backward()
    assert_close(kernel.raw_slope.grad, other.raw_slope.grad, rtol=1e-4, atol=1e-6)
    assert bias_tensor(kernel, 7, dtype=torch.bfloat16).dtype == torch.bfloat16


def test_numpy():
    found = to_numpy(ALiBi(4), np.arange(6).reshape(2, 3))
    want = -alibi_slopes(4).double().numpy()[:, None, None] * np.arange(6).reshape(2, 3)
    assert found.shape == (4, 2, 3) and found.dtype == np.float64
    np.testing.assert_allclose(found, want, rtol=1e-6)
    assert to_numpy(RoPE(8) + ALiBi(4), 3).shape == (4,)
    assert to_numpy(ALiBi(4), [-2, 2]).tolist()[0][0] == to_numpy(ALiBi(4), 2).tolist()[0]


@pytest.mark.parametrize("kernel", [*kernels(), Ahead()], ids=lambda k: type(k).__name__)
def test_flex_attention(kernel):
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    q, k, v = qkv()
    causal = flex.create_block_mask(
        lambda b, h, i, j: i + 4 >= j, B=None, H=None, Q_LEN=7, KV_LEN=11, device="cpu"
    )
    with torch.no_grad():
        add = score_mod(kernel, 11, offset=4)
        found = flex.flex_attention(q, k, v, score_mod=add, block_mask=causal)
        assert_close(found, attend(q, k, v, kernel), rtol=0, atol=2e-6)
        free = flex.flex_attention(q, k, v, score_mod=add)
        assert_close(free, attend(q, k, v, kernel, causal=False), rtol=0, atol=2e-6)


def test_flex_reads_one_table_and_stays_in_it():
    kernel = Affine(4, 16)
    add = score_mod(kernel, 8)
    far, zero = torch.tensor(100), torch.zeros(())
    head = torch.tensor(2)
    got = add(zero, zero, head, far, torch.tensor(0))
    assert_close(got, kernel.lag_bias(torch.tensor([7]))[2, 0].float())
    got.backward()
    assert float(kernel.raw_slope.grad[2]) != 0


@pytest.mark.parametrize("make", [lambda k: bias_tensor(k, 4), lambda k: score_mod(k, 4)])
def test_a_kernel_that_does_more_is_refused(make):
    with pytest.raises(ValueError, match=r"RoPE acts on the channels.*pjrope\.attend"):
        make(RoPE(8))
    with pytest.raises(ValueError, match="NoPE has no bias"):
        make(NoPE())


def test_bad_sizes_are_named():
    with pytest.raises(ValueError, match="5 queries and 4 keys"):
        bias_tensor(ALiBi(4), 5, 4)
    with pytest.raises(ValueError, match=r"q_pos \(3,\)"):
        bias_tensor(ALiBi(4), 4, q_pos=torch.arange(3))
    with pytest.raises(ValueError, match="length is 0"):
        score_mod(ALiBi(4), 0)
    with pytest.raises(ValueError, match="lags are float64"):
        to_numpy(ALiBi(4), [0.5])
    with pytest.raises(ValueError, match="RoPE has no bias"):
        to_numpy(RoPE(8), 1)


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [("huggingface", "transformers", "hf"), ("surgery", "transformers", "hf")],
)
def test_a_missing_library_is_named_with_its_remedy(monkeypatch, module, library, extra):
    for name in [n for n in sys.modules if n.startswith(("pjrope.integrations.", library))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibrary, match=rf'{library} is not installed.*"pjrope\[{extra}\]"'):
        importlib.import_module(f"pjrope.integrations.{module}")
    with pytest.raises(AttributeError, match="nonsense"):
        integrations.nonsense  # noqa: B018


def test_x_transformers_missing(monkeypatch):
    from pjrope.integrations import x_transformers as xt

    monkeypatch.setitem(sys.modules, "x_transformers", None)
    monkeypatch.delitem(sys.modules, "x_transformers.x_transformers", raising=False)
    with pytest.raises(MissingLibrary, match=r"pjrope\[xt\]"):
        xt.attach(torch.nn.Linear(2, 2), ALiBi(4))


@pytest.mark.parametrize("kernel", [*kernels(), Ahead()], ids=lambda k: type(k).__name__)
def test_the_bias_that_x_transformers_asks_for_is_that_of_the_last_queries(kernel):
    """Nothing of the library is needed: it calls with two numbers."""
    from pjrope.integrations.x_transformers import KernelBias

    for queries, keys in ((7, 7), (3, 7), (1, 9)):
        want = bias_tensor(kernel, queries, keys, causal=False)[0]
        assert_close(KernelBias(kernel)(queries, keys), want, rtol=0, atol=1e-6)


@pytest.mark.skipif(not HAS_XT, reason="x-transformers is not installed")
class TestXTransformers:
    def model(self, seed=0, flash=False, **more):
        from x_transformers import Decoder, TransformerWrapper

        torch.manual_seed(seed)
        layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=flash, **more)
        return TransformerWrapper(
            num_tokens=32, max_seq_len=64, attn_layers=layers, use_abs_pos_emb=False
        ).eval()

    def test_it_equals_the_alibi_of_the_library(self):
        from pjrope.integrations import x_transformers as xt

        ids = torch.randint(32, (2, 20), generator=torch.Generator().manual_seed(0))
        theirs = self.model(alibi_pos_bias=True)
        for flash in (False, True):
            ours = self.model(flash=flash)
            xt.attach(ours, ALiBi(4))
            with torch.no_grad():
                assert_close(ours(ids), theirs(ids), rtol=0, atol=2e-5)

    def test_it_trains_decodes_and_comes_out_again(self):
        from x_transformers import AutoregressiveWrapper

        from pjrope.integrations import x_transformers as xt

        ids = torch.randint(32, (2, 12), generator=torch.Generator().manual_seed(0))
        model = self.model()
        with torch.no_grad():
            before = model(ids)
        kernel = NearTable(4, 6)
        xt.attach(model, kernel)
        with torch.no_grad():
            assert_close(model(ids), before, rtol=0, atol=1e-6)
        model(ids).square().sum().backward()
        assert bool((kernel.table.grad != 0).any())
        kernel.table.data.normal_(generator=torch.Generator().manual_seed(1))
        wrapped = AutoregressiveWrapper(model)
        fresh = wrapped.generate(ids, 8, temperature=0.0, cache_kv=False)
        assert torch.equal(wrapped.generate(ids, 8, temperature=0.0, cache_kv=True), fresh)
        assert xt.detach(model) is kernel
        with torch.no_grad():
            assert torch.equal(model(ids), before)
        with pytest.raises(ValueError, match="nothing of pjrope"):
            xt.detach(model)

    def test_what_does_not_fit_is_named(self):
        from pjrope.integrations import x_transformers as xt

        with pytest.raises(ValueError, match="has AlibiPositionalBias already"):
            xt.attach(self.model(alibi_pos_bias=True), ALiBi(4))
        with pytest.raises(ValueError, match="made for 3 heads, the model has 4"):
            xt.attach(self.model(), ALiBi(3))
        with pytest.raises(ValueError, match="model is Linear"):
            xt.attach(torch.nn.Linear(2, 2), ALiBi(4))
