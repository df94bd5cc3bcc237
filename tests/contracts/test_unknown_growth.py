"""A kernel that says nothing about its growth: one error where it overflows, everywhere the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pjrope import JordanRoPE, KVCache, RoPE, attend
from pjrope.attention.decoding import attend_cached
from pjrope.kernels import PositionKernel
from pjrope.kernels.growth import Growth

HEADS, TOKENS, ORDER = 2, 200, 20
BACKENDS = ["auto", "eager", "sdpa", "toeplitz", "flex"]


class Power(PositionKernel, register=False):
    """What a user writes: ``b(d) = w d^20``, which leaves fp32 at 85 tokens, and no growth."""

    bias_heads = HEADS

    def __init__(self, top: float | None = None) -> None:
        super().__init__()
        self.weight, self.top = nn.Parameter(torch.ones(HEADS)), top

    def lag_bias(self, lags):
        power = lags.abs().double() ** ORDER
        power = power if self.top is None else power.clamp(max=self.top)
        return -self.weight.double()[:, None] * power


class Folded(Power, register=False):
    """The same as channels, as far as a fold goes: a constant."""

    def lag_bias(self, lags):
        return super().lag_bias(lags)

    def fold(self, q_pos, k_pos):
        return torch.ones(HEADS, len(q_pos), 1), torch.ones(HEADS, len(k_pos), 1)


ERROR = (
    r"the bias of Power is not finite in torch.float32 at lag 85, which this call reaches: bound"
)
FIRST = 85


def drawn(tokens: int = TOKENS, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, HEADS, tokens, 8, generator=generator).to(dtype) for _ in range(3)]


def test_the_first_bad_lag_is_the_one_named():
    bias = Power().lag_bias(torch.arange(TOKENS)).float()
    assert bool(bias[:, :FIRST].isfinite().all()) and not bool(bias[:, FIRST].isfinite().any())


@torch.no_grad()
@pytest.mark.parametrize("beside", [None, RoPE(8), JordanRoPE(8, HEADS, 64, eta=0.1)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_refuses_what_overflows_and_takes_what_does_not(backend, beside):
    kernel = Power() if beside is None else beside + Power()
    q, k, v = drawn()
    with pytest.raises(ValueError, match=ERROR) as said:
        attend(q, k, v, kernel, backend=backend)
    assert "\n" not in str(said.value)
    near = [x[:, :, :FIRST] for x in (q, k, v)]
    want = attend(*near, kernel, backend="eager")
    assert bool(want.isfinite().all())
    torch.testing.assert_close(attend(*near, kernel, backend=backend), want, rtol=0, atol=1e-5)
    wide = attend(*(x.double() for x in (q, k, v)), kernel, backend=backend)
    assert bool(wide.isfinite().all())  # fp64 holds 200^20


def test_training_and_far_positions_refuse_too():
    q, k, v = (x.requires_grad_() for x in drawn())
    for backend in ("eager", "sdpa", "toeplitz"):
        with pytest.raises(ValueError, match=ERROR):
            attend(q, k, v, Power(), backend=backend)
    sparse = torch.tensor([0, 10_000, 10_084, 1_000_000])
    q, k, v = drawn(4)
    with pytest.raises(ValueError, match="at lag 10000, which"):
        attend(q, k, v, Power(), q_pos=sparse, k_pos=sparse)


@torch.no_grad()
def test_the_fold_backend_refuses_by_blocks():
    q, k, v = drawn()
    kernel = Folded()
    with pytest.raises(ValueError, match="the bias of Folded is not finite"):
        attend(q, k, v, kernel, backend="fold")


@torch.no_grad()
def test_hidden_keys_do_not_count():
    q, k, v = drawn()
    segments = (torch.arange(TOKENS) // 50,) * 2
    for backend in ("eager", "sdpa", "toeplitz"):
        out = attend(q, k, v, Power(), segments=segments, backend=backend)
        assert bool(out.isfinite().all())


@torch.no_grad()
def test_a_cache_decodes_until_it_would_overflow():
    q, k, v = drawn()
    kernel, positions = Power(), torch.arange(TOKENS)
    want = attend(*(x[:, :, :FIRST] for x in (q, k, v)), kernel)
    cache = KVCache(kernel=kernel)
    for n in range(FIRST):
        cache.append(k[:, :, n : n + 1], v[:, :, n : n + 1], positions[n : n + 1])
        row = attend_cached(q[:, :, n : n + 1], cache, q_pos=positions[n : n + 1])
        torch.testing.assert_close(row, want[:, :, n : n + 1], rtol=0, atol=1e-5)
    cache.append(k[:, :, FIRST:86], v[:, :, FIRST:86], positions[FIRST:86])
    with pytest.raises(ValueError, match=ERROR):
        attend_cached(q[:, :, FIRST:86], cache, q_pos=positions[FIRST:86])


@torch.no_grad()
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bounded_bias_needs_no_word_about_growth(backend):
    kernel = RoPE(8) + Power(top=30.0)
    q, k, v = drawn()
    want = attend(*(x.double() for x in (q, k, v)), kernel, backend="eager")
    got = attend(q, k, v, kernel, backend=backend)
    torch.testing.assert_close(got.double(), want, rtol=0, atol=1e-5)


def test_growth_is_unknown_until_it_is_said():
    kernel = RoPE(8) + Power()
    assert Power().growth == Growth() and kernel.unknown_growth() == ["Power"]
    with pytest.raises(ValueError, match=r"Power does not say how it grows: set growth = Growth"):
        kernel.overflow_at(torch.float32)
    assert RoPE(8).unknown_growth() == [] and RoPE(8).overflow_at(torch.float32) is None


def test_a_bound_that_is_said_is_refused_beforehand():
    class Said(Power, register=False):
        growth = Growth(bound=lambda distance: distance**ORDER)

    assert Said().overflow_at(torch.float32) == FIRST
    with pytest.raises(ValueError, match=f"Said leaves torch.float32 at {FIRST} tokens, this call"):
        attend(*drawn(), Said())
