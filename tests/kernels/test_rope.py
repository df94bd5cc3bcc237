import math

import pytest
import torch
from torch import nn

from pjrope.attention import attend
from pjrope.kernels import (
    PJBias,
    PJInit,
    PositionKernel,
    RoPE,
    direct_sum,
    kernel_from_spec,
    reference,
    to_half,
    to_interleaved,
)
from pjrope.positions import NTK, YaRN
from tests.golden import golden

GOLDEN = golden("rope")
FAR = (0, 1000, 8191, 20011, 65521, 131071, 1000003)


def ones_score(rope, q_pos, k_pos, dtype=torch.float32):
    x = torch.ones(1, 1, 1, 64, dtype=dtype)
    q, k = rope.rotate(x, x, torch.tensor([q_pos]), torch.tensor([k_pos]))
    return float((q.double() * k.double()).sum())


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_golden(layout):
    rope = RoPE(GOLDEN["D"], base=GOLDEN["base"], layout=layout)
    x = torch.tensor(GOLDEN["x"], dtype=torch.float64)[None, None, None]
    for row in GOLDEN["rows"]:
        want = torch.tensor(row[layout], dtype=torch.float64)
        position = torch.tensor([row["position"]])
        got, _ = rope.rotate(x, None, position)
        torch.testing.assert_close(got[0, 0, 0], want, rtol=0, atol=2e-11)
        low, _ = rope.rotate(x.float(), None, position)
        torch.testing.assert_close(low[0, 0, 0].double(), want, rtol=0, atol=5e-7)


def test_equals_the_oracle():
    omega = reference.rope_ladder(8)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    positions = [0, 3, 17, 1000, 65537]
    for layout in ("interleaved", "half"):
        got, _ = RoPE(8, layout=layout).rotate(x[None, None], None, torch.tensor(positions))
        want = [
            reference.rope_rotate(r.tolist(), p, omega, layout)
            for r, p in zip(x, positions, strict=True)
        ]
        torch.testing.assert_close(
            got[0, 0], torch.tensor(want, dtype=torch.float64), rtol=0, atol=1e-10
        )


def test_scores_depend_on_the_lag_as_the_oracle_says():
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    omega = reference.rope_ladder(8)
    for position, lag in ((0, 0), (5, 3), (100, 37), (70_000, 9)):
        at = torch.tensor([position]), torch.tensor([position - lag])
        turned_q, turned_k = RoPE(8).rotate(q[None, None, None], k[None, None, None], *at)
        want = reference.rope_score(q.tolist(), k.tolist(), lag, omega)
        assert float((turned_q * turned_k).sum()) == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-3), (torch.bfloat16, 8e-3)])
@pytest.mark.parametrize("offset", FAR)
def test_relative_law_far_out(offset, dtype, bound):
    assert ones_score(RoPE(64), offset + 7, offset, dtype) == pytest.approx(
        46.528653, abs=64 * bound
    )


@pytest.mark.parametrize("cast", ["none", "bfloat16", "half_float"])
def test_far_lags_need_fp32_frequencies(cast):
    rope = RoPE(64)
    rope = {
        "none": lambda r: r,
        "bfloat16": lambda r: r.bfloat16(),
        "half_float": lambda r: r.half().float(),
    }[cast](rope)
    for lag, want in (
        (0, 64.0),
        (7, 46.528653),
        (1023, 15.0760),
        (4095, -4.0234),
        (131071, 3.0124),
    ):
        assert ones_score(rope, lag, 0) == pytest.approx(want, abs=2e-3)


def test_autocast_leaves_angles_alone():
    rope = RoPE(64)
    x = torch.randn(1, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    positions = torch.arange(5000, 5064)
    plain, _ = rope.rotate(x, None, positions)
    with torch.autocast("cpu", torch.bfloat16):
        cast, _ = rope.rotate(x, None, positions)
    assert torch.equal(plain, cast)


def test_layouts_differ_by_the_permutation_alone():
    x = torch.randn(2, 3, 9, 16, generator=torch.Generator().manual_seed(1))
    positions = torch.arange(9) * 11
    interleaved, _ = RoPE(16).rotate(x, None, positions)
    half, _ = RoPE(16, layout="half").rotate(to_half(x), None, positions)
    torch.testing.assert_close(to_interleaved(half), interleaved, rtol=0, atol=1e-6)
    assert (
        float((RoPE(16, layout="half").rotate(x, None, positions)[0] - interleaved).abs().max()) > 1
    )
    assert torch.equal(to_interleaved(to_half(x)), x)
    assert to_half(torch.arange(4)).tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_partial_rotary_leaves_the_tail_bit_identical(layout):
    x = torch.randn(1, 2, 7, 16, generator=torch.Generator().manual_seed(1)).bfloat16()
    got, _ = RoPE(16, rotary_dim=8, layout=layout).rotate(x, None, torch.arange(7))
    assert torch.equal(got[..., 8:], x[..., 8:])
    head, _ = RoPE(8, layout=layout).rotate(x[..., :8], None, torch.arange(7))
    assert torch.equal(got[..., :8], head)


def test_positions_per_row_and_one_side_alone():
    rope = RoPE(8)
    x = torch.randn(2, 3, 4, 8, generator=torch.Generator().manual_seed(1))
    rows = torch.tensor([[0, 1, 2, 3], [5, 6, 7, 8]])
    got, none = rope.rotate(x, None, rows)
    assert none is None
    for b in range(2):
        assert torch.equal(got[b : b + 1], rope.rotate(x[b : b + 1], None, rows[b])[0])
    assert torch.equal(rope.rotate(None, x, None, rows)[1], got)


def test_calls_leave_no_state_behind():
    rope = RoPE(16, extension=NTK(length=8))
    x = torch.randn(1, 1, 4096, 16, generator=torch.Generator().manual_seed(1))

    def first(n, offset=0):
        return rope.rotate(x[:, :, :n], None, torch.arange(offset, offset + n))[0]

    before = first(8)
    first(4096)
    with torch.inference_mode():
        first(8)
    assert torch.equal(first(8), before)
    assert not torch.allclose(first(8, offset=100), before)


def test_given_frequencies_may_train():
    fixed = RoPE(4, omega=torch.tensor([0.5, 0.25]))
    assert list(fixed.parameters()) == []
    trained = RoPE(4, omega=nn.Parameter(torch.tensor([0.5, 0.25])))
    x = torch.randn(1, 1, 5, 4, generator=torch.Generator().manual_seed(1))
    q, k = trained.rotate(x, x.flip(2), torch.arange(5), torch.arange(5))
    (q @ k.transpose(-1, -2)).square().sum().backward()
    assert trained.omega.grad.abs().min() > 0
    again = kernel_from_spec(trained.spec)
    assert [n for n, _ in again.named_parameters()] == ["omega"]
    assert trained.freeze("omega") is trained
    assert not trained.omega.requires_grad
    with pytest.raises(ValueError, match="'eta' is no parameter"):
        trained.freeze("eta")


def test_omega_gradcheck():
    omega = nn.Parameter(torch.tensor([1.0, 0.3], dtype=torch.float64))
    x = torch.randn(1, 1, 6, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def f(w):
        kernel = RoPE(4)
        kernel.omega = w
        return kernel.rotate(x, None, torch.arange(6))[0]

    assert torch.autograd.gradcheck(f, (omega.detach().requires_grad_(),))


def test_dynamic_and_fixed_factors_agree_at_their_length():
    x = torch.randn(1, 1, 32, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    positions = torch.arange(32)
    for kind in (NTK, YaRN):
        dynamic, _ = RoPE(16, extension=kind(length=8)).rotate(x, None, positions)
        fixed, _ = RoPE(16, extension=kind(4.0, 8)).rotate(x, None, positions)
        torch.testing.assert_close(dynamic, fixed, rtol=0, atol=1e-6)


def test_yarn_multiplies_the_score_once_per_side():
    x = torch.ones(1, 1, 1, 64, dtype=torch.float64)
    q, k = RoPE(64, extension=YaRN(4.0, 512)).rotate(x, x, torch.tensor([3]), torch.tensor([3]))
    assert float((q * k).sum()) == pytest.approx(64 * (1 + 0.1 * math.log(4)) ** 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RoPE(63), "head_dim is 63"),
        (lambda: RoPE(8, rotary_dim=10), "rotary_dim is 10"),
        (lambda: RoPE(8, rotary_dim=3), "rotary_dim is 3"),
        (lambda: RoPE(8, layout="neox"), "'neox'"),
        (lambda: RoPE(8, omega=torch.ones(3)), r"\(3,\).*\(4,\)"),
        (lambda: RoPE(8).rotate(torch.ones(1, 1, 2, 6), None, torch.arange(2)), "6 channels"),
        (lambda: RoPE(8).rotate(torch.ones(1, 1, 2, 8), None, torch.rand(2)), "q_pos have dtype"),
        (lambda: RoPE(8).rotate(torch.ones(1, 1, 2, 8), None), "q_pos are not given, 2 tokens"),
        (
            lambda: RoPE(8).rotate(torch.ones(1, 1, 2, 8), None, torch.arange(3)),
            r"\(3,\), 2 tokens",
        ),
        (lambda: kernel_from_spec({"kernel": "RoPEX"}), "RoPEX"),
        (lambda: kernel_from_spec("RoPE"), "a kernel's spec is a dict"),
        (lambda: kernel_from_spec({"kernel": "Sum"}), "made of parts"),
        (lambda: RoPE(8, extension=NTK), "an object is needed"),
        (lambda: RoPE(4, omega=torch.ones(2, requires_grad=True)), "nn.Parameter"),
        (lambda: direct_sum(RoPE(4)), "a direct sum of 1"),
        (lambda: PJBias(2, 16, init={"gates": "fj"}), "a PJInit is needed"),
        (lambda: PJBias(2, 16, init=PJInit(slope=torch.ones(2))), "one finite number"),
        (lambda: kernel_from_spec({"kernel": "RoPE", "dim": 3}), "does not fit"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@torch.no_grad()
def test_a_light_cone_turns_by_rapidity_and_is_not_relative():
    length = 64
    rope = RoPE(4, base=100.0, coordinate="lightcone", length=length)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 4, generator=generator, dtype=torch.float64)
    omega = reference.rope_ladder(4, 100.0)
    found = {}
    for i, j in ((5, 2), (500, 497), (2**31, 2**31 - 3)):
        a, b = rope.rotate(q, k, torch.tensor([i]), torch.tensor([j]))
        found[i] = float((a * b).sum())
        path = length * (math.asinh(i / length) - math.asinh(j / length))
        want = reference.rope_score(q.flatten().tolist(), k.flatten().tolist(), path, omega)
        assert found[i] == pytest.approx(want, abs=1e-5 if i > 2**30 else 1e-12)
    straight = RoPE(4, base=100.0)
    a, b = straight.rotate(q, k, torch.tensor([5]), torch.tensor([2]))
    assert found[5] == pytest.approx(float((a * b).sum()), abs=0.02), "near the start, as RoPE"
    assert abs(found[500] - found[5]) > 0.1 and not rope.claims.relative
    assert rope.roots() is None and straight.roots() is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coordinate": "log"}, "coordinate is 'log'"),
        ({"coordinate": "lightcone"}, "needs the training length"),
        ({"length": 64}, "only the light cone takes one"),
        ({"coordinate": "lightcone", "length": -1}, "length is -1"),
    ],
)
def test_a_coordinate_that_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RoPE(4, **options)


def test_a_kernel_that_defines_a_face_has_it():
    class Step(PositionKernel, register=False):
        def lag_bias(self, lags):
            return -(lags.abs() > 2).double()[None]

    assert Step().biases and not Step().rotates and not Step().folds
    x = torch.randn(1, 1, 6, 8, generator=torch.Generator().manual_seed(0))
    assert not torch.allclose(attend(x, x, x, Step()), attend(x, x, x))


def test_wide_trained_frequencies_keep_their_bits_through_a_spec():
    kernel = RoPE(4, omega=nn.Parameter(torch.tensor([0.5, 1 / 3], dtype=torch.float64)))
    assert torch.equal(kernel_from_spec(kernel.spec).omega, kernel.omega)
    kernel.spec["head_dim"] = 8
    assert kernel.spec["head_dim"] == 4, "a spec handed out is a copy"


def test_norm_changing_rotations_stay_wide():
    x = torch.ones(1, 1, 3, 8, dtype=torch.bfloat16)
    assert (
        RoPE(8, extension=YaRN(4.0, 16)).rotate(x, None, torch.arange(3))[0].dtype == torch.float32
    )
    assert RoPE(8).rotate(x, None, torch.arange(3))[0].dtype == torch.bfloat16


def test_a_kernel_cannot_take_a_known_name():
    with pytest.raises(ValueError, match="a kernel named 'RoPE' exists in pjrope"):
        type("RoPE", (PositionKernel,), {"__module__": "elsewhere"})
    with pytest.raises(ValueError, match=r"'JetSector' is not known: there are \['ALiBi'"):
        kernel_from_spec({"kernel": "JetSector"})


def test_layouts_in_memory_do_not_matter():
    x = torch.randn(2, 3, 5, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    positions = torch.arange(5) * 7
    rope = RoPE(8)
    want, _ = rope.rotate(x[..., :8].contiguous(), None, positions)
    for view in (x[..., :8], x[..., :8].transpose(1, 2).contiguous().transpose(1, 2)):
        torch.testing.assert_close(rope.rotate(view, None, positions)[0], want, rtol=0, atol=1e-15)
    odd = torch.cat([x[..., :1], x[..., :8]], dim=-1)[..., 1:]
    torch.testing.assert_close(rope.rotate(odd, None, positions)[0], want, rtol=0, atol=1e-15)
