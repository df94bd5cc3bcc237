"""No silent clamp: to 2^20 positions every kernel stays finite or has said where it would not."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope import KVCache, attend
from pjrope.attention.decoding import attend_cached
from pjrope.kernels import (
    Affine,
    ALiBi,
    FourierJet,
    JordanMixture,
    JordanRoPE,
    LightCone,
    PJBias,
    PJInit,
    PJRotary,
    RoPE,
    direct_sum,
    kernel_from_spec,
)
from tests.kernels.catalogue import HEAD_DIM, HEADS, kernels

FAR = 1 << 20
TYPES = [torch.float32, torch.bfloat16, torch.float16]
LOUD = {"zeta_scale": 1.0, "seed": 3}


def steep():
    """Kernels that leave fp32, or fp16 alone, before 2^20 tokens, beside some that barely do not."""
    return {
        "steep_jet": FourierJet(HEADS, 1, max_order=8, damping=0.0, **LOUD),
        "steep_jet_damped": FourierJet(HEADS, 1, max_order=8, damping=1e-5, **LOUD),
        "steep_phase": LightCone(HEADS, 1, max_order=8, parts="phase", **LOUD),
        "steep_cone": LightCone(HEADS, 1, max_order=8, **LOUD),
        "steep_union": PJBias(HEADS, 1, max_order=9, init=PJInit(damping=1e-6, zeta_scale=1.0)),
        "steep_rotary": PJRotary(16, 1, order=8),
        "steep_bent": PJRotary(16, 1, order=8, coordinate="lightcone"),
        "steep_shear": PJRotary(16, 1, order=8, coordinate="lightcone", parts="phase"),
        "steep_jordan": JordanRoPE(16, HEADS, 1, order=4, gamma=1e-3, eta=3.0),
        "steep_exact": JordanRoPE(16, HEADS, 64, order=4, form="exact", gamma=0, eta=0.5),
        "steep_stabilized": JordanRoPE(16, HEADS, 4096, order=4, form="stabilized", eta=0.5),
        "steep_mixture": JordanMixture(16, HEADS, 4, order=4, c=1e-3, alpha=1.0),
        "steep_alibi": Affine(HEADS, 1, slope=50.0) + PJRotary(16, 1, order=8),
    }


KERNELS = {**kernels(), **steep()}  # built once: no test here changes a parameter
ALL = [n for n in KERNELS if not n.startswith("damped_local") and n != "damped"]
BIASED = [n for n in ALL if KERNELS[n].biases and not KERNELS[n].rotates]
ACTING = [n for n in ALL if KERNELS[n].rotates and not KERNELS[n].biases]


def refusal(kernel, q, k, v, **call):
    """What the ValueError of a call says."""
    with pytest.raises(ValueError) as said:
        attend(q, k, v, kernel, **call)
    return str(said.value)


def last(kernel, number):
    """The farthest distance that was not warned of, at most FAR - 1."""
    at = kernel.overflow_at(number)
    return FAR - 1 if at is None else min(at, FAR) - 1


@torch.no_grad()
@pytest.mark.parametrize("name", BIASED)
def test_a_bias_is_finite_at_every_lag_it_did_not_warn_of(name):
    kernel = KERNELS[name]
    spread = torch.logspace(0, math.log10(FAR - 1), 4096, dtype=torch.float64).long()
    for number in TYPES:
        end = last(kernel, number)
        lags = torch.cat([torch.arange(2048), spread, end - torch.arange(2048)]).clamp(0, end)
        assert bool(torch.isfinite(kernel.lag_bias(lags.unique()).to(number)).all()), number


@torch.no_grad()
@pytest.mark.parametrize("number", TYPES)
@pytest.mark.parametrize("name", ACTING)
def test_channels_are_finite_at_every_distance_the_action_did_not_warn_of(name, number):
    kernel = KERNELS[name]
    end = last(kernel, number)
    k = torch.randn(1, HEADS, 400, kernel.head_dim, generator=torch.Generator().manual_seed(0))
    lags = torch.cat([torch.arange(200), torch.linspace(200, end, 200).long()]).clamp(max=end)
    positions = -lags if kernel.claims.relative else lags  # keys counted from their query
    turned = kernel.rotate(None, k, None, positions)[1]
    assert bool(torch.isfinite(turned.to(number)).all())


@torch.no_grad()
@pytest.mark.parametrize("number", TYPES)
@pytest.mark.parametrize("name", ALL)
def test_a_row_at_the_end_of_a_million_tokens_is_finite_or_refused_beforehand(name, number):
    kernel = KERNELS[name]
    k_pos = torch.cat([torch.linspace(0, FAR - 600, 600).long(), FAR - 500 + torch.arange(500)])
    size = kernel.head_dim or HEAD_DIM
    shapes = ((1, HEADS, 1, size), (1, HEADS, len(k_pos), size), (1, HEADS, len(k_pos), size))
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(s, generator=generator).to(number) for s in shapes)
    first = kernel.overflow_at(torch.float32)
    try:
        out = attend(q, k, v, kernel, q_pos=k_pos[-1:], k_pos=k_pos)
    except ValueError as error:
        said = str(error)
        assert "tokens" in said or "position" in said
        assert first is not None and first <= FAR, said
    else:
        assert bool(torch.isfinite(out).all())
        assert first is None or first >= FAR or kernel.growth.degree < 2


def test_what_rotate_refuses_is_what_was_said():
    kernel = JordanRoPE(8, 1, 16, gamma=0.5, eta=0, coordinate="lightcone", parts="phase")
    x, at = torch.ones(1, 1, 1, 8), kernel.overflow_at(torch.float32)
    kernel.rotate(None, x, None, torch.tensor([at - 1]))
    advice = "not relative, .* less damping, a larger length, positions nearer to 0, or fp64"
    with pytest.raises(ValueError, match=f"tokens ahead of the origin.*{advice}"):  # rates are fp32
        kernel.rotate(None, x, None, torch.tensor([at + 1]))
    assert "use causal" not in refusal(kernel, x, x, x, k_pos=torch.tensor([at + 1]))
    kernel.rotate(None, x.double(), None, torch.tensor([at + 1]))
    beside = direct_sum(RoPE(8), kernel)
    assert beside.overflow_at(torch.float32) == at
    assert (kernel + ALiBi(2)).overflow_at(torch.float32) == at


def test_attend_and_the_cache_refuse_before_they_compute_and_fp64_goes_on():
    kernel = FourierJet(1, 1, max_order=8, damping=0.0, **LOUD)
    at = kernel.overflow_at(torch.float32)
    k_pos = torch.tensor([0, at - 1, at])
    q, k, v = (torch.ones(1, 1, n, 4) for n in (1, 3, 3))
    said = f"FourierJet leaves torch.float32 at {at} tokens, this call reaches {at}: use a lower"
    with pytest.raises(ValueError, match=said):
        attend(q, k, v, kernel, q_pos=k_pos[-1:], k_pos=k_pos)
    near = attend(q, k[:, :, 1:], v[:, :, 1:], kernel, q_pos=k_pos[-1:], k_pos=k_pos[1:])
    assert bool(torch.isfinite(near).all())
    wide = attend(*(x.double() for x in (q, k, v)), kernel, q_pos=k_pos[-1:], k_pos=k_pos)
    assert bool(torch.isfinite(wide).all())
    with torch.no_grad():
        cache = KVCache(kernel=kernel)
        cache.append(k[:, :, :2], v[:, :, :2], k_pos[:2])
        with pytest.raises(ValueError, match=said):
            cache.append(k[:, :, 2:], v[:, :, 2:], k_pos[2:])
        assert cache.length == 2
        again = KVCache(kernel=kernel)
        again.append(k[:, :, 1:], v[:, :, 1:], k_pos[1:])
        step = attend_cached(q, again, q_pos=k_pos[-1:])
    torch.testing.assert_close(step, near, rtol=0, atol=1e-6)


@torch.no_grad()
def test_fp16_holds_keys_that_grow_far_out_before_the_damping_wins():
    kernel, n = JordanRoPE(16, 1, 16, order=4, gamma=1e-2, eta=1.0), 8192
    assert kernel.claims.bounded and kernel.overflow_at(torch.float16) < n
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 16, generator=generator).half() for _ in range(3))
    wide = kernel_from_spec(kernel.spec).double()
    want = attend(q[:, :, -64:].double(), k.double(), v.double(), wide, backend="eager")
    got = attend(q, k, v, kernel)[:, :, -64:]
    assert bool(torch.isfinite(got).all())
    # Logits reach 1e5: what counts is that the largest win as they do in fp64.
    assert float(((got.double() - want).abs().amax(-1) < 1e-2).double().mean()) > 0.9


@torch.no_grad()
def test_a_fold_whose_channels_overflow_takes_blocks_or_says_so():
    """Where inf met 0 a fold gave nan for whole rows, in fp64 too."""
    kernel, n = FourierJet(1, 16, max_order=2, damping=2.0, zeta_scale=1.0), 8192
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 8, generator=generator) for _ in range(3))
    with pytest.raises(ValueError, match="backend 'fold' would round logits"):
        attend(q, k, v, kernel, backend="fold")
    q, k, v = (x.double() for x in (q, k, v))
    want = attend(q, k, v, kernel, backend="toeplitz")
    torch.testing.assert_close(attend(q, k, v, kernel, backend="fold"), want, rtol=0, atol=1e-9)
    steeper = FourierJet(1, 16, max_order=2, damping=40.0, zeta_scale=1.0)
    with pytest.raises(ValueError, match=r"'fold' would overflow: .* use backend='toeplitz'"):
        attend(q, k, v, steeper, backend="fold")


@torch.no_grad()
def test_a_fold_counts_errors_beyond_those_of_the_bias_itself():
    kernel, n = Affine(1, 1, slope=4.0), 4096  # biases to -16,384, which fp32 rounds by 1e-3
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 8, generator=generator) for _ in range(3))
    want = attend(q[:, :, -64:].double(), k.double(), v.double(), kernel, backend="eager")
    got = attend(q, k, v, kernel, backend="fold")[:, :, -64:]
    torch.testing.assert_close(got.double(), want, rtol=0, atol=1e-5)
