"""Jordan blocks: golden scores, the group law, the dual action, the tangent, the law far out."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pjrope import KVCache, attend, attend_plan
from pjrope.attention.decoding import attend_cached
from pjrope.kernels import (
    DampedRoPE,
    JordanMixture,
    JordanRoPE,
    RoPE,
    direct_sum,
    direct_sum_grid,
    kernel_from_spec,
    reference,
)
from pjrope.positions import geometric
from tests.golden import golden

CASES = golden("jordan_scores")["cases"]


@pytest.fixture(autouse=True)
def fp64():
    """Parameters in fp64 from the start: softplus would otherwise round gamma to fp32."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pair(kernel, q, k, i, j):
    """The unscaled score of one query at i and one key at j, a number."""
    at_i, at_j = torch.tensor([i]), torch.tensor([j])
    q, k = (torch.as_tensor(x)[None, None, None] for x in (q, k))
    if kernel.scored:
        return kernel.scores(q, k, at_i, at_j).item()
    q, k = kernel.rotate(q, k, at_i, at_j)
    return (q * k).sum().item()


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"m{c['order']}-w{c['omega']}-e{c['eta']}")
def test_golden_scores(case):
    order, rates = case["order"], {n: case[n] for n in ("omega", "gamma", "eta")}
    kernel = JordanRoPE(
        2 * order,
        1,
        1000,
        order=order,
        form="exact",
        **{**rates, "omega": [rates["omega"]]},
    )
    for point in case["scores"]:
        want, lag = point["score"], point["lag"]
        bound = 1e-12 * case["max_abs_score"]
        assert pair(kernel, case["q"], case["k"], lag, 0) == pytest.approx(want, rel=0, abs=bound)
        # The oracles too, one from the closed form, one from the matrix exponential.
        closed = reference.jordan_score(
            case["q"],
            case["k"],
            lag,
            rates["omega"],
            rates["gamma"],
            rates["eta"] * lag,
            order,
        )
        matrix = reference.jordan_matrix_score(
            case["q"], case["k"], lag, **{**rates, "order": order}
        )
        assert closed == pytest.approx(want, rel=0, abs=bound)
        assert matrix == pytest.approx(want, rel=0, abs=bound)


def test_the_scaled_form_is_the_exact_one_in_other_units():
    q, k = random(8), random(8, seed=1)
    scaled = JordanRoPE(8, 1, 50, order=4, gamma=1.5, eta=0.4)
    exact = JordanRoPE(8, 1, 50, order=4, form="exact", gamma=1.5 / 50, eta=0.4 / 50)
    for i, j in ((0, 0), (7, 3), (120, 5)):
        assert pair(scaled, q, k, i, j) == pytest.approx(pair(exact, q, k, i, j), rel=1e-12)


@pytest.mark.parametrize("form", ["stabilized", "lag"])
def test_bounded_shear_by_hand(form):
    length, eta, gamma = 10, 0.3, 0.01
    kernel = JordanRoPE(6, 1, length, order=3, form=form, gamma=gamma, eta=eta, omega=[0.7])
    q, k = random(6).tolist(), random(6, seed=1).tolist()

    def tau(p):
        return p / (1 + abs(p) / length)

    for i, j in ((5, 5), (9, 2), (40, 3)):
        time = tau(i - j) if form == "lag" else tau(i) - tau(j)
        want = reference.jordan_score(q, k, i - j, 0.7, gamma, eta * time, 3)
        assert pair(kernel, q, k, i, j) == pytest.approx(want, rel=1e-10, abs=1e-12)


# Property tests --------------------------------------------------------------------------------

rates = st.fixed_dictionaries(
    {
        "omega": st.floats(0.0, 3.1),
        "gamma": st.floats(1e-4, 0.2),
        "eta": st.floats(-0.5, 0.5).filter(lambda x: abs(x) > 1e-3),
    }
)
orders = st.integers(2, 5)
small = st.integers(-40, 40)


def matrix(kernel, p, *, key=True):
    """The real 2m x 2m matrix with which one token at p is multiplied."""
    n = kernel.head_dim
    eye, at = torch.eye(n)[None, None], torch.full((n,), p)
    turned = kernel.rotate(None, eye, None, at)[1] if key else kernel.rotate(eye, None, at, None)[0]
    return turned[0, 0].T.detach()


def one_block(order, values, **more):
    return JordanRoPE(
        2 * order,
        1,
        100,
        order=order,
        form="exact",
        **{**values, "omega": [values["omega"]], **more},
    )


@settings(deadline=None, max_examples=40)
@given(orders, rates, small, small)
def test_group_law(order, values, s, t):
    kernel = one_block(order, values)
    product = matrix(kernel, s) @ matrix(kernel, t)
    whole = matrix(kernel, s + t)
    size = matrix(kernel, s).abs().max() * matrix(kernel, t).abs().max() * order
    torch.testing.assert_close(product, whole, rtol=0, atol=float(1e-13 * size))


@settings(deadline=None, max_examples=40)
@given(orders, rates, small)
def test_the_query_is_moved_by_the_inverse_transpose(order, values, p):
    kernel = one_block(order, values)
    key, query = matrix(kernel, p), matrix(kernel, p, key=False)
    size = float(key.abs().max() * query.abs().max()) * order
    torch.testing.assert_close(query.T @ key, torch.eye(2 * order), rtol=0, atol=1e-13 * size)


@settings(deadline=None, max_examples=40)
@given(orders, rates, st.integers(0, 60), st.integers(-60, 60), st.integers(0, 1000))
def test_relative_law(order, values, d, j, seed):
    kernel = one_block(order, values)
    q, k = random(2 * order, seed=seed), random(2 * order, seed=seed + 1)
    want = reference.jordan_score(
        q.tolist(),
        k.tolist(),
        d,
        values["omega"],
        values["gamma"],
        values["eta"] * d,
        order,
    )
    size = math.exp(values["gamma"] * abs(j)) ** 2 * (1 + abs(values["eta"]) * 120) ** (2 * order)
    assert pair(kernel, q, k, d + j, j) == pytest.approx(want, rel=1e-9, abs=1e-14 * size)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.01, 3.0), st.integers(0, 60))
def test_the_second_mode_is_the_derivative_of_a_character(omega, d):
    # One block of order 2 with q = e_0: k = e_0 reads cos(omega d); k = e_1 reads
    # eta d cos(omega d), which is eta times the derivative of sin(omega d) by omega.
    eta = 0.01
    kernel = JordanRoPE(4, 1, 100, form="exact", omega=[omega], gamma=0, eta=eta)
    e = torch.eye(4)
    assert pair(kernel, e[0], e[0], d, 0) == pytest.approx(math.cos(omega * d), abs=1e-12)
    w = torch.tensor(omega, requires_grad=True)
    (slope,) = torch.autograd.grad(torch.sin(w * d), w)
    assert pair(kernel, e[0], e[2], d, 0) == pytest.approx(eta * float(slope), abs=1e-11)
    (slope,) = torch.autograd.grad(torch.cos(w * d), w)
    assert pair(kernel, e[0], e[3], d, 0) == pytest.approx(-eta * float(slope), abs=1e-11)


# Reductions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [2, 3, 4])
def test_without_damping_and_shear_it_is_rope_on_its_ladder(order):
    head_dim, positions = 24, torch.tensor([0, 5, 131_072])
    blocks = head_dim // (2 * order)
    kernel = JordanRoPE(head_dim, 2, 64, order=order, gamma=0, eta=0)
    rope = RoPE(head_dim, omega=geometric(head_dim)[:blocks].repeat_interleave(order))
    x = random(1, 2, 3, head_dim)
    assert list(kernel.parameters()) == [] and kernel.claims == RoPE(8).claims
    for mine, want in zip(
        kernel.rotate(x, x, positions, positions),
        rope.rotate(x, x, positions, positions),
        strict=True,
    ):
        torch.testing.assert_close(mine, want, rtol=0, atol=1e-14)
    assert kernel.rotate(x.bfloat16(), None, positions)[0].dtype == torch.bfloat16


def test_damped_rope_is_rope_times_a_decay():
    kernel, rope = DampedRoPE(8, 1, 20, c=0.7), RoPE(8)
    q, k = random(8), random(8, seed=1)
    for d in (0, 1, 33):
        want = math.exp(-0.7 * d / 20) * pair(rope, q, k, d, 0)
        assert pair(kernel, q, k, d + 3, 3) == pytest.approx(want, rel=1e-12)


def test_direct_sums_hold_the_frequencies_they_claim():
    ladder = geometric(32)
    assert torch.equal(direct_sum_grid(32, 4, 64).parts[0].omega, ladder[:8])
    assert torch.allclose(direct_sum_grid(32, 4, 64, half_ladder=True).parts[0].omega, ladder[::2])
    real = direct_sum_grid(32, 4, 64).parts[1]
    assert bool((real.omega == 0).all()) and real.form == "stabilized" and real.eta is not None


def test_rates_of_a_head_belong_to_key_heads():
    eta = torch.tensor([[0.5], [-0.25]])
    kernel = JordanRoPE(4, 2, 10, eta=eta, omega=torch.tensor([[0.3], [0.9]]))
    q, k, v = random(1, 4, 6, 4), random(1, 2, 6, 4, seed=1), random(1, 2, 6, 4, seed=2)
    got = attend(q, k, v, kernel, backend="eager")
    for head in range(4):
        alone = JordanRoPE(4, 1, 10, eta=float(eta[head // 2]), omega=kernel.omega[head // 2])
        one = attend(
            *(x[:, h : h + 1] for x, h in ((q, head), (k, head // 2), (v, head // 2))), alone
        )
        torch.testing.assert_close(got[:, head : head + 1], one, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", ["scaled", "exact", "stabilized", "lag"])
def test_gradients_of_gamma_eta_and_omega(form):
    omega = nn.Parameter(torch.tensor([0.8, 0.1]))
    kernel = JordanRoPE(8, 1, 7, form=form, gamma=0.05, eta=0.2, omega=omega)
    q, k, v = (random(1, 1, 5, 8, seed=s) for s in range(3))
    names = [name for name, _ in kernel.named_parameters()]
    assert set(names) == {"omega", "gamma_raw", "eta"}

    def out(*values):
        given_ = dict(zip(names, values, strict=True))

        class Whole(nn.Module):
            def __init__(self):
                super().__init__()
                self.kernel = kernel

            def forward(self):
                return attend(q, k, v, self.kernel, backend="eager")

        return torch.func.functional_call(
            Whole(), {f"kernel.{n}": x for n, x in given_.items()}, ()
        )

    inputs = tuple(p.detach().clone().requires_grad_() for p in kernel.parameters())
    assert torch.autograd.gradcheck(out, inputs)


def test_gamma_can_move():
    # The papers' softplus starts 1e-8 above its floor, where one step of Adam moves nothing.
    kernel = JordanRoPE(8, 1, 64, form="exact")
    before = kernel.gamma.detach().clone()
    optimizer = torch.optim.Adam(kernel.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        kernel.gamma.log().sum().backward()
        optimizer.step()
    assert bool((kernel.gamma < 0.5 * before).all())


# The law far out, through attend ---------------------------------------------------------------

FAR = 131_072


def closed_form_row(kernel, q, k):
    """Weights of the last query over all keys, in fp64 from the closed form, one head."""
    n, m, blocks = k.shape[2], kernel.order, kernel.omega.shape[0]
    d = torch.arange(n - 1, -1, -1)
    a = torch.view_as_complex(q.double()[0, 0, -1].view(blocks, m, 2).contiguous())
    b = torch.view_as_complex(k.double()[0, 0].view(n, blocks, m, 2).contiguous())
    rate = kernel.gamma.double()[0] * kernel.per_token + 1j * kernel.omega.double()
    shear = kernel.eta.double()[0] * kernel.per_token * d[:, None]
    total = torch.zeros(n, blocks, dtype=torch.complex128)
    for r in range(m):
        for c in range(r, m):
            total += a[:, r].conj() * b[:, :, c] * shear ** (c - r) / math.factorial(c - r)
    scores = (total * torch.exp(-rate * d[:, None])).real.sum(-1)
    return scores / math.sqrt(q.shape[-1])


# Largest error of the output over its largest channel, of the full pass and of decoding.
BOUNDS = {torch.float32: 2e-4, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_last_row_of_a_long_sequence_equals_the_closed_form(order, dtype):
    head_dim, length = 8 * order, 1024
    torch.set_default_dtype(torch.float32)
    kernel = JordanRoPE(head_dim, 1, length, order=order, gamma=1.0, eta=0.1)
    q, k, v = (random(1, 1, FAR, head_dim, seed=s).to(dtype) for s in range(3))
    last = {"q_pos": torch.tensor([FAR - 1]), "k_pos": torch.arange(FAR)}
    with torch.no_grad():
        want = closed_form_row(kernel, q, k).softmax(-1) @ v.double()[0, 0]
        assert kernel.reach(dtype) < FAR / 2  # one origin does not serve them all
        got = attend(q[:, :, -1:], k, v, kernel, **last)
        assert "an origin per block" in attend_plan(q[:, :, -1:], k, v, kernel, **last).reason
        cache = KVCache(kernel=kernel)
        cache.append(k, v, torch.arange(FAR))
        step = attend_cached(q[:, :, -1:], cache, q_pos=last["q_pos"])
    assert cache.mode == "paged"
    # A softmax over so many keys averages values away: compare what is left, relative to its size.
    for row in (got, step):
        error = (row[0, 0, 0].double() - want).abs().max() / want.abs().max()
        assert float(error) < BOUNDS[dtype], float(error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_scores_far_out_equal_the_closed_form(order, dtype):
    # Scores themselves, over the whole row: relative to their own largest.
    head_dim, length = 8 * order, 1024
    torch.set_default_dtype(torch.float32)
    kernel = JordanRoPE(head_dim, 1, length, order=order, gamma=1.0, eta=0.1)
    q = random(1, 1, 1, head_dim).to(dtype)
    k = random(1, 1, FAR, head_dim, seed=1).to(dtype)
    positions = torch.arange(FAR)
    with torch.no_grad():
        want = closed_form_row(kernel, q, k) * math.sqrt(head_dim)
        origin = FAR - 1
        a, b = kernel.rotate(q, k, positions[-1:] - origin, positions - origin)
        got = (a.to(dtype).float() @ b.to(dtype).float().mT)[0, 0, 0]
    error = float((got.double() - want).abs().max() / want.abs().max())
    assert error < {torch.float32: 2e-6, torch.bfloat16: 1e-2}[dtype], error


@pytest.mark.parametrize("order", [2, 3, 4])
def test_decoding_equals_the_full_pass_far_out(order):
    head_dim, n = 8 * order, 2048
    torch.set_default_dtype(torch.float32)
    kernel = JordanRoPE(head_dim, 1, 16, order=order, gamma=1.0, eta=0.1)  # 128 L
    q, k, v = (random(1, 1, n, head_dim, seed=s) for s in range(3))
    with torch.no_grad():
        full = attend(q, k, v, kernel)
        cache = KVCache(kernel=kernel)
        cache.append(k, v, torch.arange(n))
        step = attend_cached(q[:, :, -1:], cache, q_pos=torch.tensor([n - 1]))
    assert cache.mode == "paged"
    torch.testing.assert_close(step, full[:, :, -1:], rtol=0, atol=1e-5)


def test_rotate_alone_refuses_what_would_overflow():
    kernel = JordanRoPE(8, 1, 16)
    x = random(1, 1, 3, 8).float()
    with pytest.raises(ValueError, match=r"keys about 20000 tokens ahead .* a nearer origin"):
        kernel.rotate(None, x, None, torch.tensor([0, 5, 20_000]))
    kernel.rotate(x, None, torch.tensor([0, 5, 20_000]), None)  # queries shrink: no harm


def test_the_stabilized_form_says_where_it_would_overflow():
    kernel = JordanRoPE(8, 1, 1024, form="stabilized", gamma=1e-3)
    x = random(1, 1, 2, 8).float()
    with pytest.raises(ValueError, match="keys about 100000 tokens ahead"):
        attend(x, x, x, kernel, q_pos=torch.tensor([0, 100_000]), k_pos=torch.tensor([0, 100_000]))


@pytest.mark.parametrize("kernel", [JordanRoPE(8, 1, 4, gamma=2.0, eta=0.5)], ids=["steep"])
def test_a_steep_kernel_gets_short_blocks(kernel):
    # e^{d/2}: within a block of 512 about one origin the keys would overflow.
    kernel = kernel_from_spec(kernel.spec).float()
    q, k, v = (random(1, 1, 900, 8, seed=s).float() for s in range(3))
    with torch.no_grad():
        got = attend(q, k, v, kernel)
        here = attend(q[:, :, -300:-270], k[:, :, -300:-270], v[:, :, -300:-270], kernel)
    assert bool(torch.isfinite(got).all())
    assert bool(torch.isfinite(here).all())
    d = torch.arange(899, -1, -1)
    scores = torch.tensor(
        [
            pair(
                kernel_from_spec(kernel.spec),
                q[0, 0, -1].double(),
                k[0, 0, -1 - x].double(),
                int(x),
                0,
            )
            for x in d
        ]
    ) / math.sqrt(8)
    want = scores.softmax(-1) @ v[0, 0].double()
    torch.testing.assert_close(got[0, 0, -1].double(), want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", ["scaled", "lag"])
@pytest.mark.parametrize("backend", ["eager", "auto"])
def test_packed_documents_far_longer_than_the_reach(form, backend):
    # The second document starts anew at 0, within one block of the first one's last positions.
    lengths, gamma = (3000, 40), 1.0 if form == "scaled" else 1 / 16
    kernel = JordanRoPE(8, 1, 16, form=form, gamma=gamma, eta=0.1).float()
    positions = torch.cat([torch.arange(n) for n in lengths])
    ids = torch.repeat_interleave(torch.arange(2), torch.tensor(lengths))[None]
    q, k, v = (random(1, 1, sum(lengths), 8, seed=s).float() for s in range(3))
    call = {"q_pos": positions, "k_pos": positions, "segments": (ids, ids), "backend": backend}
    with torch.no_grad():
        packed = attend(q, k, v, kernel, **call)
        for part in (slice(0, lengths[0]), slice(lengths[0], None)):
            alone = attend(q[:, :, part], k[:, :, part], v[:, :, part], kernel)
            torch.testing.assert_close(packed[:, :, part], alone, rtol=0, atol=2e-6)


# Origins, number types, masks ------------------------------------------------------------------


def narrow(*shape, dtype, seed=0):
    return [random(*shape, seed=seed + s).to(dtype) for s in range(3)]


def truth(q, k, v, kernel, **call):
    """Eager attention in fp64 of the same, already rounded, inputs."""
    wide = kernel_from_spec(kernel.spec).double()
    return attend(q.double(), k.double(), v.double(), wide, backend="eager", **call)


ERRORS = {torch.bfloat16: 4e-2, torch.float16: 5e-3}  # at the edge of what one origin serves


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("rates", [{"gamma": 1.0, "eta": 0.5}, {"gamma": 0, "eta": 3.0}])
def test_narrow_numbers_at_the_edge_of_one_origin(order, dtype, rates):
    torch.set_default_dtype(torch.float32)
    kernel = JordanRoPE(4 * order, 1, 64, order=order, **rates)
    n = int(2 * kernel.reach(dtype))
    assert 32 <= n < 6000
    q, k, v = narrow(1, 1, n, 4 * order, dtype=dtype)
    with torch.no_grad():
        assert "fused" in attend_plan(q, k, v, kernel).reason
        assert "an origin" in attend_plan(*(torch.cat([x, x], 2) for x in (q, k, v)), kernel).reason
        error = float((attend(q, k, v, kernel) - truth(q, k, v, kernel)).abs().max())
    assert error < ERRORS[dtype], error


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "kernel",
    [
        JordanRoPE(32, 1, 1024, order=4, form="stabilized", eta=0.1),
        JordanMixture(32, 1, 64, form="absolute", alpha=3.0, c=0.5),
    ],
    ids=["stabilized", "absolute"],
)
def test_absolute_forms_meet_in_fp32(kernel, dtype):
    # Their origin cannot be moved: in bf16 the shears of query and key would cancel to noise.
    kernel = kernel_from_spec(kernel.spec).float()
    q, k, v = narrow(1, 1, 1000, 32, dtype=dtype)
    with torch.no_grad():
        for backend in ("auto", "eager"):
            got = attend(q, k, v, kernel, backend=backend)
            assert got.dtype == dtype
            assert float((got - truth(q, k, v, kernel)).abs().max()) < 2e-2


def test_lags_in_fp64_stay_there():
    torch.set_default_dtype(torch.float32)  # int64 * float would be fp32
    kernel = JordanRoPE(4, 1, 1000, gamma=0, eta=1.0, omega=[0.0]).double()
    e = torch.eye(4, dtype=torch.float64)
    assert pair(kernel, e[0], e[2], 900, 200) == pytest.approx(0.7, abs=1e-14)
    mixture = JordanMixture(4, 1, 1000, order=2, c=0, alpha=1.0, omega=[0.0]).double()
    assert pair(mixture, e[0], e[2], 900, 200) == pytest.approx(0.7, abs=1e-14)


def test_a_mask_of_heads_is_no_mask_of_rows():
    kernel = JordanRoPE(8, 2, 4, eta=0.1).float()
    q, k, v = narrow(2, 2, 500, 8, dtype=torch.float32)
    keep = torch.rand(2, 500, 500, generator=torch.Generator().manual_seed(1)) > 0.3
    with torch.no_grad():
        assert "mask" in attend_plan(q, k, v, kernel, keep=keep).reason
        for backend in ("eager", "auto"):
            got = attend(q, k, v, kernel, keep=keep, backend=backend)
            want = truth(q, k, v, kernel, keep=keep[None])
            torch.testing.assert_close(got.double(), want, rtol=0, atol=1e-5)


def test_more_queries_than_keys_are_counted_from_their_own_middle():
    kernel = JordanRoPE(8, 1, 1, gamma=0.07, eta=0.0).float()
    q, k, v = narrow(1, 1, 1000, 8, dtype=torch.float32)
    got = attend(q, k[:, :, :10], v[:, :, :10], kernel, causal=False)
    assert bool(torch.isfinite(got).all())


def test_far_zeros_are_zeros_at_any_order():
    kernel = JordanRoPE(12, 1, 16, order=6, form="exact", gamma=0.01, eta=0.1).float()
    q, k, v = narrow(1, 1, 3, 12, dtype=torch.float32)
    positions = torch.tensor([0, 2**31 - 1, 2**31])
    assert bool(torch.isfinite(attend(q, k, v, kernel, q_pos=positions, k_pos=positions)).all())


def test_a_mixture_without_amplitudes_still_has_powers_in_its_queries():
    kernel = JordanMixture(16, 1, 16, c=0, alpha=0.0).float()
    q, k, v = narrow(1, 1, 2500, 16, dtype=torch.float16)
    with torch.no_grad():
        assert bool(torch.isfinite(attend(q, k, v, kernel)).all())


def test_a_direct_sum_that_cannot_be_rebased_says_how_far_it_reaches():
    absolute = JordanRoPE(8, 1, 64, form="stabilized", eta=0.1)
    kernel = direct_sum(JordanRoPE(8, 1, 64, gamma=0, eta=1.0), absolute).float()
    q, k, v = narrow(1, 1, 4, 16, dtype=torch.float32)
    far = torch.arange(4) + 100_000
    attend(q, k, v, kernel)
    with pytest.raises(ValueError, match="position 100003 beside a part that is not relative"):
        attend(q, k, v, kernel, q_pos=far, k_pos=far)


def test_a_composite_reaches_as_far_as_its_shortest_part():
    near, far = JordanRoPE(8, 1, 64, gamma=10.0), JordanRoPE(8, 1, 64, gamma=0.1)
    for whole in (direct_sum(near, far), direct_sum(far, near, RoPE(8))):
        assert whole.reach(torch.float32) == near.reach(torch.float32)
    assert near.reach(torch.float32) < far.reach(torch.float32) < RoPE(8).reach(torch.float32)


def varied(key_heads, form="scaled"):
    """Rates that differ between heads, so that a wrong head shows."""
    steps = 1 + torch.arange(key_heads * 2).view(key_heads, 2)
    gamma = 0.4 * steps if form == "scaled" else 0.01 * steps
    return JordanRoPE(8, key_heads, 16, form=form, gamma=gamma, eta=0.1 * steps).float()


@pytest.mark.parametrize("form", ["scaled", "lag"])
@pytest.mark.parametrize("rows", [1, 2])
def test_grouped_heads_and_rows_with_their_own_positions(form, rows):
    kernel, n = varied(2, form), 600
    q = random(rows, 4, n, 8).float()
    k, v = (random(rows, 2, n, 8, seed=s).float() for s in (1, 2))
    positions = torch.arange(n) + torch.tensor([[0], [37]])[:rows]
    with torch.no_grad():
        full = attend(q, k, v, kernel, q_pos=positions, k_pos=positions, backend="eager")
        for row in range(rows):
            for head in range(4):
                one = (
                    x[row : row + 1, h : h + 1]
                    for x, h in ((q, head), (k, head // 2), (v, head // 2))
                )
                rate = {
                    "gamma": kernel.gamma[head // 2 : head // 2 + 1],
                    "eta": kernel.eta[head // 2 : head // 2 + 1],
                }
                alone = JordanRoPE(8, 1, 16, form=form, **rate).float()
                want = attend(*one, alone, backend="eager")
                torch.testing.assert_close(
                    full[row : row + 1, head : head + 1], want, rtol=0, atol=1e-5
                )
        cache = KVCache(kernel=kernel)
        for part in (slice(0, 300), slice(300, 599), slice(599, n)):
            cache.append(k[:, :, part], v[:, :, part], positions[:, part])
        step = attend_cached(q[:, :, -1:], cache, q_pos=positions[:, -1:])
    assert cache.mode == ("paged" if form == "scaled" else "raw")
    torch.testing.assert_close(step, full[:, :, -1:], rtol=0, atol=1e-5)


def test_a_cache_keeps_its_mode_and_refuses_jumps_out_of_reach():
    kernel = JordanRoPE(8, 1, 16).float()
    _, k, v = narrow(1, 1, 40, 8, dtype=torch.float32)
    cache = KVCache(kernel=kernel)
    with torch.no_grad():
        cache.append(k, v, torch.arange(40))
        kernel.gamma_raw.fill_(10.0)  # now a page would be too wide
        assert cache.mode == "paged" and KVCache(kernel=kernel).mode == "raw"
    fresh = KVCache(kernel=JordanRoPE(8, 1, 16).float())
    with pytest.raises(ValueError, match="positions jump by 5039 tokens within a page"):
        fresh.append(k, v, torch.arange(40) + 5000 * (torch.arange(40) > 20))


def test_a_compiled_call_reaches_as_far_as_an_uncompiled_one():
    kernel = JordanRoPE(8, 1, 4, gamma=2.0, eta=0.1).float()
    q, k, v = narrow(1, 1, 600, 8, dtype=torch.float32)
    with torch.no_grad():
        got = torch.compile(attend, backend="eager")(q, k, v, kernel)
        torch.testing.assert_close(got, attend(q, k, v, kernel), rtol=0, atol=1e-5)


# Mixtures --------------------------------------------------------------------------------------


def test_a_mixture_by_hand():
    alpha, c, length, omega = [0.7, -0.4, 0.2], 0.3, 10, 0.6
    kernel = JordanMixture(8, 1, length, c=c, alpha=torch.tensor(alpha), omega=[omega])
    q, k = random(8), random(8, seed=1)
    a, b = (torch.view_as_complex(x.view(4, 2)) for x in (q, k))
    for i, j in ((0, 0), (9, 4), (33, 1)):
        x, total = (i - j) / length, 0
        for r in range(4):
            for s in range(4 - r):
                amplitude = 1.0 if s == 0 else alpha[s - 1]
                total += a[r].conj() * b[r + s] * amplitude * x**s / math.factorial(s)
        want = (total * torch.exp(torch.tensor(-(c / length + 1j * omega) * (i - j)))).real
        assert pair(kernel, q, k, i, j) == pytest.approx(float(want), rel=1e-10, abs=1e-12)
    assert kernel.rotate(q[None, None, None], None, torch.tensor([3]))[0].shape[-1] == 20


def test_a_mixture_with_powers_of_eta_is_a_jordan_block():
    eta = 0.6
    mixture = JordanMixture(8, 1, 10, c=1.0, alpha=torch.tensor([eta, eta**2, eta**3]))
    jordan = JordanRoPE(8, 1, 10, order=4, gamma=1.0, eta=eta)
    q, k = random(8), random(8, seed=1)
    for i, j in ((0, 0), (9, 4), (33, 1)):
        assert pair(mixture, q, k, i, j) == pytest.approx(pair(jordan, q, k, i, j), rel=1e-10)


def test_the_papers_mixture_is_no_group():
    absolute = JordanMixture(8, 1, 512, form="absolute", alpha=torch.tensor([0.5, 0.3, 0.2]), c=0)
    q, k = random(8), random(8, seed=1)
    scores = [pair(absolute, q, k, 100 + j, j) for j in (0, 512, 7000)]
    assert max(scores) - min(scores) > 0.05


# Misuse ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: JordanRoPE(7, 1, 8), "head_dim is 7.*a multiple of 4 such as 4"),
        (lambda: JordanRoPE(10, 1, 8, order=3), "head_dim is 10.*a multiple of 6 such as 6"),
        (lambda: JordanRoPE(8, 1, 8, order=1), "order is 1.*order=2"),
        (lambda: JordanRoPE(8, 1, -8), "length is -8.*must be positive"),
        (lambda: JordanRoPE(8, 0, 8), "heads is 0"),
        (lambda: JordanRoPE(8, 1, 8, form="raw"), "form is 'raw', known are"),
        (lambda: JordanRoPE(8, 1, 8, gamma=-1.0), "gamma is -1.0: damping is >= 0"),
        (lambda: JordanRoPE(8, 2, 8, eta=[0.1, 0.2]), r"eta has shape \(2,\).*\(2, 2\)"),
        (lambda: JordanRoPE(8, 1, 8, omega=[1.0]), r"omega has shape \(1,\), \(2,\)"),
        (lambda: JordanRoPE(8, 1, 8, gamma=[[0.0, 1.0]]), "every rate > 0, or one 0"),
        (lambda: DampedRoPE(8, 1, 8, c=0), "c is 0.*use RoPE"),
        (lambda: DampedRoPE(8, 1, 8, c=-1), "c is -1: damping"),
        (lambda: JordanRoPE(8.0, 1, 8), "head_dim is 8.0"),
        (lambda: JordanRoPE(8, 1, 8, eta=torch.zeros(0)), r"eta has shape \(0,\)"),
        (lambda: JordanRoPE(8, 1, 8, omega=[math.nan, 1.0]), "omega is .nan"),
        (lambda: JordanMixture(8, 1, 8, alpha=math.inf), "alpha is inf"),
        (
            lambda: JordanRoPE(8, 1, 8, omega=nn.Parameter(torch.ones(2, dtype=torch.bfloat16))),
            "bfloat16, which holds no frequency",
        ),
        (lambda: JordanMixture(8, 1, 8, form="lag"), "form is 'lag', known are"),
        (lambda: JordanMixture(8, 1, 8, alpha=[0.1]), r"alpha has shape \(1,\).*\(3,\)"),
        (lambda: direct_sum_grid(12, 1, 8), "head_dim is 12.*multiple of 8"),
        (lambda: pair(JordanRoPE(4, 1, 8), [1.0] * 6, [1.0] * 6, 0, 0), "6 channels"),
        (lambda: JordanRoPE(8, 1, 8, form="lag").rotate(None, None), "whole scores"),
    ],
)
def test_misuse_names_the_value_and_the_way_out(make, why):
    with pytest.raises(ValueError, match=why):
        make()


def test_specs_are_json_and_keep_what_trains():
    omega = nn.Parameter(torch.tensor([0.5, 0.25]))
    kernel = JordanRoPE(8, 1, 16, omega=omega, eta=torch.tensor([[0.1, 0.2]]), gamma=0)
    again = kernel_from_spec(json.loads(json.dumps(kernel.spec)))
    assert [n for n, _ in again.named_parameters()] == [n for n, _ in kernel.named_parameters()]
    assert torch.equal(again.eta, kernel.eta) and again.gamma_raw is None
    assert again.freeze("eta").eta.requires_grad is False
