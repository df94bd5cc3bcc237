"""The table and the fold against the truth, over drawn shapes, positions, dtypes and kernels."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import pjrope.attention.blocks as blocks_module
from pjrope.attention import attend, attend_plan
from pjrope.attention.backends import fold, sdpa, toeplitz
from pjrope.attention.call import make_call
from pjrope.kernels import Affine, ALiBi, FourierJet, LightCone, PJBias, PJInit, RoPE
from pjrope.positions import left_padded_positions, packed_positions
from tests.kernels.catalogue import HEAD_DIM, HEADS, LENGTH, Damped, kernels

FAST = {"toeplitz": toeplitz, "fold": fold}
DRAWS = 20
BIASED = [name for name, kernel in kernels().items() if kernel.biases]


def drawn(seed: int) -> dict:
    """A random call: batch, heads, lengths, causality, positions."""
    generator = torch.Generator().manual_seed(seed)

    def pick(*options):
        return options[int(torch.randint(len(options), (1,), generator=generator))]

    keys = pick(1, 2, 17, 33, 64, 75)
    queries = min(keys, pick(keys, keys, 1, 5, 20))
    shape = {
        "batch": pick(1, 2),
        "kv": pick(1, 2, 4),
        "queries": queries,
        "keys": keys,
        "values": pick(6, 8, 11),
    }
    start = pick(None, 0, 1000)
    call = {"causal": pick(True, True, False)}
    if start is not None:
        call["k_pos"] = torch.arange(start, start + keys)
        call["q_pos"] = torch.arange(start + keys - queries, start + keys) + pick(0, 3)
    return {"shape": shape, "call": call, "generator": generator}


def tensors(draw: dict, dtype=torch.float64):
    s, generator = draw["shape"], draw["generator"]
    q = torch.randn(
        s["batch"], HEADS, s["queries"], HEAD_DIM, generator=generator, dtype=torch.float64
    )
    k = torch.randn(
        s["batch"], s["kv"], s["keys"], HEAD_DIM, generator=generator, dtype=torch.float64
    )
    v = torch.randn(
        s["batch"], s["kv"], s["keys"], s["values"], generator=generator, dtype=torch.float64
    )
    return [x.to(dtype) for x in (q, k, v)]


def refusal(backend, q, k, v, kernel, call):
    return FAST[backend].refuses(make_call(q, k, v, kernel, **call))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks_module, "LARGEST_BLOCK", 16)
    monkeypatch.setattr(toeplitz, "BACKWARD_ROWS", 8)
    monkeypatch.setattr(toeplitz, "FORWARD_ROWS", 16)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("seed", range(DRAWS))
def test_equals_the_truth_on_outputs_and_all_gradients(seed, backend, dtype, small_blocks):
    name, draw = BIASED[seed % len(BIASED)], drawn(seed)
    kernel = kernels(key_heads=draw["shape"]["kv"])[name]
    kernel = kernel.double() if dtype == torch.float64 else kernel
    inputs = [x.requires_grad_() for x in tensors(draw, dtype)]
    if why := refusal(backend, *inputs, kernel, draw["call"]):
        with pytest.raises(ValueError, match=why):
            attend(*inputs, kernel, backend=backend, **draw["call"])
        return
    wanted = [*inputs, *kernel.parameters()]
    found = []
    for each in ("eager", backend):
        out = attend(*inputs, kernel, backend=each, **draw["call"])
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        found.append([out, *torch.autograd.grad((out * weights).sum(), wanted)])
    bound = 1e-10 if dtype == torch.float64 else 2e-5
    for truth, fast in zip(*found, strict=True):
        scale = max(1.0, float(truth.detach().abs().max()))
        torch.testing.assert_close(fast, truth, rtol=0, atol=bound * scale)


def test_the_draws_reach_both_backends():
    taken = {backend: 0 for backend in FAST}
    built = {heads: kernels(key_heads=heads) for heads in (1, 2, HEADS)}
    for seed in range(DRAWS):
        draw = drawn(seed)
        kernel = built[draw["shape"]["kv"]][BIASED[seed % len(BIASED)]]
        for backend in FAST:
            taken[backend] += refusal(backend, *tensors(draw), kernel, draw["call"]) is None
    assert min(taken.values()) >= 5, taken


PACKED = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3])

REFUSALS = [
    ("toeplitz", RoPE(HEAD_DIM), {}, "adds no bias"),
    ("toeplitz", Damped(near=4) + ALiBi(HEADS), {}, "an origin per block"),
    (
        "toeplitz",
        ALiBi(HEADS),
        {"q_pos": PACKED, "segments": (torch.arange(12) // 3,) * 2},
        "not one",
    ),
    ("toeplitz", ALiBi(HEADS), {"q_pos": torch.arange(12) * 2}, "not one constant"),
    ("toeplitz", ALiBi(HEADS), {"q_pos": PACKED.expand(2, -1)}, "not one constant"),
    ("fold", LightCone(HEADS, LENGTH), {}, "no finite rank"),
    ("fold", ALiBi(HEADS), {"causal": False}, "the past only"),
    ("fold", ALiBi(HEADS), {"keep": torch.ones(12, 12, dtype=torch.bool)}, "a mask"),
    ("fold", ALiBi(HEADS), {"q_pos": torch.arange(12).flip(0)}, "behind queries"),
    ("fold", ALiBi(HEADS), {"q_pos": torch.arange(12).expand(2, -1)}, "differ between rows"),
    (
        "fold",
        ALiBi(HEADS),
        {"q_pos": torch.arange(12), "k_pos": torch.arange(12)[:9]},
        "more queries",
    ),
]


@pytest.mark.parametrize(("backend", "kernel", "call", "why"), REFUSALS)
def test_what_a_backend_cannot_take_it_refuses_and_auto_takes_another(backend, kernel, call, why):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, HEADS, 12, HEAD_DIM, generator=generator) for _ in range(3))
    k, v = (x[:, :, : len(call["k_pos"])] if "k_pos" in call else x for x in (k, v))
    with pytest.raises(ValueError, match=why):
        attend(q, k, v, kernel, backend=backend, **call)
    with pytest.raises(ValueError, match=why):
        attend_plan(q, k, v, kernel, backend=backend, **call)
    auto = attend(q, k, v, kernel, **call)
    torch.testing.assert_close(
        auto, attend(q, k, v, kernel, backend="eager", **call), rtol=0, atol=1e-5
    )


def masked_calls() -> dict[str, dict]:
    """Calls with masks whose lags still follow from indices."""
    generator = torch.Generator().manual_seed(1)
    real = torch.ones(2, 40, dtype=torch.bool)
    real[0, :11] = False
    padded = left_padded_positions(real)
    packed, ids = packed_positions([1, 1, 17, 21])
    return {
        "strict": {"causal": "strict"},
        "drawn": {"keep": torch.rand(2, HEADS, 40, 40, generator=generator) > 0.5},
        "drawn_rows": {"keep": torch.rand(40, 40, generator=generator) > 0.5, "causal": False},
        "padded": {"q_pos": padded, "k_pos": padded, "keep": real[:, None, None]},
        "packed": {"q_pos": packed, "k_pos": packed, "segments": (ids[None], ids[None])},
        "packed_1d": {"q_pos": packed, "k_pos": packed, "segments": (ids, ids)},
    }


@pytest.mark.parametrize("call", masked_calls())
@pytest.mark.parametrize("name", ["alibi", "jet3", "pj_full", "rope_pj"])
def test_masks_in_the_table_backend(name, call, small_blocks):
    kernel, options = kernels()[name].double(), masked_calls()[call]
    generator = torch.Generator().manual_seed(0)
    inputs = [
        torch.randn(2, HEADS, 40, HEAD_DIM, generator=generator).double().requires_grad_()
        for _ in range(3)
    ]
    found = []
    for backend in ("eager", "toeplitz"):
        out = attend(*inputs, kernel, backend=backend, **options)
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        found.append(
            [out, *torch.autograd.grad((out * weights).sum(), [*inputs, *kernel.parameters()])]
        )
    for truth, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, truth, rtol=0, atol=1e-10)


@torch.no_grad()
def test_lags_that_do_not_follow_from_indices_are_noticed():
    real = torch.ones(1, 8, dtype=torch.bool)
    real[0, :3] = False
    holes = real.clone()
    holes[0, 5] = False  # a hole: positions behind it run one short of the indices
    ids = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])  # documents in two pieces each
    rising = torch.tensor([0, 1, 0, 1, 2, 3, 2, 3])
    zeros = torch.zeros(1, 2, 8, 4)
    for call, offset in (
        ({"q_pos": left_padded_positions(real), "keep": real[:, None, None]}, 0),
        ({"q_pos": left_padded_positions(holes), "keep": holes[:, None, None]}, None),
        ({"q_pos": rising, "segments": (ids, ids)}, None),
        ({"q_pos": torch.arange(8) + 4, "k_pos": torch.arange(8)}, 4),
        ({"q_pos": torch.arange(8).expand(1, -1)}, 0),
        ({"q_pos": torch.arange(8) * 2}, None),
    ):
        assert make_call(zeros, zeros, zeros, ALiBi(2), **call).offset == offset


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_narrow_inputs(backend, dtype, bound):
    kernel = RoPE(HEAD_DIM) + FourierJet(HEADS, 256, max_order=3, zeta_scale=1.0)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(1, HEADS, 600, HEAD_DIM, generator=generator).to(dtype) for _ in range(3)
    )
    got = attend(q, k, v, kernel, backend=backend)
    assert got.dtype == dtype
    want = attend(q.double(), k.double(), v.double(), kernel, backend="eager")
    torch.testing.assert_close(got.double(), want, rtol=0, atol=bound)


@pytest.mark.parametrize("backend", FAST)
def test_autocast_changes_nothing_for_fp32_inputs(backend):
    kernel = RoPE(HEAD_DIM) + Affine(HEADS, LENGTH)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, 40, HEAD_DIM, generator=generator) for _ in range(3))
    plain = attend(q, k, v, kernel, backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(attend(q, k, v, kernel, backend=backend), plain)


@pytest.mark.parametrize("length", [128, 1024])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: ALiBi(HEADS),
        lambda n: Affine(HEADS, n),
        lambda n: FourierJet(HEADS, n, max_order=3, zeta_scale=1.0),
        lambda n: PJBias(HEADS, n, sectors=("fj", "affine"), init=PJInit(zeta_scale=1.0)),
    ],
    ids=["alibi", "affine", "jet3", "fj_affine"],
)
@torch.no_grad()
def test_fold_keeps_its_precision_far_beyond_the_training_length(make, length):
    kernel, n = make(length), 8192
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, n, HEAD_DIM, generator=generator) for _ in range(3))
    got = attend(q, k, v, kernel, backend="fold")[:, :, -64:]
    last = torch.arange(n - 64, n)
    want = attend(
        q[:, :, -64:].double(), k.double(), v.double(), kernel.double(), q_pos=last,
        k_pos=torch.arange(n), backend="eager",
    )  # fmt: skip
    torch.testing.assert_close(got.double(), want, rtol=0, atol=2e-3)


def test_fold_refuses_to_lose_precision_and_auto_does_not_choose_it():
    kernel = FourierJet(HEADS, 16, max_order=3, damping=0.0, zeta_scale=1.0)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, 3000, HEAD_DIM, generator=generator) for _ in range(3))
    with pytest.raises(
        ValueError, match=r"would round logits by up to .* backend='toeplitz' or fp64"
    ):
        attend(q, k, v, kernel, backend="fold")
    assert attend_plan(q.requires_grad_(), k, v, kernel).backend == "toeplitz"


def test_auto_keeps_gradients_exact_where_a_fold_would_not():
    # Twelve training lengths: the logits of a fold are still fine, its frequency gradient is not.
    kernel = PJBias(HEADS, 64, sectors=("fj", "affine"), init=PJInit(zeta_scale=1.0))
    generator = torch.Generator().manual_seed(0)
    x = [torch.randn(1, HEADS, 768, HEAD_DIM, generator=generator) for _ in range(3)]
    weights = torch.randn(1, HEADS, 768, HEAD_DIM, generator=generator)
    grads = {}
    for backend in ("eager", "auto"):
        loss = (attend(*x, kernel, backend=backend) * weights).sum()
        grads[backend] = torch.autograd.grad(loss, list(kernel.parameters()))
    for exact, fast in zip(*grads.values(), strict=True):
        scale = float(exact.abs().max())
        torch.testing.assert_close(fast, exact, rtol=0, atol=3e-4 * scale)


def test_padding_rows_too_are_right_without_causality():
    real = torch.ones(2, 12, dtype=torch.bool)
    real[0, :5] = False
    positions = left_padded_positions(real)
    kernel = kernels()["jet3"]
    x = torch.randn(2, HEADS, 12, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    call = {"q_pos": positions, "k_pos": positions, "keep": real[:, None, None], "causal": False}
    auto = attend(x, x, x, kernel, **call)
    torch.testing.assert_close(
        auto, attend(x, x, x, kernel, backend="eager", **call), rtol=0, atol=1e-5
    )


def test_auto_chooses_by_gradients_length_and_rank():
    def plan(n, kernel, grad):
        q = torch.zeros(1, HEADS, n, HEAD_DIM, requires_grad=grad)
        with torch.set_grad_enabled(grad):
            return attend_plan(q, q, q, kernel).backend

    assert plan(1000, Affine(HEADS, 100), grad=False) == "toeplitz"
    assert plan(1000, Affine(HEADS, 100), grad=True) == "toeplitz"
    assert plan(1000, PJBias(HEADS, 100), grad=True) == "toeplitz"
    assert plan(100, PJBias(HEADS, 100), grad=True) == "sdpa"
    q = torch.zeros(1, HEADS, 200, HEAD_DIM)
    assert attend_plan(q, q, q, Affine(HEADS, 100)).backend == "sdpa", "the kernel alone trains"
    assert attend_plan(q, q, q, ALiBi(HEADS)).backend == "toeplitz"
    assert plan(300, ALiBi(HEADS), grad=True) == "sdpa"
    assert plan(300, Affine(HEADS, 100), grad=True) == "toeplitz"


class _Largest(TorchDispatchMode):
    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, torch.Tensor):
                self.largest = max(self.largest, x.untyped_storage().nbytes() // x.element_size())
        return out


@pytest.mark.parametrize("backend", FAST)
def test_no_square_tensor_in_either_pass(backend):
    n = 4096
    kernel = PJBias(1, 256, sectors=("fj", "affine"))
    x = torch.randn(1, 1, n, HEAD_DIM, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with _Largest() as watch:
        attend(x, x, x, kernel, backend=backend).sum().backward()
    assert watch.largest <= n * blocks_module.LARGEST_BLOCK + 4 * n


def test_two_backward_passes_give_the_same_bits():
    kernel = PJBias(HEADS, LENGTH, init=PJInit(zeta_scale=0.7))
    x = torch.randn(2, HEADS, 300, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    runs = []
    for _ in range(2):
        kernel.zero_grad()
        attend(x, x, x, kernel, backend="toeplitz").square().sum().backward()
        runs.append([p.grad.clone() for p in kernel.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_skewed_room_sums_diagonals():
    block, columns = toeplitz.skewed(2, 3, 4, torch.zeros(1))
    x = torch.arange(24.0).view(2, 3, 4)
    block.copy_(x)
    want = torch.zeros(2, 6)
    for r in range(3):
        for j in range(4):
            want[:, r + j] += x[:, r, j]
    assert torch.equal(columns.sum(1), want)


@torch.no_grad()
@pytest.mark.parametrize("queries", [30, 12])
@pytest.mark.parametrize(
    "name", ["rope_partial", "rope_yarn", "rope_ntk_dynamic", "rope_yarn_dynamic", "direct_sum"]
)
def test_rotations_piece_by_piece_change_nothing(name, queries, monkeypatch):
    kernel = kernels()[name]
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, HEADS, n, HEAD_DIM, generator=generator) for n in (queries, 30, 30))
    pos = torch.arange(30)  # beyond LENGTH, where dynamic frequencies depend on the longest
    call = {"q_pos": pos[-queries:], "k_pos": pos, "causal": queries == 30}
    monkeypatch.setattr(sdpa, "ROTATED_NUMBERS", 100)
    whole = attend(q, k, v, kernel, backend="sdpa", **call)
    monkeypatch.setattr(sdpa, "PIECE", 7)
    torch.testing.assert_close(attend(q, k, v, kernel, backend="sdpa", **call), whole)
    wider = torch.cat([v, v], dim=-1)  # the output then has no room for rotated queries
    got = attend(q, k, wider, kernel, backend="sdpa", **call)
    torch.testing.assert_close(got, torch.cat([whole, whole], dim=-1))
    torch.testing.assert_close(whole, attend(q, k, v, kernel, backend="eager", **call))


@torch.no_grad()
def test_rows_of_a_block_change_nothing_and_grow_with_the_keys(monkeypatch):
    kernel = kernels()["pj_full"]
    q, k, v = (torch.randn(1, HEADS, 75, HEAD_DIM, dtype=torch.float64) for _ in range(3))
    whole = attend(q, k, v, kernel, backend="toeplitz")
    monkeypatch.setattr(toeplitz, "FORWARD_ROWS", 7)
    torch.testing.assert_close(attend(q, k, v, kernel, backend="toeplitz"), whole)
    monkeypatch.setattr(toeplitz, "LONG", 75)
    monkeypatch.setattr(toeplitz, "LONG_ROWS", 20)
    shapes = []
    fused = toeplitz.fused_attention

    def watched(q, *call, **options):
        shapes.append(q.shape[2])
        return fused(q, *call, **options)

    monkeypatch.setattr(toeplitz, "fused_attention", watched)
    torch.testing.assert_close(attend(q, k, v, kernel, backend="toeplitz"), whole)
    assert shapes == [20, 20, 20, 15]
