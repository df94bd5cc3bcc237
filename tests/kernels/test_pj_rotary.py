"""PJ-rotary: its closed form, the paper's transform by hand, the law far out, its neighbours."""

import json
import math

import pytest
import torch
from torch import nn

from pjrope import KVCache, PJRotary, attend, attend_plan
from pjrope.attention.decoding import attend_cached
from pjrope.kernels import (
    JordanRoPE,
    PJBias,
    PJInit,
    RoPE,
    kernel_from_spec,
    reference,
)
from pjrope.models import Decoder, DecoderConfig
from tests.kernels.test_jordan import pair

FAR = 131_072


def random(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def by_hand(q, k, i, j, length, eta, base):
    """The paper's feature transform for order 2, in complex numbers at absolute positions."""
    n, total = len(q) // 4, 0.0
    for b in range(n):
        w = base ** (-b / n)
        q0, q1 = (complex(*q[4 * b + 2 * s : 4 * b + 2 * s + 2]) for s in (0, 1))
        k0, k1 = (complex(*k[4 * b + 2 * s : 4 * b + 2 * s + 2]) for s in (0, 1))
        turn_i, turn_j = (complex(math.cos(w * p), math.sin(w * p)) for p in (i, j))
        a = (turn_i * (q0 + eta * i / length * q1), turn_i * q1)
        c = (turn_j * k0, turn_j * (k1 - eta * j / length * k0))
        total += sum((x.conjugate() * y).real for x, y in zip(a, c, strict=True))
    return total


@pytest.mark.parametrize(("i", "j"), [(0, 0), (7, 0), (9, 4), (250, 31)])
def test_order_two_is_the_papers_transform(i, j):
    kernel = PJRotary(24, 50, base=100.0)
    q, k = random(24), random(24, seed=1)
    want = by_hand(q.tolist(), k.tolist(), i, j, 50, 1.0, 100.0)
    assert pair(kernel, q, k, i, j) == pytest.approx(want, rel=0, abs=1e-12 * max(1, abs(want)))


@pytest.mark.parametrize("eta", [1.0, -0.5, 0.0])
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_the_closed_form(order, eta):
    head_dim = 6 * order
    kernel = PJRotary(head_dim, 64, order=order, eta=eta)
    q, k = random(head_dim), random(head_dim, seed=1)
    for lag, j in ((0, 0), (1, 0), (20, 7), (100, 30)):
        want = reference.pj_rotary_score(q.tolist(), k.tolist(), lag, 64, order, eta)
        assert pair(kernel, q, k, lag + j, j) == pytest.approx(want, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("order", [2, 3])
def test_it_is_an_undamped_jordan_block_read_backwards(order):
    head_dim, blocks = 12 * order, 6
    kernel = PJRotary(head_dim, 10, order=order, eta=0.4)
    jordan = JordanRoPE(head_dim, 1, 10, order=order, omega=kernel.omega, gamma=0, eta=0.4).double()
    with torch.no_grad():
        jordan.eta.fill_(0.4)
    q, k = random(head_dim), random(head_dim, seed=1)

    def backwards(x):
        return x.view(blocks, order, 2).flip(1).flatten()

    for i, j in ((3, 3), (20, 4)):
        want = pair(jordan, backwards(q), backwards(k), i, j)
        assert pair(kernel, q, k, i, j) == pytest.approx(want, rel=1e-12)


def test_without_shear_it_is_rope_on_its_ladder():
    kernel = PJRotary(24, 64, eta=0.0)
    ladder = [10_000 ** (-b / 6) for b in range(6)]
    assert kernel.omega.tolist() == pytest.approx(ladder, rel=1e-14)
    rope = RoPE(24, omega=torch.tensor(ladder, dtype=torch.float64).repeat_interleave(2))
    assert kernel.claims == rope.claims and kernel.reach(torch.bfloat16) == math.inf
    x, positions = random(1, 3, 4, 24), torch.tensor([0, 5, 77, FAR])
    for mine, want in zip(
        kernel.rotate(x, x, positions, positions),
        rope.rotate(x, x, positions, positions),
        strict=True,
    ):
        torch.testing.assert_close(mine, want, rtol=0, atol=1e-9)  # FAR times 1e-15 of omega


def test_the_shear_is_no_parameter_and_any_number_of_heads_will_do():
    kernel = PJRotary(8, 16)
    assert list(kernel.parameters()) == [] and kernel.rotary_heads is None
    assert kernel.claims.relative and kernel.claims.finite_rank and not kernel.claims.bounded
    for heads, key_heads in ((1, 1), (6, 3), (6, 1)):
        q, k = random(2, heads, 9, 8), random(2, key_heads, 9, 8, seed=1)
        out = attend(q, k, k, kernel)
        one = attend(q[:, -1:], k[:, -1:], k[:, -1:], kernel)
        torch.testing.assert_close(out[:, -1:], one)
    trained = PJRotary(8, 16, omega=nn.Parameter(torch.tensor([0.5, 0.1])))
    assert [n for n, _ in trained.named_parameters()] == ["omega"]
    again = kernel_from_spec(json.loads(json.dumps(trained.spec)))
    assert again.spec == trained.spec and isinstance(again.omega, nn.Parameter)


# The law far out -------------------------------------------------------------------------------


def closed_form_row(kernel, q, k):
    """Scores of the last query with all keys, unscaled, in fp64, one head."""
    n, m, blocks = k.shape[2], kernel.order, len(kernel.omega)
    d = torch.arange(n - 1, -1, -1, dtype=torch.float64)[:, None]
    a = torch.view_as_complex(q.double()[0, 0, -1].view(blocks, m, 2).contiguous())
    b = torch.view_as_complex(k.double()[0, 0].view(n, blocks, m, 2).contiguous())
    total = torch.zeros(n, blocks, dtype=torch.complex128)
    for r in range(m):
        for s in range(r + 1):
            shear = (d / kernel.length) ** s / math.factorial(s)
            total += a[:, r].conj() * b[:, :, r - s] * shear
    return (total * torch.exp(-1j * kernel.omega * d)).real.sum(-1)


# Largest error over the row's largest number: of a score, of an output.
SCORE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}
OUTPUT = {torch.float32: 2e-4, torch.bfloat16: 1e-2}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [2, 3])
def test_scores_far_out_equal_the_closed_form(order, dtype):
    kernel = PJRotary(8 * order, 1024, order=order)
    q, k = (random(1, 1, n, 8 * order, seed=n, dtype=dtype) for n in (1, FAR))
    want = closed_form_row(kernel, q, k)
    positions = torch.arange(FAR) - (FAR - 1)
    a, b = kernel.rotate(q, k, positions[-1:], positions)
    got = (a.to(dtype).float() @ b.to(dtype).float().mT)[0, 0, 0].double()
    error = float((got - want).abs().max() / want.abs().max())
    assert error < SCORE[dtype], error


@pytest.mark.parametrize("fade", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [2, 3])
def test_the_last_row_of_a_long_sequence_equals_the_closed_form(order, dtype, fade):
    # Keys that fade keep all lags in the softmax; a small scale does so where they do not, and
    # leaves logits of hundreds in the rotated channels.
    kernel = PJRotary(8 * order, 1024, order=order)
    q, k, v = (random(1, 1, FAR, 8 * order, seed=s) for s in range(3))
    if fade:
        k = k / (1 + torch.arange(FAR - 1, -1, -1) / 1024)[:, None] ** (order - 1)
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    want = closed_form_row(kernel, q, k)
    scale = 8.0 / float(want.abs().max())
    want = (want * scale).softmax(-1) @ v.double()[0, 0]
    call = {"q_pos": torch.tensor([FAR - 1]), "scale": scale}
    with torch.no_grad():
        got = attend(q[:, :, -1:], k, v, kernel, k_pos=torch.arange(FAR), **call)
        cache = KVCache(kernel=kernel)
        cache.append(k, v, torch.arange(FAR))
        step = attend_cached(q[:, :, -1:], cache, **call)
    assert cache.mode == "paged"
    for row in (got, step):
        error = float((row[0, 0, 0].double() - want).abs().max() / want.abs().max())
        assert error < OUTPUT[dtype], error


def test_bf16_meets_far_keys_in_fp32():
    # Logits reach hundreds: where keys meet queries in bf16 they are wrong by a nat, and outputs
    # by up to 0.5. What is left is the rounding of the output itself.
    kernel, n = PJRotary(16, 16), 2048
    q, k, v = (random(1, 1, n, 16, seed=s, dtype=torch.bfloat16) for s in range(3))
    with torch.no_grad():
        assert "an origin per block" in attend_plan(q, k, v, kernel).reason
        want = attend(q.double(), k.double(), v.double(), kernel, backend="eager")
        assert float((attend(q, k, v, kernel).double() - want).abs().max()) < 0.02


# In company ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [
        PJRotary(8, 16) + PJBias(2, 16, init=PJInit(zeta_scale=0.5)),
        PJRotary(8, 16) + PJBias(2, 16, sectors=("fj", "affine"), signed_slope=True),
        RoPE(8) + PJBias(2, 16, init=PJInit(zeta_scale=0.5)),
    ],
    ids=["rotary_full", "rotary_signed", "rope_full"],
)
def test_a_union_in_a_decoder(kernel):
    """Every backend that can gives the same logits and gradients, and a cache gives the same rows."""
    config = DecoderConfig(vocab=11, width=16, layers=2, heads=2, length=16, kernel=kernel.spec)
    model = Decoder(config, seed=0).double()
    tokens = torch.randint(0, 11, (2, 40), generator=torch.Generator().manual_seed(0))
    found = {}
    for backend in ("eager", "sdpa", "toeplitz", "fold", "auto"):
        if backend == "fold" and not kernel.folds:
            continue
        for block in model.blocks:
            block.attention.backend = backend
        model.zero_grad()
        logits = model(tokens)
        logits.square().mean().backward()
        found[backend] = [logits.detach(), *(p.grad.clone() for p in model.parameters())]
    for backend, values in found.items():
        for value, want in zip(values, found["eager"], strict=True):
            torch.testing.assert_close(value, want, rtol=1e-8, atol=1e-10, msg=backend)
    for (name, _), grad in zip(model.named_parameters(), found["eager"][1:], strict=True):
        assert bool((grad != 0).any()), name
    with torch.no_grad():
        cache = model.new_cache()
        model(tokens[:, :30], cache=cache)
        for step in range(30, 40):
            row = model(tokens[:, step : step + 1], cache=cache)
            torch.testing.assert_close(row[:, 0], found["eager"][0][:, step], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: PJRotary(10, 16), "head_dim is 10.*a multiple of 4 such as 8"),
        (lambda: PJRotary(8, 16, order=1), "order is 1.*use RoPE"),
        (lambda: PJRotary(8, 0), "length is 0"),
        (lambda: PJRotary(8, 16, eta=[1.0, 2.0]), r"eta is \[1.0, 2.0\], one finite number"),
        (lambda: PJRotary(8, 16, eta=math.inf), "eta is inf"),
        (lambda: PJRotary(8, 16, base=0.5), "base is 0.5"),
        (lambda: PJRotary(8, 16, omega=[1.0]), r"omega has shape \(1,\), \(2,\)"),
    ],
)
def test_misuse_names_the_value_and_the_way_out(make, why):
    with pytest.raises(ValueError, match=why):
        make()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("saved", [2.0, -1.0])
def test_a_state_with_another_eta_is_refused(saved, strict):
    """Loaded silently, the kernel's function and its spec would disagree."""
    state = (PJRotary(8, 16, eta=saved) + PJBias(2, 16)).state_dict()
    kernel = PJRotary(8, 16) + PJBias(2, 16)
    with pytest.raises(
        RuntimeError, match=rf"eta is {saved:g} in this state_dict, 1 in this PJRotary"
    ):
        kernel.load_state_dict(state, strict=strict)
    assert float(kernel.parts[0].eta.max()) == 1
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"eta"'):
        PJRotary(8, 16, eta=0).load_state_dict(PJRotary(8, 16, eta=2).state_dict())


def test_a_state_with_the_same_eta_is_taken_in_any_precision():
    state = {n: x.float() for n, x in PJRotary(8, 16, eta=0.1).state_dict().items()}
    kernel = PJRotary(8, 16, eta=0.1)
    kernel.load_state_dict(state)
    assert float(kernel.eta.max()) == pytest.approx(0.1)


def test_true_is_no_eta():
    with pytest.raises(ValueError, match="eta is True, one finite number"):
        PJRotary(8, 16, eta=True)
