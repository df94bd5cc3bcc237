"""`attend` against a loop in plain Python, backend against backend, and the cases users tripped over."""

from __future__ import annotations

import math

import pytest
import torch

import pjrope.attention.blocks as blocks_module
from pjrope.attention import attend, attend_plan
from pjrope.attention.backends import sdpa
from pjrope.kernels import ALiBi, FourierJet, NoPE, PJBias, PJInit, RoPE, reference
from pjrope.positions import NTK, YaRN, causal_keep, left_padded_positions, packed_positions
from tests.kernels.catalogue import FUSABLE, HEAD_DIM, HEADS, LENGTH, NAMES, Damped, kernels

BACKENDS = ("eager", "sdpa")


def draw(
    batch=2, heads=HEADS, kv=HEADS, queries=12, keys=12, values=6, dtype=torch.float64, seed=0
):
    generator = torch.Generator().manual_seed(seed)
    shapes = (
        (batch, heads, queries, HEAD_DIM),
        (batch, kv, keys, HEAD_DIM),
        (batch, kv, keys, values),
    )
    return tuple(torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes)


def cosine_bias(heads=HEADS):
    """A bias that a missing offset cannot hide from (ALiBi is blind to one)."""
    return FourierJet(heads, LENGTH, max_order=3, zeta_scale=1.0, seed=5)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks_module, "LARGEST_BLOCK", 16)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("causal", [True, False, "strict"])
def test_equals_a_loop_in_plain_python(backend, causal):
    kernel = RoPE(HEAD_DIM) + cosine_bias(2)
    q, k, v = draw(1, 2, 2, 5, 7)
    q_pos, k_pos = torch.tensor([9, 10, 11, 40, 41]), torch.tensor([0, 1, 5, 9, 10, 40, 41])
    got = attend(q, k, v, kernel, q_pos=q_pos, k_pos=k_pos, causal=causal, backend=backend)
    omega = reference.rope_ladder(HEAD_DIM)
    keep = causal_keep(5, 7, causal).tolist()
    bias = kernel.lag_bias((q_pos[:, None] - k_pos[None]).flatten()).view(2, 5, 7)
    for head in range(2):
        rows_q = [
            reference.rope_rotate(r.tolist(), int(p), omega)
            for r, p in zip(q[0, head], q_pos, strict=True)
        ]
        rows_k = [
            reference.rope_rotate(r.tolist(), int(p), omega)
            for r, p in zip(k[0, head], k_pos, strict=True)
        ]
        want = reference.attention(
            rows_q, rows_k, v[0, head].tolist(), bias[head].tolist(), keep, 1 / math.sqrt(HEAD_DIM)
        )
        torch.testing.assert_close(
            got[0, head].detach(), torch.tensor(want, dtype=torch.float64), rtol=0, atol=1e-10
        )


BACKEND_OF_EACH = [
    (backend, name) for backend in BACKENDS for name in (NAMES if backend == "eager" else FUSABLE)
]

SHAPES = [
    {"queries": 33, "keys": 33},
    {"queries": 5, "keys": 33},
    {"queries": 1, "keys": 33},
    {"queries": 40, "keys": 33},
    {"queries": 33, "keys": 33, "kv": 2},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s.values())))
@pytest.mark.parametrize("name", FUSABLE)
def test_backends_agree_on_outputs_and_all_gradients(name, shape, small_blocks):
    kernel = kernels(shape.get("kv", HEADS))[name].double()
    generator = torch.Generator().manual_seed(9)
    drawn = (FUSABLE.index(name) + SHAPES.index(shape)) % 4  # every kind of call, each in turn
    options = [
        {"causal": True},
        {"causal": False},
        {"causal": "strict"},
        {"keep": torch.rand(2, 1, shape["queries"], shape["keys"], generator=generator) > 0.4},
    ][drawn]
    found = {}
    for backend in BACKENDS:
        q, k, v = (x.requires_grad_() for x in draw(**shape))
        out = attend(q, k, v, kernel, backend=backend, **options)
        wanted = [q, k, v, *kernel.parameters()]
        weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
        found[backend] = [out, *torch.autograd.grad((out * weights).sum(), wanted)]
    for a, b in zip(found["eager"], found["sdpa"], strict=True):
        torch.testing.assert_close(b, a, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("backend", "name"), BACKEND_OF_EACH)
def test_blocks_change_nothing(name, backend, monkeypatch):
    kernel = kernels()[name]
    q, k, v = draw(queries=50, keys=50, dtype=torch.float32)
    whole = attend(q, k, v, kernel, backend=backend)
    monkeypatch.setattr(blocks_module, "LARGEST_BLOCK", 16)
    assert attend_plan(q, k, v, kernel, backend=backend).backend == backend
    blocks = attend(q, k, v, kernel, backend=backend)
    torch.testing.assert_close(blocks, whole, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("backend", "name"), BACKEND_OF_EACH)
def test_odd_lengths_and_shifted_positions(name, backend):
    kernel = kernels()[name]
    q, k, v = draw(queries=37, keys=37, dtype=torch.float32)
    positions = torch.arange(37)
    here = attend(q, k, v, kernel, q_pos=positions, k_pos=positions, backend=backend)
    torch.testing.assert_close(here, attend(q, k, v, kernel, backend=backend), rtol=0, atol=2e-6)
    there = attend(q, k, v, kernel, q_pos=positions + 500, k_pos=positions + 500, backend=backend)
    moved = float((there - here).detach().abs().max())
    assert (moved < 1e-4) == kernel.claims.relative


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_growing_action_keeps_the_relative_law_far_out(backend, dtype):
    # Rotated about position 0 the keys would reach e^{0.05 * 131072}: re-basing keeps them finite.
    kernel = Damped(0.05)
    q, k, v = draw(1, 2, 2, 600, 600, dtype=dtype)
    start = 131_072
    positions = torch.arange(start, start + 600)
    assert not bool(torch.isfinite(kernel.rotate(None, k, None, positions)[1]).all())
    far = attend(q, k, v, kernel, q_pos=positions, k_pos=positions, backend=backend)
    near = attend(q.double(), k.double(), v.double(), Damped(0.05).double(), backend="eager")
    bound = 2e-6 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(far.double(), near, rtol=0, atol=bound)


@pytest.mark.parametrize("backend", BACKENDS)
def test_left_padding(backend):
    kernel = RoPE(HEAD_DIM) + cosine_bias()
    q, k, v = draw(1, queries=17, keys=17, dtype=torch.float32)
    real = torch.ones(1, 17, dtype=torch.bool)
    real[:, :5] = False
    for x in (q, k, v):
        x[:, :, :5] = 7.0
    positions = left_padded_positions(real)
    padded = attend(
        q, k, v, kernel, q_pos=positions, k_pos=positions, keep=real[:, None, None], backend=backend
    )
    alone = attend(q[:, :, 5:], k[:, :, 5:], v[:, :, 5:], kernel, backend=backend)
    torch.testing.assert_close(padded[:, :, 5:], alone, rtol=0, atol=1e-5)
    assert bool(torch.isfinite(padded).all())
    assert bool((padded[:, :, :5] == 0).all())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lengths", [(7, 9), (1, 1, 3)])
def test_packed_documents_do_not_see_each_other(backend, lengths):
    kernel = RoPE(HEAD_DIM) + cosine_bias()
    total = sum(lengths)
    q, k, v = draw(1, queries=total, keys=total, dtype=torch.float32)
    positions, ids = packed_positions(lengths)
    call = {
        "q_pos": positions,
        "k_pos": positions,
        "segments": (ids[None], ids[None]),
        "backend": backend,
    }
    packed = attend(q, k, v, kernel, **call)
    loud = k.clone()
    loud[:, :, : lengths[0]] += 100
    after = attend(q, loud, v, kernel, **call)
    assert torch.equal(after[:, :, lengths[0] :], packed[:, :, lengths[0] :])
    last = lengths[-1]
    alone = attend(q[:, :, -last:], k[:, :, -last:], v[:, :, -last:], kernel, backend=backend)
    torch.testing.assert_close(packed[:, :, -last:], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["none", "rope", "pj_full", "damped"])
def test_a_row_that_sees_nothing_gives_zeros_and_finite_gradients(name, backend):
    kernel = kernels()[name]
    q, k, v = (x.requires_grad_() for x in draw(queries=6, keys=6, dtype=torch.float32))
    keep = torch.ones(6, 6, dtype=torch.bool)
    keep[3] = False
    out = attend(q, k, v, kernel, keep=keep, backend=backend)
    assert bool((out[:, :, 3] == 0).all())
    out.square().sum().backward()
    for x in (q, k, v, *kernel.parameters()):
        assert bool(torch.isfinite(x.grad).all())
    strict = attend(q, k, v, kernel, causal="strict", backend=backend)
    assert bool((strict[:, :, 0] == 0).all())
    assert bool((strict[:, :, 1] != 0).any())


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_query_sees_the_whole_cache(backend):
    q, k, v = draw(1, queries=1, keys=9, dtype=torch.float32)
    out = attend(q, k, v, NoPE(), backend=backend)
    assert not torch.allclose(out[:, :, 0], v[:, :, 0])
    full = attend(q.expand(-1, -1, 9, -1), k, v, NoPE(), backend=backend)
    torch.testing.assert_close(out[:, :, 0], full[:, :, -1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_grouped_heads_repeat_interleave_and_keep_their_own_bias_row(backend):
    kernel = ALiBi(8)
    q, k, v = draw(1, 8, 2, dtype=torch.float64)
    got = attend(q, k, v, kernel, backend=backend)
    for h in range(8):
        alone = ALiBi(8)
        alone.slopes.copy_(kernel.slopes[h].expand(8))
        one = [x[:, h // 4 : h // 4 + 1] for x in (k, v)]
        want = attend(
            q[:, h : h + 1].expand(-1, 8, -1, -1), *(x.expand(-1, 8, -1, -1) for x in one), alone
        )
        torch.testing.assert_close(got[:, h], want[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_inputs_keep_their_dtype_and_a_wide_bias(backend, dtype):
    kernel = RoPE(HEAD_DIM) + PJBias(HEADS, LENGTH, init=PJInit(zeta_scale=0.7))
    q, k, v = draw(queries=40, keys=40, dtype=dtype)
    got = attend(q, k, v, kernel, backend=backend)
    assert got.dtype == dtype
    want = attend(q.double(), k.double(), v.double(), kernel, backend="eager")
    torch.testing.assert_close(
        got.double(), want, rtol=0, atol=3e-2 if dtype == torch.bfloat16 else 4e-3
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["rope", "pj_full", "alibi"])
def test_autocast_changes_nothing_for_fp32_inputs(name, backend):
    kernel = kernels()[name]
    q, k, v = draw(queries=64, keys=64, dtype=torch.float32)
    positions = torch.arange(5000, 5064)
    plain = attend(q, k, v, kernel, q_pos=positions, k_pos=positions, backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        cast = attend(q, k, v, kernel, q_pos=positions, k_pos=positions, backend=backend)
    assert torch.equal(plain, cast)


def test_only_the_bias_trains():
    kernel = PJBias(HEADS, LENGTH)
    q, k, v = draw(dtype=torch.float32)
    grads = {}
    for backend in BACKENDS:
        kernel.zero_grad()
        attend(q, k, v, kernel, backend=backend).square().sum().backward()
        grads[backend] = [p.grad.clone() for p in kernel.parameters()]
    for a, b in zip(*grads.values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_bias_without_causality_is_finite_and_symmetric():
    kernel = cosine_bias()
    x, _, _ = draw(1, queries=400, keys=400)
    v = torch.eye(400, dtype=torch.float64).expand(1, HEADS, -1, -1)
    weights = attend(
        torch.zeros_like(x), torch.zeros_like(x), v, kernel, causal=False, backend="eager"
    )
    logits = weights.log()
    logits = logits - logits.diagonal(dim1=-2, dim2=-1)[..., None]
    torch.testing.assert_close(logits, logits.transpose(-1, -2), rtol=0, atol=1e-9)


def test_sparse_positions_need_no_table():
    kernel = cosine_bias()
    q, k, v = draw(queries=4, keys=4)
    positions = torch.tensor([0, 2**31, 2**31 + 1, 2**40])
    far = attend(q, k, v, kernel, q_pos=positions, k_pos=positions)
    assert bool(torch.isfinite(far).all())
    torch.testing.assert_close(
        far,
        attend(q, k, v, kernel, q_pos=positions, k_pos=positions, backend="eager"),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("kind", [NTK, YaRN])
def test_dynamic_factors_belong_to_rows(kind):
    # A short row beside a long one is what it is alone, in the batch and left-padded.
    kernel = RoPE(HEAD_DIM, extension=kind(length=8))
    q, k, v = draw(2, queries=30, keys=30)
    real = torch.ones(2, 30, dtype=torch.bool)
    real[0, :18] = False
    positions = left_padded_positions(real)
    both = attend(q, k, v, kernel, q_pos=positions, k_pos=positions, keep=real[:, None, None])
    short = [x[:1, :, 18:] for x in (q, k, v)]
    torch.testing.assert_close(both[:1, :, 18:], attend(*short, kernel), rtol=0, atol=1e-6)
    long = [x[1:] for x in (q, k, v)]
    torch.testing.assert_close(both[1:], attend(*long, kernel), rtol=0, atol=1e-6)


def test_inference_mode_then_training():
    kernel = RoPE(HEAD_DIM) + cosine_bias()
    q, k, v = draw(dtype=torch.float32)
    with torch.inference_mode():
        attend(q, k, v, kernel)
    attend(q.requires_grad_(), k, v, kernel).sum().backward()
    assert bool(torch.isfinite(q.grad).all())


def test_two_backward_passes_give_the_same_bits():
    kernel = PJBias(HEADS, LENGTH)
    q, k, v = draw(queries=40, keys=40, dtype=torch.float32)
    runs = []
    for _ in range(2):
        kernel.zero_grad()
        attend(q, k, v, kernel).square().sum().backward()
        runs.append([p.grad.clone() for p in kernel.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


class _LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Remembers the largest tensor that any operation returned, in numbers."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, torch.Tensor) and x.untyped_storage().nbytes() > 0:
                self.largest = max(self.largest, x.untyped_storage().nbytes() // x.element_size())
        return out


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_square_tensor_beyond_2048(backend):
    n = 4096
    q, k, v = (x[:1, :1].contiguous() for x in draw(1, 1, 1, n, n, dtype=torch.float32))
    with torch.no_grad(), _LargestTensor() as watch:
        attend(q, k, v, RoPE(HEAD_DIM) + ALiBi(1), backend=backend)
    assert watch.largest <= n * blocks_module.LARGEST_BLOCK + 4 * n


@pytest.mark.parametrize("kernel", [RoPE(HEAD_DIM), ALiBi(1), Damped(near=500)], ids=str)
def test_values_of_another_width_stay_on_the_fused_path(kernel):
    # torch leaves it where q and v differ in width, for N x N weights.
    n = 4096
    q, k, v = (x[:1, :1].contiguous() for x in draw(1, 1, 1, n, n, dtype=torch.float32))
    for values in (v[..., :5], torch.cat([v, v], -1)):
        with torch.no_grad(), _LargestTensor() as watch:
            got = attend(q, k, values, kernel)
        assert watch.largest <= n * blocks_module.LARGEST_BLOCK + 4 * n
        want = attend(q, k, values, kernel, backend="eager")
        torch.testing.assert_close(got, want.detach(), rtol=0, atol=1e-5)


def test_plans_say_what_will_run():
    q, k, v = draw(queries=64, keys=64, dtype=torch.float32)
    fused = attend_plan(q, k, v, RoPE(HEAD_DIM))
    assert (fused.backend, fused.reason) == ("sdpa", "no bias and no mask: one fused call")
    biased = attend_plan(q, k, v, ALiBi(HEADS))
    assert biased.backend == "toeplitz" and "a bias" in biased.reason
    assert biased.peak_bytes > fused.peak_bytes
    cached = attend_plan(q[:, :, :1], k, v, RoPE(HEAD_DIM))
    assert "queries and keys differ in number" in cached.reason
    assert "an origin per block" in attend_plan(q, k, v, Damped(near=4)).reason
    assert attend_plan(q, k, v, Damped()).reason == fused.reason  # one origin serves them all
    assert attend_plan(q, k, v, ALiBi(HEADS), backend="eager").reason == "asked for"


Q, K, V = draw()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attend(Q[0], K, V), "q has shape"),
        (lambda: attend(Q, K, V[:, :, :5]), "differ in batch, heads or tokens"),
        (lambda: attend(Q[..., :4], K, V), "differ in batch or channels"),
        (lambda: attend(Q, K[:, :3], V[:, :3]), "4 query heads are no multiple of 3"),
        (lambda: attend(Q, K.float(), V), "cast them to one"),
        (lambda: attend(Q, K, V, ALiBi(2)), "made for 2 query heads, the call has 4"),
        (lambda: attend(Q, K, V, RoPE(16)), "made for 16 channels per head, the call has 8"),
        (lambda: attend(Q, K, V, q_pos=torch.rand(12)), "positions are integers"),
        (lambda: attend(Q, K, V, q_pos=torch.arange(5)), "q_pos has shape"),
        (lambda: attend(Q[:, :, :3], K, V, q_pos=torch.arange(3)), "pass both q_pos and k_pos"),
        (lambda: attend(Q, K, V, causal="yes"), "causal='yes'"),
        (lambda: attend(Q, K, V, causal=1), "causal=1: use True"),
        (lambda: attend(Q, K, V, causal=0), "causal=0: use True"),
        (lambda: attend_plan(Q, K, V, ALiBi(4), causal=False, backend="fold"), "the past only"),
        (lambda: attend(Q, K, V, keep=torch.ones(2, 12)), "a boolean mask"),
        (lambda: attend(Q, K, V, keep=torch.ones(5, 5, dtype=torch.bool)), "does not broadcast"),
        (lambda: attend(Q, K, V, segments=torch.zeros(2, 12)), "segments is a pair"),
        (lambda: attend(Q, K, V, segments=(torch.zeros(2, 5), torch.zeros(2, 12))), "q segments"),
        (lambda: attend(Q, K, V, backend="flash"), "backend is 'flash'"),
        (lambda: attend(Q[:, :, :0], K, V), "0 queries"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


ACTING = [n for n in FUSABLE if kernels()[n].rotates and not kernels()[n].biases]


@torch.no_grad()
@pytest.mark.parametrize("kv", [1, 2, 4])
@pytest.mark.parametrize("name", ACTING)
def test_long_rotations_head_by_head_change_nothing(name, kv, monkeypatch):
    kernel = kernels(key_heads=kv)[name]
    for values in kernel.parameters():  # every head its own
        values.mul_(torch.linspace(0.8, 1.2, values.numel()).view_as(values))
    q, k, v = draw(2, HEADS, kv, 40, 40)
    for number in (torch.float32, torch.bfloat16):
        call = [x.to(number) for x in (q, k, v)]
        monkeypatch.undo()
        whole = attend(*call, kernel, backend="sdpa")
        monkeypatch.setattr(sdpa, "ROTATED_NUMBERS", 100)
        torch.testing.assert_close(attend(*call, kernel, backend="sdpa"), whole)
        if number == torch.float32:
            truth = attend(*call, kernel, backend="eager")
            torch.testing.assert_close(whole, truth, rtol=0, atol=2e-5)
