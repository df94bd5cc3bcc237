from dataclasses import replace

import pytest
import torch
from torch.nn.functional import pad

from pjrope.kernels import ALiBi, FourierJet, PJBias, RoPE
from pjrope.models import Decoder, DecoderConfig
from pjrope.models.mixing import ShortConvolution
from pjrope.positions import left_padded_positions, packed_positions

BYTE_LM = {
    "vocab": 256,
    "width": 96,
    "layers": 2,
    "heads": 4,
    "length": 128,
    "mlp_ratio": 2,
    "norm": "layer",
    "tied": False,
    "bias": True,
}
SMALL = {"vocab": 17, "width": 32, "layers": 2, "heads": 4, "length": 16}


def tokens(n=24, batch=2, vocab=17):
    return torch.randint(vocab, (batch, n), generator=torch.Generator().manual_seed(0))


def test_sizes_of_the_protocol():
    sizes = {}
    for name, kernel in (("rope", RoPE(24)), ("full", PJBias(4, 128, max_order=3))):
        model = Decoder(DecoderConfig(**BYTE_LM, kernel=kernel.spec), seed=0)
        sizes[name] = sum(p.numel() for p in model.parameters())
    assert sizes == {"rope": 199_168, "full": 199_408}


def test_backbones_of_equal_seeds_are_equal_whatever_the_kernel():
    states = []
    for kernel in (None, RoPE(8).spec, PJBias(4, 16).spec):
        state = Decoder(DecoderConfig(**SMALL, kernel=kernel), seed=3).state_dict()
        states.append({n: t for n, t in state.items() if ".kernel." not in n})
    for state in states[1:]:
        assert state.keys() == states[0].keys()
        assert all(torch.equal(t, states[0][n]) for n, t in state.items())
    other = Decoder(DecoderConfig(**SMALL), seed=4)
    assert not torch.equal(other.embedding.weight, states[0]["embedding.weight"])


def test_layers_and_seeds_draw_position_parameters_of_their_own():
    def zetas(seed):
        model = Decoder(DecoderConfig(**SMALL, kernel=FourierJet(4, 16).spec), seed=seed)
        return [block.attention.kernel.zeta_re for block in model.blocks]

    first, second = zetas(0)
    assert not torch.equal(first, second)
    assert torch.equal(zetas(0)[0], first)
    assert not torch.equal(zetas(1)[0], first)


def test_building_leaves_the_global_stream_alone():
    before = torch.get_rng_state()
    Decoder(DecoderConfig(**SMALL, kernel=PJBias(4, 16).spec), seed=3)
    assert torch.equal(torch.get_rng_state(), before)


@torch.no_grad()
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_cached_decoding_equals_the_full_pass(norm):
    kernel = RoPE(8) + FourierJet(4, 16, zeta_scale=1.0)
    model = Decoder(DecoderConfig(**SMALL, norm=norm, kernel=kernel.spec), seed=0).double()
    x = tokens()
    cache = model.new_cache(max_length=24)
    steps = [model(chunk, cache=cache) for chunk in x.split([10, 1, 1, 12], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(x), rtol=0, atol=1e-10)


@torch.no_grad()
def test_padded_and_packed_batches_equal_their_documents():
    kernel = RoPE(8) + FourierJet(4, 16, zeta_scale=1.0)
    model = Decoder(DecoderConfig(**SMALL, kernel=kernel.spec), seed=0).double()
    x = tokens(12, 1)
    real = torch.ones(1, 15, dtype=torch.bool)
    real[:, :3] = False
    padded = torch.cat([torch.full((1, 3), 5), x], dim=1)
    out = model(padded, q_pos=left_padded_positions(real), keep=real[:, None, None])
    torch.testing.assert_close(out[:, 3:], model(x), rtol=0, atol=1e-10)
    positions, ids = packed_positions([5, 7])
    packed = model(x, q_pos=positions, segments=(ids[None], ids[None]))
    torch.testing.assert_close(packed[:, 5:], model(x[:, 5:]), rtol=0, atol=1e-10)


def test_grouped_keys_and_gradients():
    kernel = RoPE(8) + PJBias(4, 16)
    model = Decoder(DecoderConfig(**SMALL, kv_heads=2, kernel=kernel.spec), seed=0)
    model(tokens()).logsumexp(-1).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": "batch"}, "'batch'"),
        ({"layers": 0}, "layers is 0"),
        ({"kernel": ALiBi(3).spec}, "made for 3 query heads"),
        ({"kernel": {"kernel": "x"}}, "'x' is not known"),
        ({"width": 30}, "width 30"),
    ],
)
def test_bad_configurations_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Decoder(DecoderConfig(**(SMALL | change)))


MIXED = [{"short_conv": 4}, {"token_shift": True}, {"short_conv": 2, "token_shift": True}]


@pytest.mark.parametrize("mixed", MIXED)
def test_mixers_start_as_nothing_and_see_the_past_alone(mixed):
    plain = DecoderConfig(vocab=11, width=8, layers=2, heads=2, length=16)
    model, bare = Decoder(replace(plain, **mixed), seed=1), Decoder(plain, seed=1)
    tokens = torch.randint(11, (2, 9), generator=torch.Generator().manual_seed(0))
    assert torch.equal(model(tokens), bare(tokens))
    with torch.no_grad():
        for p in (p for block in model.blocks for p in block.mixers.parameters()):
            p.copy_(torch.rand(p.shape, generator=torch.Generator().manual_seed(2)))
    changed = tokens.clone()
    changed[:, 6] = (tokens[:, 6] + 1) % 11
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:])
    assert not torch.allclose(before, bare(tokens))
    with pytest.raises(ValueError, match="no cache for this model"):
        model(tokens, cache=model.new_cache())


def test_a_short_convolution_is_one():
    conv = ShortConvolution(3, 4)
    with torch.no_grad():
        conv.weight.copy_(torch.rand(4, 3, generator=torch.Generator().manual_seed(0)))
    x = torch.rand(2, 7, 3, generator=torch.Generator().manual_seed(1))
    kernel = conv.weight.flip(0).T[:, None]  # torch's is a correlation: the last tap is the token
    theirs = torch.nn.functional.conv1d(pad(x.mT, (3, 0)), kernel, groups=3).mT
    torch.testing.assert_close(conv(x), x + theirs)


def test_options_that_are_off_stay_out_of_a_stored_configuration():
    config = DecoderConfig(vocab=11, width=8, layers=2, heads=2, length=16)
    assert not {"short_conv", "token_shift"} & set(config.to_json())
    for mixed in MIXED:
        on = replace(config, **mixed)
        assert DecoderConfig(**on.to_json()) == on
    with pytest.raises(ValueError, match="short_conv is -1"):
        replace(config, short_conv=-1)
