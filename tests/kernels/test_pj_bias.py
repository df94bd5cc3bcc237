"""PJ-bias in attention: gradients of every parameter, and sectors that start at nothing."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from pjrope import attend
from pjrope.kernels import Affine, PJBias, PJInit, PJRotary, RoPE

LOUD = PJInit(zeta_scale=0.5)
WAYS = {
    "full": PJBias(2, 8, init=LOUD),
    "two_omegas": PJBias(2, 8, share_omega=False, init=LOUD),
    "signed": PJBias(2, 8, signed_slope=True, init=PJInit(slope=-0.5, zeta_scale=0.5)),
    "chosen": PJBias(2, 8, init=PJInit(gates="lc", order=2, zeta_scale=0.5)),
    "rope": RoPE(4) + PJBias(2, 8, init=LOUD),
    "rotary": PJRotary(4, 8, omega=nn.Parameter(torch.tensor([0.4]))) + PJBias(2, 8, init=LOUD),
}


@pytest.mark.parametrize("name", WAYS)
def test_gradcheck_of_every_parameter_through_attend(name):
    kernel = WAYS[name].double()
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 6, 4, generator=generator).double() for _ in range(3))
    names = [n for n, _ in kernel.named_parameters()]

    class Call(nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = kernel

        def forward(self):
            return attend(q, k, v, self.kernel, backend="eager")

    def out(*values):
        given = {f"kernel.{n}": x for n, x in zip(names, values, strict=True)}
        return torch.func.functional_call(Call(), given, ())

    inputs = tuple(p.detach().clone().requires_grad_() for p in kernel.parameters())
    assert torch.autograd.gradcheck(out, inputs)
    for name_, grad in zip(
        names, torch.autograd.grad(out(*inputs).square().sum(), inputs), strict=True
    ):
        assert bool((grad != 0).any()), name_


@pytest.mark.parametrize("signed", [False, True])
def test_sectors_that_start_at_nothing_train(signed):
    """Amplitudes of 0 get a gradient at once, orders and gates as soon as amplitudes have moved."""
    slope = 0.0 if signed else 0.1
    kernel = PJBias(1, 16, signed_slope=signed, init=PJInit(zeta_scale=0.0, slope=slope))
    teacher = PJBias(1, 16, init=PJInit(gates="fj", order=1, zeta_scale=2.0, seed=4))
    lags = torch.arange(32)
    want = teacher.lag_bias(lags).detach()
    before = {n: p.detach().clone() for n, p in kernel.named_parameters()}
    optimizer = torch.optim.Adam(kernel.parameters(), lr=0.02)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = (kernel.lag_bias(lags) - want).square().mean()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    assert losses[-1] < 0.1 * losses[0]
    for n, p in kernel.named_parameters():
        assert bool(((p - before[n]).abs() > 1e-3).any()), n
        assert bool(torch.isfinite(p).all()), n


@torch.no_grad()
def test_a_light_cone_slope_is_that_of_affine_times_its_gate():
    bias = PJBias(2, 16, sectors=("fj", "affine"), coordinate="lightcone", init=PJInit(slope=3.0))
    lags = torch.arange(1000)
    affine = Affine(2, 16, slope=3.0, coordinate="lightcone").lag_bias(lags)
    found = bias.sector_components(lags)["affine"][:, 0]
    torch.testing.assert_close(found, affine)
    assert bias.roots() is None and not bias.folds and not bias.claims.finite_rank
    alone = PJBias(2, 16, sectors=("fj",), coordinate="lightcone")
    assert alone.folds, "without the sector its coordinate does not matter"
    with pytest.raises(ValueError, match="coordinate is 'log'"):
        PJBias(2, 16, coordinate="log")


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *(({"init": PJInit(order=r)}, f"init.order is {r!r}, .* None") for r in (1.5, True, -1)),
        *(({"omega_cycles": x}, f"omega_cycles is {x!r}, .* default") for x in (NAN, INF, "a")),
        *(
            ({"init": PJInit(zeta_scale=x)}, f"init.zeta_scale is {x!r}, ")
            for x in (NAN, INF, -1.0, "x", True)
        ),
        *(({"init": PJInit(seed=x)}, f"init.seed is {x!r}, an integer") for x in ("a", 1.5, True)),
        ({"init": PJInit(seed=2**64)}, f"init.seed is {2**64}, "),
        ({"sectors": None}, "sectors are None, at least one of .* in a tuple"),
        ({"sectors": "fj"}, "sectors are 'fj', at least one of .* in a tuple"),
        *(
            ({"init": PJInit(slope=x)}, f"init.slope is {x!r}: .* signed_slope=True")
            for x in (1e-300, -1.0)
        ),
        ({"init": PJInit(slope=1e300)}, "init.slope is .* that fp32 holds"),
        ({"init": PJInit(slope=True)}, "init.slope is True, one finite number"),
        ({"init": PJInit(damping=1e-300)}, "init.damping is 1e-300, a number > 0 that fp32 holds"),
    ],
)
def test_what_cannot_start_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        PJBias(2, 16, **options)


@pytest.mark.parametrize("value", [1e-37, 1e38])
def test_the_smallest_and_largest_starts_arrive(value):
    kernel = PJBias(1, 16, init=PJInit(slope=value, damping=value))
    assert kernel.slope.item() == pytest.approx(value, rel=1e-4)
    assert kernel.damping.item() == pytest.approx(value, rel=1e-4)


def test_what_belongs_to_a_sector_that_is_not_there():
    line, jets = PJBias(2, 16, sectors=("affine",)), PJBias(2, 16, sectors=("fj",))
    for ask, says in (
        (lambda: line.damping, r"damping belongs to 'fj', this PJBias has the sectors \('affine',"),
        (lambda: jets.slope, "slope belongs to 'affine'"),
        (lambda: jets.amplitudes("lc"), r"amplitudes\('lc'\) belongs to 'lc'"),
        (lambda: jets.amplitudes("affine"), "sector is 'affine': only .* have amplitudes"),
    ):
        with pytest.raises(ValueError, match=says):
            ask()
    assert [tuple(part.shape) for part in jets.amplitudes("fj")] == [(2, 3)] * 2
    assert isinstance(jets.amplitudes("fj"), tuple)


def test_numbers_of_numpy_in_an_init_become_json():
    init = PJInit(order=np.int64(1), zeta_scale=np.float32(0.5), seed=np.int64(3))
    spec = json.loads(json.dumps(PJBias(2, 16, init=init).spec))
    assert spec["init"]["order"] == 1 and spec["init"]["zeta_scale"] == 0.5
