"""Jordan blocks along light-cone coordinates: their closed form, every backend, what they refuse."""

import json
import math

import pytest
import torch
from torch import nn

from pjrope import KVCache, attend
from pjrope.attention.decoding import attend_cached
from pjrope.kernels import (
    JordanRoPE,
    PJBias,
    PJInit,
    PJRotary,
    RoPE,
    direct_sum,
    kernel_from_spec,
    reference,
)
from pjrope.kernels.algebra import roots

LENGTH, PARTS = 16, ("both", "phase", "amplitude")
FAR = 1 << 20


def random(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def rotary(parts, **more):
    return PJRotary(8, LENGTH, coordinate="lightcone", parts=parts, **more)


def jordan(parts, **more):
    more = {"gamma": 0.5, "eta": 0.7} | more
    return JordanRoPE(8, 2, LENGTH, coordinate="lightcone", parts=parts, **more)


def pair(kernel, q, k, i, j):
    a, b = kernel.rotate(
        q[None, None, None], k[None, None, None], torch.tensor([i]), torch.tensor([j])
    )
    return (a.double() * b.double()).sum().item()


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("form", ["scaled", "exact"])
@pytest.mark.parametrize("parts", PARTS)
def test_jordan_along_a_light_cone_is_the_closed_form(parts, form, order):
    unit = 1 if form == "scaled" else 1 / LENGTH
    size = 4 * order
    kernel = JordanRoPE(
        size, 1, LENGTH, order=order, form=form, omega=[0.9, 0.05], gamma=0.5 * unit,
        eta=0.7 * unit, coordinate="lightcone", parts=parts,
    ).double()  # fmt: skip
    c, eta = (float(x.detach().max()) / unit for x in (kernel.gamma, kernel.eta))
    q, k = random(size), random(size, seed=1)
    for i, j in ((0, 0), (7, 7), (40, 3), (300, 290)):
        where = (q.tolist(), k.tolist(), i, j, LENGTH, [0.9, 0.05], order, c, eta, parts)
        want = reference.lightcone_jordan_score(*where)
        assert pair(kernel, q, k, i, j) == pytest.approx(want, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("parts", PARTS)
def test_pj_rotary_along_a_light_cone_is_the_same_block_read_backwards(parts):
    kernel = rotary(parts, order=2, eta=-0.6)
    q, k = random(8), random(8, seed=1)
    swapped = [x.view(2, 2, 2).flip(1).flatten().tolist() for x in (q, k)]
    for i, j in ((5, 5), (40, 3), (2000, 1990)):
        where = (i, j, LENGTH, kernel.omega.tolist(), 2, 0.0, -0.6, parts)
        want = reference.lightcone_jordan_score(*swapped, *where)
        assert pair(kernel, q, k, i, j) == pytest.approx(want, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("make", [rotary, jordan])
@pytest.mark.parametrize("parts", PARTS)
def test_a_light_cone_is_not_relative_and_says_so(parts, make):
    kernel = make(parts)
    assert not kernel.claims.relative and not kernel.claims.finite_rank
    assert roots(kernel) is None
    assert KVCache(kernel=kernel).mode == "raw"
    q, k = random(8), random(8, seed=1)
    heads = (q.expand(2, 8), k.expand(2, 8))
    scores = []
    for j in (0, 60):
        a, b = kernel.rotate(
            *(x[None, :, None] for x in heads), torch.tensor([j + 9]), torch.tensor([j])
        )
        scores.append((a * b).sum(-1))
    assert float((scores[0] - scores[1]).detach().abs().max()) > 0.05


def test_without_shear_and_damping_amplitudes_bend_nothing():
    kernel, plain = rotary("amplitude", eta=0.0), PJRotary(8, LENGTH, eta=0.0)
    assert kernel.claims == plain.claims and kernel.claims.relative
    x, positions = random(1, 1, 3, 8), torch.tensor([0, 9, 5000])
    for a, b in zip(kernel.rotate(x, x, positions, positions),
                    plain.rotate(x, x, positions, positions), strict=True):  # fmt: skip
        assert torch.equal(a, b)
    bent = rotary("phase", eta=0.0)
    cone = RoPE(8, omega=bent.omega.repeat_interleave(2), coordinate="lightcone", length=LENGTH)
    assert bent.claims.norm_preserving and cone.claims.norm_preserving
    torch.testing.assert_close(
        bent.rotate(x, None, positions)[0], cone.rotate(x, None, positions)[0], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("make", [rotary, jordan])
def test_every_backend_and_the_cache_agree_with_eager(make, parts):
    kernel = make(parts) + PJBias(2, LENGTH, sectors=("fj", "affine"), init=PJInit(zeta_scale=0.5))
    kernel, n = kernel.double(), 70
    positions = torch.arange(n) + 25
    found = {}
    for backend in ("eager", "sdpa", "toeplitz", "fold", "auto"):
        q, k, v = (random(1, 2, n, 8, seed=s).requires_grad_() for s in range(3))
        out = attend(q, k, v, kernel, q_pos=positions, k_pos=positions, backend=backend)
        weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
        grads = torch.autograd.grad((out * weights).sum(), [q, k, v, *kernel.parameters()])
        found[backend] = [out.detach(), *grads]
    for backend, values in found.items():
        for value, want in zip(values, found["eager"], strict=True):
            torch.testing.assert_close(value, want, rtol=1e-8, atol=1e-9, msg=backend)
    q, k, v = (random(1, 2, n, 8, seed=s) for s in range(3))
    with torch.no_grad():
        flex = attend(q, k, v, kernel, q_pos=positions, k_pos=positions, backend="flex")
        torch.testing.assert_close(flex, found["eager"][0], rtol=0, atol=1e-8)
        cache = KVCache(kernel=kernel)
        for start, stop in ((0, 40), (40, 69), (69, 70)):
            cache.append(k[:, :, start:stop], v[:, :, start:stop], positions[start:stop])
            step = attend_cached(q[:, :, start:stop], cache, q_pos=positions[start:stop])
            torch.testing.assert_close(step, found["eager"][0][:, :, start:stop], rtol=0, atol=1e-9)


@pytest.mark.parametrize("parts", PARTS)
def test_gradients_in_fp64(parts):
    kernel = JordanRoPE(
        8, 1, LENGTH, gamma=0.5, eta=0.3, coordinate="lightcone", parts=parts,
        omega=nn.Parameter(torch.tensor([0.9, 0.1], dtype=torch.float64)),
    ).double()  # fmt: skip
    names = [n for n, _ in kernel.named_parameters()]
    assert sorted(names) == ["eta", "gamma_raw", "omega"]
    positions = torch.tensor([0, 4, 30])

    def score(q, k, *values):
        held = dict(zip(names, values, strict=True))
        a, b = torch.func.functional_call(_Rotate(kernel), _inner(held), (q, k, positions))
        return a @ b.mT

    inputs = [random(1, 1, 3, 8, seed=s).requires_grad_() for s in (0, 1)]
    values = [p.detach().clone().requires_grad_() for p in kernel.parameters()]
    assert torch.autograd.gradcheck(score, (*inputs, *values))


class _Rotate(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel

    def forward(self, q, k, positions):
        return self.kernel.rotate(q, k, positions, positions)


def _inner(held):
    return {f"kernel.{name}": value for name, value in held.items()}


@pytest.mark.parametrize("make", [rotary, jordan])
def test_spec_and_state_rebuild_it_and_old_specs_are_straight(make):
    first = make("phase")
    assert (first.spec["coordinate"], first.spec["parts"]) == ("lightcone", "phase")
    again = kernel_from_spec(json.loads(json.dumps(first.spec)))
    again.load_state_dict(first.state_dict(), strict=True)
    x, positions = random(1, 2, 4, 8), torch.tensor([0, 3, 50, 700])
    for a, b in zip(again.rotate(x, x, positions, positions),
                    first.rotate(x, x, positions, positions), strict=True):  # fmt: skip
        assert torch.equal(a, b)
    old = {n: v for n, v in first.spec.items() if n not in ("coordinate", "parts")}
    assert kernel_from_spec(old).claims.relative


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("make", [rotary, jordan])
@pytest.mark.parametrize("parts", ["both", "amplitude"])
def test_bent_amplitudes_stay_near_the_closed_form_a_million_tokens_out(parts, make, dtype):
    kernel, n = make(parts), 600
    k_pos = FAR - 1 - torch.arange(n).flip(0) * 1700
    q, k, v = (random(1, 2, m, 8, seed=s).to(dtype) for s, m in enumerate((1, n, n)))
    with torch.no_grad():
        got = attend(q, k, v, kernel, q_pos=k_pos[-1:], k_pos=k_pos)
        want = attend(*(x.double() for x in (q, k, v)), kernel_from_spec(kernel.spec).double(),
                      q_pos=k_pos[-1:], k_pos=k_pos, backend="eager")  # fmt: skip
    assert kernel.claims.bounded and kernel.any_origin and got.dtype == dtype
    limit = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}[dtype]
    assert float((got.double() - want).abs().max()) < limit


def test_beside_other_channels():
    kernel = direct_sum(RoPE(4), PJRotary(4, LENGTH, coordinate="lightcone"))
    assert not kernel.claims.relative and kernel.any_origin
    q, k, v = (random(1, 1, 40, 8, seed=s) for s in range(3))
    positions = torch.arange(40) + 1_000_000
    call = {"q_pos": positions, "k_pos": positions}
    want = attend(q, k, v, kernel, backend="eager", **call)
    torch.testing.assert_close(attend(q, k, v, kernel, **call), want, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: PJRotary(8, 16, coordinate="log"), "coordinate is 'log', known are"),
        (lambda: PJRotary(8, 16, coordinate="lightcone", parts="half"), "parts is 'half'"),
        (lambda: PJRotary(8, 16, parts="phase"), "only coordinate='lightcone' has parts"),
        (
            lambda: JordanRoPE(8, 1, 16, form="stabilized", coordinate="lightcone"),
            "form is 'stabilized', whose shear is bent already",
        ),
        (
            lambda: JordanRoPE(8, 1, 16, form="lag", coordinate="lightcone", parts="phase"),
            "takes form='scaled' or 'exact'",
        ),
    ],
)
def test_misuse_names_the_value_and_the_way_out(make, why):
    with pytest.raises(ValueError, match=why):
        make()


def test_too_much_damping_of_velocity_is_refused_and_not_clamped():
    kernel, x = jordan("both", gamma=100.0), random(1, 2, 2, 8, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"damping 6.25 per token over L = 16 tokens grows .* e\^"):
        kernel.rotate(None, x, None, torch.tensor([0, 1000]))
    phase = jordan("phase")
    with pytest.raises(ValueError, match="keys about 100000 tokens ahead of the origin"):
        attend(x, x, x, phase, q_pos=torch.tensor([0, 10**5]), k_pos=torch.tensor([0, 10**5]))
    assert math.isfinite(float(attend(x, x, x, phase).detach().sum()))
