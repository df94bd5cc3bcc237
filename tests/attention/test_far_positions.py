"""Which distances of a call count: of pairs that may attend, by row, and in a cache as it grows."""

from __future__ import annotations

import pytest
import torch

from pjrope import KVCache, attend
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
)
from tests.attention.test_overflow import refusal

JUMP = 2**45  # tokens: beyond what the kernels below hold in fp32


def far_kernels():
    return {
        "jet": FourierJet(2, 512, max_order=4, damping=0.0),
        "phase": LightCone(2, 512, max_order=4, parts="phase"),
        "rotary": PJRotary(10, 512, order=5),
    }


def drawn(batch, keys):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(batch, 2, keys, 10, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("backend", ["auto", "eager", "sdpa"])
@pytest.mark.parametrize("name", list(far_kernels()))
def test_distances_are_those_of_pairs_that_may_attend(name, backend):
    kernel, near = far_kernels()[name], torch.arange(8)
    assert kernel.overflow_at(torch.float32) < JUMP
    q, k, v = drawn(2, 8)
    rows = torch.stack([near, near + JUMP])
    want = attend(q, k, v, kernel, backend=backend)
    got = attend(q, k, v, kernel, q_pos=rows, k_pos=rows, backend=backend)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)

    q, k, v = (x.requires_grad_() for x in drawn(1, 8))
    pos, ids = near + JUMP * (near >= 4), (near >= 4).long()
    apart = ids[:, None] == ids
    want = attend(q, k, v, kernel, segments=(ids, ids), backend=backend)
    for mask in ({"segments": (ids, ids)}, {"keep": apart}, {"keep": apart.expand(1, 2, 8, 8)}):
        got = attend(q, k, v, kernel, q_pos=pos, k_pos=pos, backend=backend, **mask)
        torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
        grads = torch.autograd.grad(got.sum(), (q, k, v, *kernel.parameters()), retain_graph=True)
        assert all(bool(torch.isfinite(g).all()) for g in grads)
    apart = apart.repeat(1, 2, 1, 1)
    apart[0, 1, 6, 1] = True  # one pair over the jump, in one head
    said = refusal(kernel, q, k, v, q_pos=pos, k_pos=pos, keep=apart, backend=backend)
    assert f"this call reaches {JUMP + 5}" in said


def test_keys_ahead_and_keys_of_absolute_kernels_count():
    q, k, v = drawn(1, 4)
    near, far = torch.arange(4), torch.arange(4) + JUMP
    for kernel in far_kernels().values():
        said = refusal(kernel, q, k, v, q_pos=near, k_pos=far, causal=False)
        assert f"this call reaches {JUMP + 3}" in said
    absolute = PJRotary(10, 512, order=5, coordinate="lightcone", parts="phase")
    for q_pos, k_pos in ((near, far), (far, near), (far, far), (near, near - JUMP)):
        said = refusal(absolute, q, k, v, q_pos=q_pos, k_pos=k_pos, causal=False)
        assert said.startswith("PJRotary leaves torch.float32 at")


def test_constants_out_of_range_are_read_in_short_calls_too():
    for kernel in (
        PJRotary(8, 512, eta=1e37),
        PJRotary(12, 1e-3, eta=1e18, order=3),
        JordanRoPE(12, 2, 512, form="exact", gamma=0, eta=1e20, order=3),
        JordanMixture(8, 2, 512, order=2, alpha=1e37, c=0),
        FourierJet(2, 1e-20, max_order=2, damping=0.0),
        FourierJet(2, 1, max_order=1, damping=0.0, zeta_scale=1e37),
        Affine(2, 1, slope=1e37),
        PJBias(2, 1, init=PJInit(slope=1e38)),
        ALiBi(2) + Affine(2, 1, slope=1e37),
    ):
        size = kernel.head_dim or 8
        q, k, v = (x.repeat(1, 1, 1, 2)[..., :size] for x in drawn(1, 100))
        at = kernel.overflow_at(torch.float32)
        assert at is not None and at < 100
        assert f"at {at} tokens, this call reaches 99" in refusal(kernel, q, k, v)


@torch.no_grad()
def test_a_cache_counts_by_row_and_forgets_what_it_truncates():
    kernel = far_kernels()["jet"]
    at = kernel.overflow_at(torch.float32)
    k = drawn(2, 1)[1]
    rows = KVCache(kernel=kernel)
    for n in range(3):
        rows.append(k, k, torch.tensor([[n], [n + JUMP]]))
    with pytest.raises(ValueError, match=f"this call reaches {at + 1}"):
        rows.append(k, k, torch.tensor([[at + 1], [JUMP]]))
    assert rows.length == 3
    cache = KVCache(kernel=kernel)
    cache.append(k, k, torch.tensor([10]))
    cache.append(k, k, torch.tensor([0]))
    with pytest.raises(ValueError, match=f"this call reaches {at + 5}"):
        cache.append(k, k, torch.tensor([at + 5]))
    cache.truncate(1)
    cache.append(k, k, torch.tensor([at + 5]))
    assert cache.length == 2


@torch.no_grad()
def test_a_cache_reads_no_positions_that_run_on(monkeypatch):
    kernel, k = PJRotary(10, 512, order=5, coordinate="lightcone", parts="phase"), drawn(1, 2)[1]
    at = kernel.overflow_at(torch.float32)
    for name in ("largest_lag", "largest_position"):
        monkeypatch.setattr(f"pjrope.attention.cache_checks.{name}", None)
    cache = KVCache(kernel=kernel)
    cache.append(k, k, torch.arange(at - 4, at - 2))
    cache.append(k, k, torch.arange(at - 2, at))
    with pytest.raises(ValueError, match=f"this call reaches {at + 1}"):
        cache.append(k, k, torch.arange(at, at + 2))
    jet = KVCache(kernel=far_kernels()["jet"])
    jet.append(k, k, torch.arange(JUMP, JUMP + 2))
    jet.append(k, k, torch.arange(JUMP + 2, JUMP + 4))
    assert jet.length == 4
