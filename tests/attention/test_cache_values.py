"""Caches are values: they are copied, reordered and selected, and a failed call changes nothing."""

from __future__ import annotations

import copy

import pytest
import torch

from pjrope import AttentionLayer, Decoder, DecoderConfig, KVCache, RoPE
from pjrope.attention import pages
from pjrope.kernels import ALiBi, PositionKernel
from tests.kernels.catalogue import HEAD_DIM, HEADS, NAMES, kernels

WIDTH = HEADS * HEAD_DIM
FREE = [n for n in NAMES if kernels()[n].claims.length_free]
BUILT = {name: kernel.double() for name, kernel in kernels().items()}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(pages, "PAGE", 8)


def filled(kernel: PositionKernel, tokens: int = 20, batch: int = 3):
    torch.manual_seed(0)
    layer = AttentionLayer(WIDTH, HEADS, kernel=kernel).double()
    x = torch.randn(batch, tokens + 5, WIDTH, dtype=torch.float64)
    cache = KVCache()
    layer(x[:, :tokens], cache=cache)
    return layer, cache, x


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "how"),
    [*((n, copy.deepcopy) for n in FREE), *((n, copy.copy) for n in ("rope", "jordan", "alibi"))],
)
def test_a_copy_goes_on_alone(name, how):
    layer, cache, x = filled(BUILT[name])
    twin = how(cache)
    other = torch.cat([x[:, :20], torch.randn_like(x[:, 20:])], dim=1)
    found = ([], [])
    for n in range(20, 25):  # in turn, and first within a page, where a cache writes in place
        for rows, tokens, each in zip(found, (x, other), (cache, twin), strict=True):
            rows.append(layer(tokens[:, n : n + 1], cache=each))
    for rows, tokens in zip(found, (x, other), strict=True):
        torch.testing.assert_close(torch.cat(rows, 1), layer(tokens)[:, 20:], rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("name", FREE)
def test_rows_are_reordered_and_selected(name):
    layer, cache, x = filled(BUILT[name])
    rows = torch.tensor([2, 0, 0, 1])
    chosen = cache.select(rows)
    want = layer(x[rows])[:, 20:]
    torch.testing.assert_close(layer(x[rows, 20:], cache=chosen), want, rtol=0, atol=1e-9)
    assert cache.length == 20 and cache.keys.shape[0] == 3
    rows = torch.tensor([1, 1, 0])
    cache.reorder(rows)
    want = layer(x[rows])[:, 20:]
    torch.testing.assert_close(layer(x[rows, 20:], cache=cache), want, rtol=0, atol=1e-9)


@torch.no_grad()
def test_positions_of_rows_go_along():
    layer, _, x = filled(RoPE(HEAD_DIM))
    places = torch.arange(25) + torch.tensor([[0], [7], [300]])
    cache, rows = KVCache(), torch.tensor([2, 0])
    layer(x[:, :20], cache=cache, q_pos=places[:, :20])
    chosen = cache.select(rows)
    assert torch.equal(chosen.positions, places[rows, :20])
    got = layer(x[rows, 20:], cache=chosen, q_pos=places[rows, 20:])
    want = layer(x[rows], q_pos=places[rows])[:, 20:]
    torch.testing.assert_close(got, want, rtol=0, atol=1e-9)


@torch.no_grad()
def test_wrong_rows_are_refused():
    _, cache, _ = filled(RoPE(HEAD_DIM))
    with pytest.raises(ValueError, match=r"rows are \[3\], the cache holds rows 0 to 2"):
        cache.select(torch.tensor([3]))
    with pytest.raises(ValueError, match=r"\(3,\) is needed: select\(\) takes another number"):
        cache.reorder(torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"rows are torch.float32"):
        cache.select(torch.ones(2))


@torch.no_grad()
def test_a_copied_model_and_its_caches_go_on_together():
    for kernel in ({"kernel": "RoPE", "head_dim": 8}, BUILT["jordan"].spec, BUILT["pj_full"].spec):
        config = DecoderConfig(11, WIDTH, 2, HEADS, 32, kernel=kernel)
        model = Decoder(config, seed=0).double()
        tokens = torch.randint(11, (2, 20), generator=torch.Generator().manual_seed(0))
        caches = model.new_cache()
        model(tokens[:, :15], cache=caches)
        want = model(tokens)[:, 15:]
        for order in (0, 1):
            pair = copy.deepcopy((caches, model) if order else (model, caches))
            twin, held = pair[::-1] if order else pair
            got = twin(tokens[:, 15:], cache=held)
            torch.testing.assert_close(got, want, rtol=0, atol=1e-9)


class Stubborn(torch.nn.Module):
    """A block that fails."""

    def forward(self, x, **options):
        raise RuntimeError("out of luck")


@torch.no_grad()
def test_a_failed_call_leaves_all_caches_as_they_were():
    model = Decoder(DecoderConfig(11, WIDTH, 3, HEADS, 32, kernel=RoPE(HEAD_DIM).spec), seed=0)
    tokens = torch.randint(11, (2, 20), generator=torch.Generator().manual_seed(0))
    for first in (0, 15):
        caches = model.new_cache()
        if first:
            model(tokens[:, :first], cache=caches)
        good, model.blocks[2] = model.blocks[2], Stubborn()
        with pytest.raises(RuntimeError, match="out of luck"):
            model(tokens[:, first:], cache=caches)
        model.blocks[2] = good
        assert [cache.length for cache in caches] == [first] * 3
        got = model(tokens[:, first:], cache=caches)
        torch.testing.assert_close(got, model(tokens)[:, first:], rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["rope", "alibi", "jordan", "pj_full"])
def test_bad_arguments_leave_a_cache_as_it_was(name):
    layer, cache, x = filled(BUILT[name])
    want = layer(x[:, 20:], cache=cache.copy())
    with pytest.raises(ValueError, match="does not broadcast"):
        layer(x[:, 20:], cache=cache, keep=torch.ones(7, 9, dtype=torch.bool))
    with pytest.raises(ValueError, match="pos has shape"):
        layer(x[:, 20:], cache=cache, q_pos=torch.arange(3))
    with pytest.raises(ValueError, match="only the number of tokens may change"):
        layer(x[:1, 20:], cache=cache)
    assert cache.length == 20
    torch.testing.assert_close(layer(x[:, 20:], cache=cache), want, rtol=0, atol=1e-12)
    empty = KVCache()
    with pytest.raises(ValueError, match="pos has shape"):
        layer(x, cache=empty, q_pos=torch.arange(3))
    rows = torch.arange(25).expand(3, -1)
    torch.testing.assert_close(
        layer(x, cache=empty, q_pos=rows), layer(x, q_pos=rows), rtol=0, atol=1e-9
    )


@torch.no_grad()
def test_caches_that_disagree_are_an_error():
    model = Decoder(DecoderConfig(11, WIDTH, 2, HEADS, 32, kernel=RoPE(HEAD_DIM).spec), seed=0)
    tokens = torch.zeros(1, 6, dtype=torch.long)
    caches = model.new_cache()
    model(tokens, cache=caches)
    caches[1].truncate(4)
    with pytest.raises(ValueError, match=r"hold \[6, 4\] tokens: truncate all to the same"):
        model(tokens, cache=caches)
    with pytest.raises(ValueError, match=r"1 caches for 2 layers: model.new_cache"):
        model(tokens, cache=caches[:1])


@torch.no_grad()
def test_a_cache_is_for_a_kernel_that_does_the_same():
    layer, cache, x = filled(ALiBi(HEADS))
    twin = AttentionLayer(WIDTH, HEADS, kernel=ALiBi(HEADS)).double()
    twin.load_state_dict(layer.state_dict())
    torch.testing.assert_close(twin(x[:, 20:], cache=cache), layer(x)[:, 20:], rtol=0, atol=1e-12)
    other = AttentionLayer(WIDTH, HEADS, kernel=RoPE(HEAD_DIM)).double()
    with pytest.raises(ValueError, match="made for another kernel"):
        other(x[:, :1], cache=cache)
