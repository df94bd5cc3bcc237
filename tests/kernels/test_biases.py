import pytest
import torch

from pjrope.kernels import (
    Affine,
    ALiBi,
    FourierJet,
    LightCone,
    PJBias,
    PJInit,
    RoPE,
    direct_sum,
    kernel_from_spec,
    reference,
)
from pjrope.kernels.jets import cycles_ladder
from tests.golden import golden

LAGS = golden("lag_functions")
PJ = golden("pj_bias")


def pj_from_golden():
    parameters = PJ["parameters"]
    kernel = PJBias(2, PJ["L"], max_order=PJ["max_order"]).double()
    kernel.load_state_dict(
        {name: torch.tensor(v, dtype=torch.float64) for name, v in parameters.items()}, strict=True
    )
    return kernel


def test_pj_bias_golden():
    kernel = pj_from_golden()
    for head, want in enumerate(PJ["heads"]):
        lags = torch.tensor([row["lag"] for row in want["bias"]])
        values = torch.tensor([row["value"] for row in want["bias"]], dtype=torch.float64)
        torch.testing.assert_close(kernel.lag_bias(lags)[head], values, rtol=1e-10, atol=1e-10)
        assert kernel.gates[head].tolist() == pytest.approx(want["gates"], abs=1e-12)
        for sector in ("fj", "lc"):
            mass = kernel.gate(sector)[:, None] * torch.hypot(*kernel.amplitudes(sector))
            assert mass[head].tolist() == pytest.approx(want[f"{sector}_effective_mass"], abs=1e-10)
    single = pj_from_golden().float()
    lags = torch.tensor([row["lag"] for row in PJ["heads"][0]["bias"]])
    torch.testing.assert_close(
        single.lag_bias(lags).double(), kernel.lag_bias(lags), rtol=2e-6, atol=5e-3
    )


def test_pj_bias_equals_the_oracle():
    kernel = pj_from_golden()
    for lag in (0, 1, 5, 127, 3000):
        for head in range(2):
            want = reference.pj_bias(lag, PJ["L"], PJ["parameters"], head)
            assert float(kernel.lag_bias(torch.tensor([lag])).detach()[head, 0]) == pytest.approx(
                want, abs=1e-11
            )


def test_sectors_add_up_and_disabled_ones_are_not_there():
    kernel = pj_from_golden()
    lags = torch.arange(50)
    parts = kernel.sector_components(lags)
    assert {s: tuple(c.shape) for s, c in parts.items()} == {
        "fj": (2, 3, 50),
        "affine": (2, 1, 50),
        "lc": (2, 3, 50),
    }
    total = sum(kernel.gate(s)[:, None] * c.sum(1) for s, c in parts.items())
    torch.testing.assert_close(total, kernel.lag_bias(lags))
    only = PJBias(2, 64, sectors=("affine",))
    assert sorted(dict(only.named_parameters())) == ["raw_affine_slope"]
    assert only.gates.tolist() == [[1.0], [1.0]]
    assert only.gate("fj").tolist() == [0.0, 0.0]
    torch.testing.assert_close(
        only.lag_bias(lags), Affine(2, 64).lag_bias(lags), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("slope", [-3.0, 0.0, 0.5])
def test_a_signed_slope_starts_anywhere_and_is_itself_the_parameter(slope):
    kernel = PJBias(2, 64, sectors=("affine",), signed_slope=True, init=PJInit(slope=slope))
    assert {n: p.tolist() for n, p in kernel.named_parameters()} == {"affine_slope": [slope] * 2}
    lags = torch.arange(100)
    want = -slope * lags.double() / 64
    torch.testing.assert_close(kernel.lag_bias(lags), want.expand(2, -1), rtol=1e-12, atol=0)
    assert not kernel.claims.bounded
    assert kernel_from_spec(kernel.spec).spec == kernel.spec
    kernel.lag_bias(lags).sum().backward()
    torch.testing.assert_close(kernel.affine_slope.grad, -(lags.sum() / 64.0).expand(2))


@pytest.mark.parametrize(
    ("gates", "order", "want_gate", "want_order"),
    [("uniform", None, 1 / 3, 1 / 4), ("affine", 2, 0.9647, 0.948), ("lc", 0, 0.9647, 0.948)],
)
def test_initial_choices_of_the_protocol(gates, order, want_gate, want_order):
    kernel = PJBias(2, 64, max_order=3, init=PJInit(gates=gates, order=order))
    chosen = "fj" if gates == "uniform" else gates
    assert float(kernel.gate(chosen)[0].detach()) == pytest.approx(want_gate, abs=1e-4)
    alpha = kernel.lc_alpha_logits.softmax(-1)[0, order or 0]
    assert float(alpha.detach()) == pytest.approx(want_order, abs=1e-3)
    assert float(kernel.damping[0].detach()) == pytest.approx(0.1269, abs=1e-4)
    assert float(kernel.slope[0].detach()) == pytest.approx(2.0, abs=1e-6)


def test_frequency_ladder_of_the_protocol():
    import math

    turns = cycles_ladder(4, 512, 17.0) * 512 / (2 * math.pi)
    assert turns.tolist() == pytest.approx([1, 6 + 1 / 3, 11 + 2 / 3, 17])
    assert float(cycles_ladder(1, 512, 17.0)) == pytest.approx(17 * 2 * math.pi / 512)


def test_zero_amplitudes_still_train():
    kernel = PJBias(2, 64, init=PJInit(zeta_scale=0.0))
    kernel.lag_bias(torch.arange(20)).square().sum().backward()
    for name, parameter in kernel.named_parameters():
        assert bool(torch.isfinite(parameter.grad).all()), name
    assert bool((kernel.fj_zeta_re.grad != 0).any())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Affine(2, 16),
        lambda: FourierJet(2, 16, zeta_scale=0.5),
        lambda: LightCone(2, 16, zeta_scale=0.5),
        lambda: PJBias(2, 16, init=PJInit(zeta_scale=0.5)),
        lambda: PJBias(2, 16, share_omega=False, init=PJInit(zeta_scale=0.5)),
        lambda: PJBias(2, 16, signed_slope=True, init=PJInit(zeta_scale=0.5, slope=-1.0)),
    ],
)
def test_gradcheck_of_every_parameter(make):
    kernel = make().double()
    names = [n for n, _ in kernel.named_parameters()]
    lags = torch.tensor([0, 1, 4, 30])

    def f(*values):
        return torch.func.functional_call(kernel, dict(zip(names, values, strict=True)), (lags,))

    kernel.forward = kernel.lag_bias
    assert torch.autograd.gradcheck(
        f, tuple(p.detach().clone().requires_grad_() for p in kernel.parameters())
    )


def test_far_lags_are_finite_in_every_dtype_of_the_model():
    lags = torch.tensor([2**20, 2**31])
    for kernel in (ALiBi(2), Affine(2, 512), LightCone(2, 512), PJBias(2, 512), FourierJet(2, 512)):
        for cast in (kernel, kernel.half(), kernel.bfloat16()):
            assert bool(torch.isfinite(cast.lag_bias(lags).float()).all())


def test_sums_are_flat_and_direct_sums_split_channels():
    total = RoPE(8) + ALiBi(4) + Affine(4, 16)
    assert [type(p).__name__ for p in total.parts] == ["RoPE", "ALiBi", "Affine"]
    lags = torch.arange(9)
    torch.testing.assert_close(
        total.lag_bias(lags), ALiBi(4).lag_bias(lags) + Affine(4, 16).lag_bias(lags)
    )
    x = torch.randn(1, 1, 5, 12, generator=torch.Generator().manual_seed(0))
    positions = torch.arange(5)
    both, _ = direct_sum(RoPE(8), RoPE(4, base=50.0)).rotate(x, None, positions)
    first, _ = RoPE(8).rotate(x[..., :8], None, positions)
    second, _ = RoPE(4, base=50.0).rotate(x[..., 8:], None, positions)
    assert torch.equal(both, torch.cat([first, second], -1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RoPE(8) + RoPE(8), "direct_sum"),
        (lambda: ALiBi(2) + ALiBi(4), r"heads: \[2, 4\]"),
        (lambda: direct_sum(RoPE(8), ALiBi(2)), "ALiBi has no head_dim"),
        (lambda: PJBias(2, 16, sectors=()), "at least one"),
        (lambda: PJBias(2, 16, sectors=("rope",)), "rope"),
        (lambda: PJBias(2, 16, sectors=("fj",), init=PJInit(gates="affine")), "'affine'"),
        (lambda: PJBias(2, 16, init=PJInit(order=3)), "order is 3"),
        (lambda: PJBias(2, 16, init=PJInit(slope=0.0)), "signed_slope=True"),
        (lambda: PJBias(2, 16, init=PJInit(damping=0.0)), "damping is 0.0"),
        (lambda: PJBias(2, 16, signed_slope=True, init=PJInit(slope=float("nan"))), "nan"),
        (lambda: PJBias(2, 16).gate("x"), "'x'"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
