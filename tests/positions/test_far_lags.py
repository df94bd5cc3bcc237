"""Lags and positions around 2^31: coordinates, biases and rotations against 50 digits of Decimal."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
import torch

from pjrope import attend
from pjrope.kernels import Affine, LightCone, PJBias, PJInit, PJRotary, RoPE, reference
from pjrope.positions import bounded_shear, lags, linear, phase, rapidity, velocity

LENGTH = 512
FAR = [2**31 - 1, 2**31, 2**31 + 1, 2**31 + 12345, 2**32 + 7, 2**40 + 1]
TURN = Decimal("6.28318530717958647692528676655900576839433879875021")


def exact(d: int, length: int = LENGTH) -> dict[str, Decimal]:
    """The five coordinates of a lag to 50 digits."""
    with localcontext() as context:
        context.prec = 50
        x = Decimal(d) / length
        root = (x * x + 1).sqrt()
        y = (x + root).ln()
        tau = Decimal(d) / (1 + x)
        return {
            "linear": x,
            "bounded_shear": tau,
            "rapidity": y,
            "phase": length * y,
            "velocity": x / root,
        }


def turned(omega: float, path: Decimal) -> tuple[float, float]:
    """cos and sin of omega times a path, the whole turns taken off in 50 digits."""
    with localcontext() as context:
        context.prec = 50
        angle = float((Decimal(omega) * path) % TURN)
    return math.cos(angle), math.sin(angle)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
@pytest.mark.parametrize("f", [linear, bounded_shear, rapidity, phase, velocity])
def test_coordinates(f, dtype):
    got = f(torch.tensor(FAR).to(dtype), LENGTH)
    want = torch.tensor([float(exact(d)[f.__name__]) for d in FAR], dtype=torch.float64)
    torch.testing.assert_close(got, want, rtol=1e-14, atol=0)
    torch.testing.assert_close(f(-torch.tensor(FAR), LENGTH), -want, rtol=1e-14, atol=0)


def test_coordinates_hold_32_bit_lags_and_tell_neighbours_apart():
    edge = torch.tensor([2**31 - 2, 2**31 - 1], dtype=torch.int32)  # d^2 has no room in 64 bits
    for f in (linear, bounded_shear, rapidity, phase, velocity):
        assert torch.equal(f(edge, LENGTH), f(edge.long(), LENGTH))
    for f in (linear, rapidity, phase):
        assert bool((f(torch.tensor(FAR), LENGTH).diff() > 0).all())
    step = phase(torch.tensor([2**31, 2**31 + 1000]), LENGTH).diff()
    assert float(step) == pytest.approx(1000 * LENGTH / math.hypot(2**31 + 500, LENGTH), rel=1e-7)


def test_velocity_stays_below_one_until_fp64_rounds_it():
    for d, below in ((2**31, True), (66_000_000 * LENGTH, True), (2**40, False)):
        assert (float(velocity(torch.tensor(d), LENGTH)) < 1) == below


def test_lags_themselves_are_exact():
    q_pos, k_pos = torch.tensor([2**31 + 3, 2**40]), torch.tensor([0, 2**31, 2**40 - 1])
    want = [[i - j for j in k_pos.tolist()] for i in q_pos.tolist()]
    assert lags(q_pos, k_pos).tolist() == want
    edge = torch.tensor([-(2**31), 2**31 - 1], dtype=torch.int32)
    assert lags(edge, edge).tolist() == [[0, 1 - 2**32], [2**32 - 1, 0]]
    few = torch.tensor([3, 5], dtype=torch.uint8)
    assert lags(few, few).tolist() == [[0, -2], [2, 0]]
    with pytest.raises(ValueError, match=r"q_pos have dtype torch\.float32"):
        lags(few.float(), few)


@torch.no_grad()
@pytest.mark.parametrize("parts", ["both", "phase", "amplitude"])
def test_light_cone(parts):
    kernel = LightCone(2, LENGTH, max_order=3, parts=parts, zeta_scale=1.0).double()
    got = kernel.lag_bias(torch.tensor(FAR))
    for head in range(2):
        w = float(kernel.omega[head])
        for n, d in enumerate(FAR):
            at = exact(d)
            cos, sin = turned(w, Decimal(d) if parts == "amplitude" else at["phase"])
            want, size = 0.0, 0.0
            for r in range(4):
                u, unit = ("velocity", 1) if parts != "phase" else ("linear", math.factorial(r))
                amplitude = float(at[u]) ** r / unit
                a, b = float(kernel.zeta_re[head, r]), float(kernel.zeta_im[head, r])
                want += amplitude * (a * cos - b * sin)
                size += amplitude * math.hypot(a, b)
            # A phase is rounded by half a last digit of its own size: 2^40 w loses 1e-5.
            slip = (w * d if parts == "amplitude" else w * float(at["phase"])) * 2**-52
            assert abs(float(got[head, n]) - want) <= size * (slip + 1e-13)


@torch.no_grad()
def test_recency_and_the_union_on_a_light_cone():
    affine = Affine(1, LENGTH, slope=3.0, coordinate="lightcone").double()
    union = PJBias(
        2, LENGTH, sectors=("affine", "lc"), coordinate="lightcone",
        init=PJInit(slope=3.0, zeta_scale=0.5),
    ).double()  # fmt: skip
    recency, both = affine.lag_bias(torch.tensor(FAR)), union.lag_bias(torch.tensor(FAR))
    gates, (re, im) = union.gates, union.amplitudes("lc")
    for n, d in enumerate(FAR):
        at = exact(d)
        y, beta = float(at["rapidity"]), float(at["velocity"])
        assert float(recency[0, n]) == pytest.approx(-float(affine.slope) * y, rel=1e-13)
        for head in range(2):
            cos, sin = turned(float(union.omega[head]), at["phase"])
            want = -float(gates[head, 0] * union.slope[head]) * y
            for r in range(3):
                jet = float(re[head, r]) * cos - float(im[head, r]) * sin
                want += float(gates[head, 1]) * beta**r * jet
            assert float(both[head, n]) == pytest.approx(want, rel=1e-12, abs=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("parts", ["both", "phase", "amplitude"])
def test_rotations_along_a_light_cone(parts):
    kernel = PJRotary(8, LENGTH, coordinate="lightcone", parts=parts)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 8, generator=generator, dtype=torch.float64)
    swapped = [x.view(2, 2, 2).flip(1).flatten().tolist() for x in (q, k)]
    for i, j in ((2**31 + 5, 2**31), (2**31, 0), (2**32 + 9, 2**31)):
        a, b = kernel.rotate(q, k, torch.tensor([i]), torch.tensor([j]))
        where = (i, j, LENGTH, kernel.omega.tolist(), 2, 0.0, 1.0, parts)
        want = reference.lightcone_jordan_score(*swapped, *where)
        # Linear parts lose what positions of 2^32 lose: 1e-7 of a phase, eps (p/L)^2 of a shear.
        assert float((a * b).sum()) == pytest.approx(want, rel=1e-6, abs=1e-5)


@torch.no_grad()
def test_attend_takes_positions_beyond_32_bits():
    kernel = RoPE(8, coordinate="lightcone", length=LENGTH) + LightCone(1, LENGTH, zeta_scale=1.0)
    k_pos = torch.tensor([0, 5, 2**31 - 1, 2**31, 2**31 + 3])
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 8, generator=generator, dtype=torch.float64) for n in (1, 5, 5))
    rotated_q, rotated_k = kernel.rotate(q, k, k_pos[-1:], k_pos)
    logits = (rotated_q @ rotated_k.mT)[0, 0, 0] / math.sqrt(8)
    logits = logits + kernel.lag_bias(k_pos[-1] - k_pos)[0]
    want = logits.softmax(-1) @ v[0, 0]
    for backend in ("eager", "sdpa"):
        got = attend(q, k, v, kernel, q_pos=k_pos[-1:], k_pos=k_pos, backend=backend)
        torch.testing.assert_close(got[0, 0, 0], want, rtol=0, atol=1e-12)
