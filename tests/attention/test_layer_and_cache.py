import pytest
import torch

from pjrope.attention import AttentionLayer, KVCache, attend, pages
from pjrope.attention.decoding import attend_cached
from pjrope.kernels import ALiBi, FourierJet, RoPE
from pjrope.positions import NTK, YaRN, left_padded_positions
from tests.kernels.catalogue import HEAD_DIM, HEADS, LENGTH, NAMES, Damped, kernels

WIDTH = HEADS * HEAD_DIM


def layer_and_input(kernel, tokens=30, **options):
    torch.manual_seed(0)
    layer = AttentionLayer(WIDTH, HEADS, kernel=kernel, **options)
    return layer.double(), torch.randn(2, tokens, WIDTH, dtype=torch.float64)


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(pages, "PAGE", 8)


@torch.no_grad()
@pytest.mark.parametrize(
    "chunks", [[1] * 30, [10, 5, 15], [29, 1]], ids=["tokens", "chunks", "last"]
)
@pytest.mark.parametrize("name", NAMES)
def test_decoding_equals_the_full_pass(name, chunks, small_pages):
    kernel = kernels()[name]
    layer, x = layer_and_input(kernel)
    cache, rows = KVCache(), []
    for chunk in x.split(chunks, dim=1):
        rows.append(layer(chunk, cache=cache))
    assert cache.length == 30
    got = torch.cat(rows, dim=1)
    if kernel.claims.length_free:
        torch.testing.assert_close(got, layer(x), rtol=0, atol=1e-10)
    else:  # each step then is the last row of a pass over what had been seen
        end = 0
        for row, chunk in zip(rows, chunks, strict=True):
            end += chunk
            torch.testing.assert_close(row, layer(x[:, :end])[:, -chunk:], rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [n for n in NAMES if kernels()[n].claims.length_free])
def test_decoding_in_halves_equals_the_full_pass(name, dtype, small_pages):
    layer, x = layer_and_input(kernels()[name])
    layer, x = layer.to(dtype), x.to(dtype)
    cache = KVCache()
    got = torch.cat([layer(chunk, cache=cache) for chunk in x.split([20, 1, 1, 8], dim=1)], dim=1)
    assert got.dtype == dtype and cache.values.dtype == dtype
    torch.testing.assert_close(got, layer(x), rtol=0, atol=0.02)


@torch.no_grad()
def test_a_dynamic_factor_cannot_be_cached_away():
    layer, x = layer_and_input(RoPE(HEAD_DIM, extension=NTK(length=8)))
    assert float((layer(x)[:, :9] - layer(x[:, :9])).abs().max()) > 1e-3


def test_storage_follows_the_claims():
    for kernel, mode in (
        (RoPE(8), "rotated"),
        (Damped(), "paged"),
        (RoPE(8, extension=NTK(length=8)), "raw"),
        (RoPE(8, extension=YaRN(4.0, 8)), "rotated"),
        (ALiBi(4), "raw"),
        (RoPE(8) + ALiBi(4), "rotated"),
    ):
        assert KVCache(kernel=kernel).mode == mode


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_paged_keys_stay_finite_far_out(dtype):
    # 0.05 * 131072 would overflow any float if keys were rotated about position 0.
    kernel = Damped(0.05)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 700, 8, generator=generator).to(dtype) for _ in range(3))
    positions = torch.arange(131_072, 131_772)
    cache = KVCache(kernel=kernel)
    cache.append(k[:, :, :650], v[:, :, :650], positions[:650])
    cache.append(k[:, :, 650:], v[:, :, 650:], positions[650:])
    assert bool(torch.isfinite(cache.keys).all())
    got = attend_cached(q[:, :, -1:], cache, q_pos=positions[-1:])
    want = attend(q.double(), k.double(), v.double(), Damped(0.05).double(), backend="eager")[
        :, :, -1:
    ]
    torch.testing.assert_close(
        got.double(), want, rtol=0, atol=1e-5 if dtype == torch.float32 else 2e-2
    )


@torch.no_grad()
def test_left_padded_decoding():
    kernel = RoPE(HEAD_DIM) + FourierJet(HEADS, LENGTH, zeta_scale=1.0)
    layer, x = layer_and_input(kernel, tokens=12)
    real = torch.ones(2, 12, dtype=torch.bool)
    real[0, :5] = False
    positions = left_padded_positions(real)
    cache = KVCache()
    layer(x[:, :11], cache=cache, q_pos=positions[:, :11], keep=real[:, None, None, :11])
    last = layer(x[:, 11:], cache=cache, q_pos=positions[:, 11:], keep=real[:, None, None])
    alone = layer(x[:1, 5:])
    torch.testing.assert_close(last[0, 0], alone[0, -1], rtol=0, atol=1e-10)


@torch.no_grad()
def test_grouped_heads_decode():
    layer, x = layer_and_input(RoPE(HEAD_DIM) + ALiBi(HEADS), kv_heads=2)
    cache = KVCache()
    got = torch.cat([layer(c, cache=cache) for c in x.split(7, dim=1)], dim=1)
    assert cache.keys.shape == (2, 2, 30, HEAD_DIM)
    torch.testing.assert_close(got, layer(x), rtol=0, atol=1e-10)


def test_a_cache_takes_only_what_continues_it():
    def filled():
        cache = KVCache(kernel=RoPE(8))
        cache.append(torch.zeros(2, 4, 8, 8), torch.zeros(2, 4, 8, 6), torch.arange(8))
        return cache

    def bad(k, v, pos, why):
        with pytest.raises(ValueError, match=why):
            filled().append(torch.zeros(k), torch.zeros(v), pos)

    two = torch.arange(8, 10)
    bad((1, 4, 2, 8), (1, 4, 2, 6), two, "only the number of tokens")
    bad((2, 1, 2, 8), (2, 1, 2, 6), two, "only the number of tokens")
    bad((2, 4, 2, 8), (2, 4, 1, 6), two, "must agree")
    bad((2, 4, 2, 8), (2, 4, 2, 6), torch.arange(3), "pos has shape")
    bad((2, 4, 2, 8), (2, 4, 2, 6), two.expand(2, -1), "only the number of tokens")
    with pytest.raises(ValueError, match="carries no gradients"):
        filled().append(torch.zeros(2, 4, 2, 8, requires_grad=True), torch.zeros(2, 4, 2, 6), two)
    bare = KVCache()
    bare.append(torch.zeros(2, 4, 8, 8), torch.zeros(2, 4, 8, 8), torch.arange(8))
    layer, x = layer_and_input(RoPE(HEAD_DIM))
    with torch.no_grad(), pytest.raises(ValueError, match="filled without a kernel"):
        layer(x[:, :1], cache=bare)


def test_a_cache_filled_under_inference_mode_goes_on_outside():
    layer, x = layer_and_input(RoPE(HEAD_DIM))
    cache = KVCache()
    with torch.inference_mode():
        layer(x[:, :20], cache=cache)
    with torch.no_grad():
        got = layer(x[:, 20:], cache=cache)
        torch.testing.assert_close(got, layer(x)[:, 20:], rtol=0, atol=1e-10)


@torch.no_grad()
def test_cache_refusals():
    layer, x = layer_and_input(RoPE(HEAD_DIM))
    cache = KVCache(max_length=10)
    layer(x[:, :8], cache=cache)
    with pytest.raises(ValueError, match=r"8 tokens cached and 3 new exceed max_length=10"):
        layer(x[:, :3], cache=cache)
    other, _ = layer_and_input(RoPE(HEAD_DIM, base=100.0))
    with pytest.raises(ValueError, match="another kernel"):
        other(x[:, :1], cache=cache)
    with pytest.raises(ValueError, match="max_length is 0"):
        KVCache(0)
    ids = torch.zeros(2, 30)
    with pytest.raises(ValueError, match="one document"):
        layer(x, cache=KVCache(), segments=(ids, ids))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AttentionLayer(30, 4), "width 30 does not split into 4"),
        (lambda: AttentionLayer(32, 4, kv_heads=3), "4 query heads are no multiple of 3"),
        (lambda: AttentionLayer(32, 4, kernel=ALiBi(8)), "made for 8 query heads, the layer has 4"),
        (lambda: AttentionLayer(32, 4, kernel=RoPE(16)), "made for 16 channels per head"),
        (lambda: AttentionLayer(32, 4, causal=1.5), "causal=1.5"),
    ],
)
def test_bad_layers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "name", ["none", "rope", "rope_ntk_dynamic", "alibi", "pj_full", "jordan_stabilized"]
)
def test_compiles_whole(name):
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    kernel, counter = kernels()[name], CompileCounter()
    compiled = torch.compile(attend, backend=counter, fullgraph=True, dynamic=None)
    for n in (16, 24, 40, 100):
        x = torch.randn(1, HEADS, n, HEAD_DIM)
        torch.testing.assert_close(compiled(x, x, x, kernel), attend(x, x, x, kernel))
    assert counter.frame_count <= 3


@pytest.mark.parametrize("name", ["damped_local", "mixture_order4"])
def test_kernels_that_grow_compile_in_pieces(name):
    # Their reach is read outside the graph, so that training may move it.
    torch._dynamo.reset()
    kernel, compiled = kernels()[name], torch.compile(attend, backend="eager", dynamic=None)
    for n in (16, 40):
        x = torch.randn(1, HEADS, n, HEAD_DIM)
        torch.testing.assert_close(compiled(x, x, x, kernel), attend(x, x, x, kernel))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(attend, backend="eager", fullgraph=True)(x, x, x, kernel)


@torch.no_grad()
def test_a_cache_notices_positions_that_do_not_run_on(small_pages):
    layer, x = layer_and_input(FourierJet(HEADS, LENGTH, zeta_scale=1.0))
    jumped = torch.tensor([*range(20), *range(40, 50)])
    cache = KVCache()
    rows = []
    for chunk, pos in zip(x.split(10, dim=1), jumped.split(10), strict=True):
        rows.append(layer(chunk, cache=cache, q_pos=pos))
    assert not cache.runs_on_to(jumped[-10:])
    torch.testing.assert_close(torch.cat(rows, dim=1), layer(x, q_pos=jumped), rtol=0, atol=1e-10)
    steady = KVCache()
    layer(x[:, :20], cache=steady, q_pos=torch.arange(7, 27))
    assert steady.runs_on_to(torch.tensor([25, 26]))
    assert not steady.runs_on_to(torch.tensor([24, 26]))
