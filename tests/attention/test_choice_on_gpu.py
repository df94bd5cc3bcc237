"""Which backend a GPU takes, asked without one: the facts about the device are given."""

from __future__ import annotations

import pytest
import torch

from pjrope.attention import attend
from pjrope.attention.backends import triton
from pjrope.attention.backends.triton import Gpu, splits_of, tuning
from pjrope.attention.call import make_call
from pjrope.attention.planning import choose_on_gpu
from pjrope.kernels import ALiBi, FourierJet, LightCone, NoPE, PJBias, RoPE

A100, H100, T4 = Gpu((8, 0), True), Gpu((9, 0), True), Gpu((7, 5), True)
BARE = Gpu((8, 0), False)  # a torch build without Triton


def call(kernel, count=64, number=torch.float16, **options):
    q, k, v = (torch.zeros(1, 4, count, 16, dtype=number) for _ in range(3))
    return make_call(q, k, v, kernel, **options)


@pytest.mark.parametrize("gpu", [A100, H100])
@pytest.mark.parametrize("kernel", [ALiBi(4), LightCone(4, 32), RoPE(16) + PJBias(4, 32)])
def test_a_bias_takes_the_fused_kernel(kernel, gpu):
    assert choose_on_gpu(call(kernel), gpu)[0] == "triton"
    assert choose_on_gpu(call(kernel, causal=False), gpu)[0] == "triton"


def test_masks_without_a_bias_take_it_too():
    ids = torch.arange(64) // 10
    assert choose_on_gpu(call(NoPE(), segments=(ids, ids)), A100)[0] == "triton"


@pytest.mark.parametrize(("gpu", "why"), [(T4, "7.5"), (BARE, "not installed")])
def test_without_it_a_bias_of_finite_rank_is_folded_where_that_is_precise(gpu, why):
    name, reason = choose_on_gpu(call(ALiBi(4)), gpu)
    assert (name, why in reason) == ("fold", True)
    jets = FourierJet(4, 8, max_order=3, damping=0.0, seed=0, zeta_scale=1.0)
    name, reason = choose_on_gpu(call(jets, 4096), gpu)
    assert (name, "all heads at once" in reason) == ("sdpa", True)


def test_a_bias_that_has_no_finite_rank_takes_long_blocks_on_a_t4():
    name, reason = choose_on_gpu(call(LightCone(4, 32)), T4)
    assert (name, "all heads at once" in reason) == ("sdpa", True)


def test_what_the_kernel_does_not_take():
    for refused, why in (
        (call(ALiBi(4), number=torch.float64), "float64"),
        (call(ALiBi(4), keep=torch.ones(64, 64, dtype=torch.bool)), "keep differs"),
        (call(ALiBi(4), q_pos=torch.arange(64) * 2), "not one constant"),
    ):
        assert why in triton.refuses(refused, A100)
        assert choose_on_gpu(refused, A100)[0] in ("fold", "sdpa")
    wide = make_call(*(torch.zeros(1, 4, 8, 300) for _ in range(3)), ALiBi(4))
    assert "300 channels" in triton.refuses(wide, A100)
    wide = make_call(*(torch.zeros(1, 4, 8, 128) for _ in range(3)), ALiBi(4))
    assert "128 channels in torch.float32" in triton.refuses(wide, A100)


def test_a_padding_mask_is_taken():
    keep = torch.ones(1, 1, 1, 64, dtype=torch.bool)
    assert triton.refuses(call(ALiBi(4), keep=keep), A100) is None


def test_on_the_cpu_it_refuses_and_says_why(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(triton, "_installed", lambda: True)
    x = torch.zeros(1, 4, 8, 16)
    with pytest.raises(ValueError, match="not on a GPU"):
        attend(x, x, x, ALiBi(4), backend="triton")
    assert triton.gpu_of(x.device) == Gpu(None, True)


def test_few_queries_share_the_keys_out():
    assert triton.decodes(make_call(*tensors(1, 4096), ALiBi(4)))
    assert not triton.decodes(make_call(*tensors(64, 4096), ALiBi(4)))
    assert not triton.decodes(make_call(*tensors(1, 100), ALiBi(4)))
    assert splits_of(lines=8, keys=32768, processors=108) == 27
    assert splits_of(lines=8, keys=300, processors=108) == 2
    assert splits_of(lines=4096, keys=32768, processors=108) == 1


def tensors(queries, keys):
    return torch.zeros(1, 4, queries, 16), *(torch.zeros(1, 2, keys, 16) for _ in range(2))


def test_every_width_has_a_tile_and_tiles_of_diagonals_are_square():
    for kind in tuning.KINDS:
        for width in (1, 64, 65, 128, 200, 256):
            for number in triton.NUMBERS:
                tile = tuning.tile_of(kind, width, number, (8, 0))
                assert min(tile.rows, tile.columns) >= 16
                if kind in ("queries_table", "table"):
                    assert tile.rows == tile.columns
