"""Whatever door a kernel's values come in by, fixed ones stay the spec's and none stay narrow."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.func import functional_call

from pjrope import JordanRoPE, PJBias, RoPE
from pjrope.kernels import ALiBi, PJInit, PositionKernel, kernel_from_spec
from tests.kernels.catalogue import HEADS, kernels

NARROW = (torch.bfloat16, torch.float16)
POSITIONS = torch.tensor([0, 3, 700, 4095])
KERNELS = sorted(kernels())


def narrow(state, dtype):
    return {name: t.to(dtype) if t.is_floating_point() else t for name, t in state.items()}


def load(kernel, dtype):
    kernel.load_state_dict(narrow(kernel.state_dict(), dtype))


def assign(kernel, dtype):
    kernel.load_state_dict(narrow(kernel.state_dict(), dtype), assign=True)


def cast_data(kernel, dtype):
    """What sharding and mixed-precision wrappers do: replace the storage, not the tensor."""
    for tensor in (*kernel.parameters(), *kernel.buffers()):
        tensor.data = tensor.data.to(dtype)


def cast_module(kernel, dtype):
    kernel.to(dtype)


DOORS = {"load": load, "assign": assign, "data": cast_data, "module": cast_module}


def outputs(kernel):
    """Rotated channels and biases at far positions; what the kernel does, whatever it is."""
    g = torch.Generator().manual_seed(0)
    found = []
    dim = kernel.head_dim or 8
    q = torch.randn(1, kernel.rotary_heads or HEADS, 4, dim, generator=g, dtype=torch.float64)
    if kernel.scored:
        found.append(kernel.scores(q, q, POSITIONS, POSITIONS))
    elif kernel.rotates:
        near = POSITIONS if kernel.any_origin else POSITIONS.clamp(max=40)
        found.append(kernel.rotate(q, None, near)[0])
    if kernel.biases:
        found.append(kernel.lag_bias(POSITIONS))
    return found


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_door_leaves_the_kernel_wide(name, door, dtype):
    want = kernels()[name].float()
    if door != "module":  # a cast of the module does not even round its parameters
        for p in want.parameters():
            p.data = p.data.to(dtype).float()
    got = kernels()[name].float()
    DOORS[door](got, dtype)
    with torch.no_grad():
        for a, b in zip(outputs(got), outputs(want), strict=True):
            assert a.dtype in (torch.float32, torch.float64)
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", KERNELS)
def test_narrow_values_of_a_functional_call_are_widened(name):
    kernel = kernels()[name].float()
    state = narrow(dict(kernel.named_parameters()), torch.bfloat16)
    want = copy.deepcopy(kernel)
    for own, rounded in zip(want.parameters(), state.values(), strict=True):
        own.data = rounded.float()

    class Outputs(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self):
            return outputs(self.inner)

    with torch.no_grad():
        got = functional_call(Outputs(kernel), {f"inner.{n}": t for n, t in state.items()}, ())
        for a, b in zip(got, outputs(want), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_gradients_reach_a_narrow_parameter():
    kernel = PJBias(HEADS, 16, max_order=1).float()
    slope = kernel._parameters["raw_affine_slope"]
    slope.data = slope.data.bfloat16()
    kernel.lag_bias(torch.arange(9)).sum().backward()
    assert slope.grad is not None and slope.grad.dtype == torch.bfloat16
    assert bool(slope.grad.abs().min() > 0)


@pytest.mark.parametrize(
    ("kernel", "other"),
    [
        (RoPE(16, base=5e5), RoPE(16, base=1e4)),
        (ALiBi(4), None),
        (JordanRoPE(8, 2, 16, eta=0.5).freeze("eta"), None),
        (RoPE(16, omega=torch.arange(1.0, 9.0)), RoPE(16)),
    ],
)
def test_fixed_values_of_another_spec_are_refused_and_do_not_come_in(kernel, other):
    before = {name: t.clone() for name, t in kernel.named_buffers()}
    state = kernel.state_dict() if other is None else other.state_dict()
    if other is None:
        name = next(iter(before))
        state[name] = state[name] * 1.1
    with pytest.raises(RuntimeError, match=r"in this state_dict, .*kernel_from_spec"):
        kernel.load_state_dict(state)
    for name, tensor in kernel.named_buffers():
        assert torch.equal(tensor, before[name])


def test_the_report_of_a_ladder_that_was_replaced():
    kernel = RoPE(16, base=5e5)
    with pytest.raises(RuntimeError):
        kernel.load_state_dict(RoPE(16, base=1e4).state_dict())
    assert float(kernel.omega[-1]) == pytest.approx(5e5 ** (-7 / 8), rel=1e-12)
    ones = torch.ones(1, 1, 1, 16)
    kernel.load_state_dict(narrow(kernel.state_dict(), torch.bfloat16))
    q, k = kernel.rotate(ones, ones, torch.tensor([4095]), torch.tensor([0]))
    want, _ = RoPE(16, base=5e5).rotate(ones, None, torch.tensor([4095]))
    assert float((q * k).sum()) == pytest.approx(float(want.sum()), abs=1e-6)
    bias = PJBias(4, 512, max_order=1, init=PJInit(zeta_scale=1.0))
    same = PJBias(4, 512, max_order=1, init=PJInit(zeta_scale=1.0))
    same.load_state_dict(narrow(bias.state_dict(), torch.bfloat16), assign=True)
    assert all(p.dtype == torch.float32 for p in same.parameters())


def test_meta_kernels_load_with_their_fixed_values():
    source = RoPE(16, base=5e5) + ALiBi(4)
    with torch.device("meta"):
        kernel = kernel_from_spec(source.spec)
    kernel.load_state_dict(source.state_dict(), assign=True)
    for (name, got), (_, want) in zip(kernel.named_buffers(), source.named_buffers(), strict=True):
        assert torch.equal(got, want), name


class Near(PositionKernel, register=False):
    """A user's kernel: its buffer comes from no argument that a spec could hold."""

    def __init__(self, values):
        super().__init__()
        self.register_buffer("values", values)

    def lag_bias(self, lags):
        return -self.values[:, None] * lags.double()


class Steep(PositionKernel, register=False):
    """A user's kernel that its own spec builds, though no registry knows it."""

    def __init__(self, heads, slope=0.1):
        super().__init__(heads=heads, slope=slope)
        self.register_buffer("values", torch.full((heads,), slope, dtype=torch.float64))

    def lag_bias(self, lags):
        return -self.values[:, None] * lags.double()


OWN = {
    "no argument": lambda: Near(torch.tensor([0.1, 0.3], dtype=torch.float64)),
    "its own spec": lambda: Steep(2),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", OWN)
def test_a_kernel_that_no_registry_knows_goes_through_every_door(name, door):
    want, got = OWN[name](), OWN[name]()
    DOORS[door](got, torch.bfloat16)
    exact = name == "its own spec" or door != "data"  # a value that was cast itself is lost
    a, b = got.lag_bias(POSITIONS), want.lag_bias(POSITIONS)
    torch.testing.assert_close(a, b, rtol=1e-12 if exact else 0.01, atol=0)


@pytest.mark.parametrize("name", OWN)
def test_fixed_values_are_verified_though_no_registry_knows_the_kernel(name):
    kernel = OWN[name]()
    state = {"values": kernel.values + 1}
    with pytest.raises(RuntimeError, match=r"values is 1\.1 in this state_dict, 0\.1"):
        kernel.load_state_dict(state)


def test_a_meta_kernel_takes_what_is_loaded_where_nothing_says_what_it_must_be():
    with torch.device("meta"):
        kernel = Near(torch.empty(2))
    kernel.load_state_dict({"values": torch.tensor([0.1, 0.3])}, assign=True)
    torch.testing.assert_close(
        kernel.lag_bias(torch.ones(1))[:, 0], -torch.tensor([0.1, 0.3]).double()
    )
