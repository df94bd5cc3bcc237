"""Difference equations, ranks and recovery: the mathematics of kernels of finite rank."""

import cmath
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pjrope.kernels import (
    Affine,
    ALiBi,
    FourierJet,
    JordanRoPE,
    LightCone,
    NoPE,
    PJBias,
    PJInit,
    RoPE,
    direct_sum,
)
from pjrope.kernels.algebra import (
    Root,
    characteristic_polynomial,
    difference,
    fit_jets,
    hankel,
    jets_basis,
    merge_roots,
    prony,
    rank,
    residual,
    roots,
    shift,
    solves,
    toeplitz_block,
)
from tests.kernels.catalogue import kernels

DAYS = torch.arange(12)


def turn(angle, modulus=1.0):
    return modulus * cmath.exp(1j * angle)


# The four facts of the protocol ----------------------------------------------------------------


@pytest.mark.parametrize("r", range(4))
def test_a_shift_steps_down_the_binomial_jets(r):
    z = turn(0.37)
    basis = jets_basis([Root(z, 4)], DAYS)
    below = z * basis[:-1, r - 1] if r else torch.zeros(11, dtype=torch.complex128)
    torch.testing.assert_close(difference(basis[:, r], z), below, rtol=0, atol=1e-10)


@pytest.mark.parametrize("r", range(4))
def test_a_power_of_the_difference_kills_the_jet(r):
    z = turn(0.23, 0.91)
    jet = jets_basis([Root(z, 4)], torch.arange(20))[:, r]
    assert float(difference(jet, z, r + 1).abs().max()) < 1e-9
    assert float(difference(jet, z, r).abs().max()) > 1e-3


def test_the_line_has_a_repeated_unit_root():
    line = torch.arange(20.0)
    assert float(difference(line, 1, 2).abs().max()) < 1e-12
    assert difference(line, 1).tolist() == [1.0] * 19
    torch.testing.assert_close(
        characteristic_polynomial([Root(1, 2)]), torch.tensor([1, -2, 1], dtype=torch.complex128)
    )


def test_powers_and_binomials_span_the_same():
    z = turn(0.19)
    binomials = jets_basis([Root(z, 4)], DAYS)
    character = jets_basis([Root(z)], DAYS)
    powers = DAYS.double()[:, None] ** torch.arange(4) * character
    both = torch.cat([binomials, powers], -1)
    assert [rank(m) for m in (binomials, powers, both)] == [4, 4, 4]


# Operators -------------------------------------------------------------------------------------


def test_shifts_compose_and_refuse_more_than_there_is():
    values = torch.arange(6.0)
    assert torch.equal(shift(shift(values, 2), 3), shift(values, 5))
    with pytest.raises(ValueError, match="steps is 7, 6 samples"):
        shift(values, 7)


def test_the_polynomial_is_the_recurrence_of_the_residual():
    own = [Root(turn(0.7, 0.9), 2), Root(1, 2), Root(-0.5)]
    values = torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    coefficients = characteristic_polynomial(own)
    windows = values.to(torch.complex128).unfold(0, 6, 1)  # f(d) ... f(d+5)
    torch.testing.assert_close(residual(values, own), windows @ coefficients.flip(0))
    with pytest.raises(ValueError, match="5 samples, an equation of order 5 needs 6"):
        residual(values[:5], own)


def test_solves_tells_a_kernel_from_another():
    lags = torch.arange(64)
    jet = FourierJet(1, 16, max_order=1, zeta_scale=1.0).double()
    line = ALiBi(1)
    for one, other in ((jet, line), (line, jet)):
        values = one.lag_bias(lags)[0]
        assert solves(values, roots(one)[0])
        assert not solves(values, roots(other)[0])


def test_a_root_is_a_number_with_a_count():
    assert Root(1, 2) == Root(1.0 + 0j, 2)
    with pytest.raises(ValueError, match="multiplicity is 0"):
        Root(1, 0)
    with pytest.raises(ValueError, match="value is"):
        Root(float("nan"))


def test_jets_at_the_root_0_are_the_first_lags_one_by_one():
    basis = jets_basis([Root(0, 3)], torch.arange(6)).real
    torch.testing.assert_close(basis[:3], torch.eye(3, dtype=torch.float64))
    assert bool((basis[3:] == 0).all())
    assert float(difference(basis[:, 2], 0, 3).abs().max()) == 0
    assert difference(basis[:, 2], 0, 2)[0] == 1


# Roots of kernels ------------------------------------------------------------------------------


def test_roots_of_the_named_kernels():
    assert roots(NoPE()) == [[]]
    assert roots(ALiBi(3)) == [[Root(1, 2)]] * 3
    assert roots(Affine(2, 64, coordinate="lightcone")) is None
    (rope,) = roots(RoPE(4, base=100.0))
    assert {(round(cmath.phase(r.value), 12), r.multiplicity) for r in rope} == {
        (1.0, 1),
        (-1.0, 1),
        (0.1, 1),
        (-0.1, 1),
    }
    (partial,) = roots(RoPE(4, rotary_dim=2))
    assert Root(1) in partial and len(partial) == 3
    jordan = roots(JordanRoPE(6, 2, 10, order=3, gamma=0.5, eta=0.1, omega=[0.3]))
    assert len(jordan) == 2
    for root in jordan[0]:
        assert abs(root.value) == pytest.approx(math.exp(-0.05), abs=1e-7)
        assert abs(cmath.phase(root.value)) == pytest.approx(0.3) and root.multiplicity == 3
    assert len(roots(JordanRoPE(4, 1, 10, omega=[0.0]))[0]) == 1, "a real pair is one root"


def test_sums_share_roots_and_heads():
    assert merge_roots([Root(1, 2)], [Root(1), Root(-1)], [Root(-1, 3)]) == [
        Root(1, 2),
        Root(-1, 3),
    ]
    assert roots(ALiBi(2) + Affine(2, 8)) == [[Root(1, 2)]] * 2
    grouped = JordanRoPE(4, 2, 10, omega=torch.tensor([[0.3], [0.9]]), gamma=0) + ALiBi(4)
    phases = [max(cmath.phase(r.value) for r in own) for own in roots(grouped)]
    assert phases == pytest.approx([0.3, 0.3, 0.9, 0.9])
    assert roots(RoPE(4) + LightCone(2, 8)) is None
    two = direct_sum(RoPE(4), RoPE(4))
    assert roots(two) == roots(RoPE(4)), "twice the channels, the same functions"


# Ranks -----------------------------------------------------------------------------------------


@st.composite
def root_sets(draw):
    """Roots that samples can tell apart: half a radian between them, moduli near 1."""
    places = draw(st.lists(st.integers(0, 11), min_size=1, max_size=4, unique=True))
    return [
        Root(turn(0.5 * n, draw(st.floats(0.9, 1.02))), draw(st.integers(1, 3))) for n in places
    ]


def combination(own, count, seed=0):
    """Samples of a function with exactly these roots: no amplitude near 0."""
    basis = jets_basis(own, torch.arange(count))
    generator = torch.Generator().manual_seed(seed)
    angles = 2 * math.pi * torch.rand(basis.shape[1], generator=generator, dtype=torch.float64)
    return (basis / basis.abs().amax(0)) @ torch.polar(torch.ones_like(angles), angles)


@settings(deadline=None, max_examples=60)
@given(root_sets(), st.integers(0, 1000))
def test_the_hankel_rank_is_the_sum_of_multiplicities(own, seed):
    total = sum(root.multiplicity for root in own)
    for size in (total + 8, total + 25):
        values = combination(own, 2 * size, seed)
        matrix = hankel(values[:-1])
        assert matrix.shape == (size, size) and rank(matrix) == total
        assert rank(toeplitz_block(values)) == total
        assert solves(values, own)


@settings(deadline=None, max_examples=25)
@given(root_sets(), st.integers(0, 1000))
def test_prony_finds_random_roots(own, seed):
    found = prony(combination(own, 160, seed))
    assert sorted(r.multiplicity for r in found) == sorted(r.multiplicity for r in own)
    for root in own:
        near = min(found, key=lambda other: abs(other.value - root.value))
        assert abs(near.value - root.value) < 1e-6 and near.multiplicity == root.multiplicity


def test_the_block_causal_attention_sees():
    values = torch.arange(8.0)
    block = toeplitz_block(values)
    assert block.tolist() == [[4 + a - b for b in range(4)] for a in range(4)]
    assert torch.equal(block.flip(-1), hankel(values[1:]))
    assert hankel(values).shape == (4, 5)
    with pytest.raises(ValueError, match="7 samples"):
        toeplitz_block(values[:-1])


FINITE = {
    "alibi": (ALiBi(2), 2),
    "affine": (Affine(2, 16), 2),
    "jet": (FourierJet(2, 16, max_order=3, zeta_scale=0.7, omega_cycles=3.3), 8),
    "pj": (PJBias(2, 16, sectors=("fj", "affine"), omega_cycles=3.3), 8),
    "amplitude": (LightCone(2, 16, parts="amplitude", max_order=0), 2),
}


@pytest.mark.parametrize("name", FINITE)
def test_kernels_of_finite_rank_keep_it_at_any_size(name):
    kernel, want = FINITE[name]
    assert sum(root.multiplicity for root in roots(kernel)[1]) == want
    for size in (24, 48, 96):
        bias = kernel.double().lag_bias(torch.arange(2 * size))[1]
        assert rank(hankel(bias[:-1])) == want
        assert rank(toeplitz_block(bias)) == want


@pytest.mark.parametrize(
    "kernel",
    [
        LightCone(1, 8, max_order=3, zeta_scale=1.0, omega_cycles=2.3),
        LightCone(1, 8, max_order=0, zeta_scale=1.0, omega_cycles=2.3),
        LightCone(1, 8, max_order=2, parts="phase", zeta_scale=1.0, omega_cycles=2.3),
        LightCone(1, 8, max_order=2, parts="amplitude", zeta_scale=1.0, omega_cycles=2.3),
        Affine(1, 8, coordinate="lightcone"),
        PJBias(1, 8, sectors=("affine", "lc"), omega_cycles=2.3, init=PJInit(zeta_scale=1.0)),
    ],
    ids=["both", "order0", "phase", "amplitude", "affine", "pj"],
)
def test_a_light_cone_has_no_fold(kernel):
    """A fold of r channels is a factorisation of the block of the past with inner dimension r: no
    r will do, since the rank of the block exceeds any that was seen before as the block grows."""
    assert roots(kernel) is None and not kernel.folds
    assert kernel.fold(DAYS, DAYS) is None
    ranks = [
        rank(toeplitz_block(kernel.double().lag_bias(torch.arange(2 * size))[0]), 1e-12)
        for size in (8, 32, 128, 512)
    ]
    assert ranks == sorted(ranks) and len(set(ranks)) == 4, ranks


# fold = bias -----------------------------------------------------------------------------------

FOLDING = [n for n, kernel in kernels().items() if kernel.folds]


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 10_000), start=st.integers(0, 10_000))
@pytest.mark.parametrize("name", FOLDING)
def test_fold_equals_bias_for_random_parameters(name, seed, start):
    kernel = kernels()[name].double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in kernel.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter))
    k_pos = start + torch.sort(torch.randperm(60, generator=generator)[:12]).values
    q_pos = torch.cat([k_pos, k_pos[-1:] + torch.tensor([1, 5, 40])])
    phi_q, phi_k = kernel.fold(q_pos, k_pos)
    lags = q_pos[:, None] - k_pos[None]
    bias = kernel.lag_bias(lags.flatten()).view(-1, *lags.shape)
    past = lags >= 0
    size = (phi_q.abs() @ phi_k.abs().mT).amax().item()
    folded = (phi_q @ phi_k.mT)[:, past]
    torch.testing.assert_close(folded, bias[:, past], rtol=1e-10, atol=1e-12 * max(1.0, size))
    own = roots(kernel)
    if own and not kernel.rotates:
        assert all(sum(r.multiplicity for r in head) <= phi_q.shape[-1] for head in own)


# Recovery --------------------------------------------------------------------------------------

RECOVERED = {
    "alibi": ALiBi(1),
    "jet0": FourierJet(1, 64, max_order=0, omega_cycles=5.3, zeta_scale=0.5),
    "jet2": FourierJet(1, 64, max_order=2, omega_cycles=5.3, zeta_scale=0.5),
    "jet3_undamped": FourierJet(1, 64, max_order=3, omega_cycles=5.3, damping=0, zeta_scale=0.5),
    "pj": PJBias(1, 64, max_order=2, sectors=("fj", "affine"), omega_cycles=5.3),
    "affine": PJBias(1, 64, sectors=("affine",)),
}


@pytest.mark.parametrize("name", RECOVERED)
def test_prony_recovers_the_roots_of_a_kernel(name):
    kernel = RECOVERED[name].double()
    values, want = kernel.lag_bias(torch.arange(256))[0], roots(kernel)[0]
    found = prony(values)
    assert len(found) == len(want)
    for root in want:
        near = min(found, key=lambda other: abs(other.value - root.value))
        assert abs(near.value - root.value) < 1e-8 and near.multiplicity == root.multiplicity
    assert {r.value.imag > 0 for r in found} != {True}, "conjugates come in pairs"
    assert fit_jets(values, found)[1] < 1e-9


def test_prony_bears_noise_below_its_tolerance():
    values = torch.cos(0.8 * torch.arange(200)).double()
    noise = torch.randn(200, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = prony(values + 1e-4 * noise, tol=1e-2)
    assert [r.multiplicity for r in found] == [1, 1]
    assert [abs(cmath.phase(r.value)) for r in found] == pytest.approx([0.8, 0.8], abs=1e-5)


def test_prony_of_nothing_and_of_too_little():
    assert prony(torch.zeros(20)) == []
    with pytest.raises(ValueError, match="10 samples for rank 6: at least 12"):
        prony(torch.randn(10, generator=torch.Generator().manual_seed(0)), rank=6)


@pytest.mark.parametrize("first", [[1.0], [1.0, 1.0], [5.0, 3.0, 2.0]])
def test_prony_says_that_a_root_is_zero(first):
    values = torch.zeros(12, dtype=torch.float64)
    values[: len(first)] = torch.tensor(first)
    with pytest.raises(ValueError, match=r"a root 0: .* prony\(values\[1:\]\)"):
        prony(values)
    falling = 0.9 ** torch.arange(20, dtype=torch.float64)
    jump = falling.clone()
    jump[0] += 2
    with pytest.raises(ValueError, match="a root 0"):
        prony(jump)
    (root,) = prony(jump[1:])
    assert root.value == pytest.approx(0.9)


@pytest.mark.parametrize("size", [-1, 1.0, True])
def test_prony_refuses_a_rank_that_is_none(size):
    with pytest.raises(ValueError, match=f"rank is {size!r}, an integer >= 0"):
        prony(torch.ones(8), rank=size)


def test_samples_are_finite_and_in_a_row():
    holed = torch.ones(8)
    holed[3] = float("nan")
    for ask in (prony, lambda v: fit_jets(v, [Root(1)]), lambda v: rank(hankel(v))):
        with pytest.raises(ValueError, match="holds NaN or infinity"):
            ask(holed)
    for ask in (prony, lambda v: fit_jets(v, [Root(1)]), hankel, toeplitz_block):
        with pytest.raises(ValueError, match=r"values have shape \(2, 4\), the samples \(n,\)"):
            ask(torch.ones(2, 4))
    with pytest.raises(ValueError, match=r"matrix has shape \(4,\)"):
        rank(torch.ones(4))


def test_samples_in_fp32_do_not_give_their_rounding_as_roots():
    narrow = FourierJet(1, 64, max_order=2, omega_cycles=5.3, zeta_scale=0.5)
    values = narrow.lag_bias(torch.arange(256))[0].detach().float()
    assert rank(hankel(values)) == 6 and rank(hankel(values.double())) > 6
    want = roots(narrow)[0]
    found = prony(values)
    assert [r.multiplicity for r in found] == [3, 3]
    for root in want:
        assert min(abs(root.value - other.value) for other in found) < 1e-4


def test_fit_of_zeros_is_zero_without_error():
    amplitudes, error = fit_jets(torch.zeros(9), [Root(1, 2)])
    assert error == 0.0 and not bool(amplitudes.any())


def test_powers_and_roots_that_do_not_exist():
    with pytest.raises(ValueError, match="power is -1, an integer >= 0"):
        difference(torch.ones(4), 1, power=-1)
    for multiplicity in (1.5, True):
        with pytest.raises(ValueError, match=f"multiplicity is {multiplicity}, an integer >= 1"):
            Root(1, multiplicity)
    for value in (float("nan"), complex(0, float("inf"))):
        with pytest.raises(ValueError, match="a root is one finite number"):
            Root(value)


def test_a_root_that_stands_twice_is_no_basis():
    twice = [Root(0.5), Root(0.5, 2)]
    for ask in (lambda: jets_basis(twice, DAYS), lambda: fit_jets(torch.ones(9), twice)):
        with pytest.raises(ValueError, match="some of them equal: merge_roots"):
            ask()
    assert jets_basis(merge_roots(twice), DAYS).shape == (12, 2)


def test_no_fit_takes_pivots_from_unfilled_memory(monkeypatch):
    """Torch's default driver on a CPU, gelsy, does: equal calls then differ, which shows by chance."""
    drivers, solve = [], torch.linalg.lstsq

    def watched(*given, driver=None):
        drivers.append(driver)
        return solve(*given, driver=driver)

    monkeypatch.setattr(torch.linalg, "lstsq", watched)
    (root,) = prony(torch.arange(48))
    assert root.multiplicity == 2
    assert len(drivers) >= 3 and set(drivers) == {"gelsd"}
