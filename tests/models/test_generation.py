"""Generated text: what is drawn, in batches and from a cache, equals drawing by hand."""

from __future__ import annotations

import pytest
import torch

from pjrope import NTK, ALiBi, Decoder, DecoderConfig, JordanRoPE, RoPE, YaRN
from pjrope.models.generation import _nucleus
from pjrope.training import load_model, save_model

PROMPT = torch.tensor([3, 1, 4, 1, 5])


def decoder(kernel, layers=2, seed=0, **more):
    spec = None if kernel is None else kernel.spec
    config = DecoderConfig(
        vocab=13, width=32, layers=layers, heads=2, length=8, kernel=spec, **more
    )
    model = Decoder(config, seed=seed)
    for p in model.parameters():  # far from uniform, so that choices are not near ties
        p.data.mul_(1.7)
    return model


KERNELS = {
    "none": None,
    "rope": RoPE(16),
    "alibi": ALiBi(2),
    "rope_alibi": RoPE(16) + ALiBi(2),
    "jordan": JordanRoPE(16, 2, 8),
    "yarn": RoPE(16, extension=YaRN(4.0, 8)),
    "dynamic": RoPE(16, extension=NTK(length=8)),
}


@torch.no_grad()
def by_hand(model, prompt, steps):
    for _ in range(steps):
        prompt = torch.cat([prompt, model(prompt[None])[0, -1].argmax()[None]])
    return prompt


@pytest.mark.parametrize("name", KERNELS)
def test_greedy_equals_full_passes_beyond_the_training_length(name):
    model = decoder(KERNELS[name])
    want = by_hand(model, PROMPT, 20)
    assert torch.equal(model.generate(PROMPT, 20, temperature=0), want)
    assert torch.equal(model.generate(PROMPT, 20, temperature=0, cached=False), want)


@pytest.mark.parametrize("cached", [True, False])
def test_left_padded_rows_are_their_own(cached):
    model = decoder(KERNELS["rope_alibi"])
    prompts = torch.tensor([[0, 0, 3, 1, 4], [2, 7, 1, 8, 2]])
    real = torch.tensor([[False, False, True, True, True], [True] * 5])
    got = model.generate(prompts, 15, temperature=0, real=real, cached=cached)
    assert torch.equal(got[0, 2:], model.generate(prompts[0, 2:], 15, temperature=0))
    assert torch.equal(got[1], model.generate(prompts[1], 15, temperature=0))


def test_draws_follow_the_seed():
    model = decoder(KERNELS["rope"])
    one, two = (model.generate(PROMPT, 30, seed=seed) for seed in (1, 2))
    assert torch.equal(one, model.generate(PROMPT, 30, seed=1)) and not torch.equal(one, two)
    assert torch.equal(one, model.generate(PROMPT, 30, seed=1, cached=False))
    made = torch.Generator().manual_seed(1)
    assert torch.equal(one, model.generate(PROMPT, 30, seed=made))


def test_shares_of_draws_are_those_of_the_model():
    model = decoder(KERNELS["rope"])
    rows = PROMPT.repeat(5_000, 1)
    with torch.no_grad():
        shares = (model(PROMPT[None])[0, -1] / 1.5).softmax(-1)
    got = model.generate(rows, 1, temperature=1.5, seed=3)[:, -1].bincount(minlength=13) / 5_000
    assert float((got - shares).abs().max()) < 0.015


def test_top_k_and_top_p_keep_the_likeliest():
    model = decoder(KERNELS["rope"])
    with torch.no_grad():
        shares, order = model(PROMPT[None])[0, -1].softmax(-1).sort(descending=True)
    rows = PROMPT.repeat(1000, 1)
    drawn = set(model.generate(rows, 1, top_k=3, seed=0)[:, -1].tolist())
    assert drawn == set(order[:3].tolist())
    most = float(shares[:2].sum()) + 1e-4  # the third token is the one that passes the share
    drawn = set(model.generate(rows, 1, top_p=most, seed=0)[:, -1].tolist())
    assert drawn == set(order[:3].tolist())
    assert torch.equal(
        model.generate(PROMPT, 9, top_k=1, seed=5), model.generate(PROMPT, 9, temperature=0)
    )
    assert torch.equal(
        model.generate(PROMPT, 9, top_p=1e-9), model.generate(PROMPT, 9, temperature=0)
    )


def test_a_token_that_fills_the_share_is_the_last_one():
    shares = torch.tensor([[0.125, 0.5, 0.25, 0.125]])
    for most, kept in [(0.5, [0, 0.5, 0, 0]), (0.75, [0, 0.5, 0.25, 0]), (0.51, [0, 0.5, 0.25, 0])]:
        assert _nucleus(shares, most).tolist() == [kept]


def test_stopped_rows_repeat_the_stop_and_all_stopped_end():
    model = decoder(KERNELS["rope"])
    rows = torch.stack([PROMPT, PROMPT.flip(0)])
    free = model.generate(rows, 12, temperature=0)
    stop = int(free[0, 6])
    got = model.generate(rows, 12, temperature=0, stop=stop)
    for row, whole in zip(got, free, strict=True):
        ends = (whole[5:] == stop).nonzero()
        last = int(ends[0]) + 5 if len(ends) else len(row) - 1
        assert torch.equal(row[: last + 1], whole[: last + 1])
        assert bool((row[last + 1 :] == stop).all())
    assert model.generate(PROMPT, 12, temperature=0, stop=stop).shape == (7,)


def test_modes_of_modules_come_back_also_after_an_error():
    model = decoder(KERNELS["rope"]).train()
    model.blocks[0].eval()
    model.generate(PROMPT, 2)
    with pytest.raises(ValueError, match="cached=True: RoPE changes earlier tokens"):
        dynamic = decoder(KERNELS["dynamic"]).train()
        dynamic.generate(PROMPT, 2, cached=True)
    assert dynamic.training
    assert model.training and not model.blocks[0].training and model.blocks[1].training


def test_models_that_cannot_be_cached_say_so():
    for model in (decoder(KERNELS["dynamic"]), decoder(KERNELS["rope"], short_conv=3)):
        with pytest.raises(ValueError, match=r"no cache for this model: .* decode without one"):
            model.new_cache()
        assert torch.equal(model.generate(PROMPT, 4, temperature=0), by_hand(model, PROMPT, 4))
    single = decoder(KERNELS["dynamic"], layers=1)
    want = by_hand(single, PROMPT, 20)
    assert torch.equal(single.generate(PROMPT, 20, temperature=0, cached=True), want)


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        (torch.tensor([1.0]), {}, "prompt is torch.float32"),
        (torch.zeros(2, 0, dtype=torch.int64), {}, "N >= 1"),
        (torch.tensor([13]), {}, "prompt has tokens 13 to 13, the model knows 0 to 12"),
        (PROMPT, {"temperature": -1.0}, "temperature is -1.0"),
        (PROMPT, {"top_k": 0}, "top_k is 0"),
        (PROMPT, {"top_p": 1.5}, "top_p is 1.5"),
        (PROMPT, {"stop": 99}, "stop is 99"),
        (PROMPT, {"real": torch.ones(1, 4, dtype=torch.bool)}, "real is torch.bool of shape"),
        (PROMPT, {"real": torch.tensor([[True, False, True, True, True]])}, "on the left"),
        (PROMPT, {"real": torch.zeros(1, 5, dtype=torch.bool)}, "on the left"),  # a row of nothing
    ],
)
def test_bad_input_is_refused(prompt, options, message):
    with pytest.raises(ValueError, match=message):
        decoder(KERNELS["rope"]).generate(prompt, 3, **options)
    with pytest.raises(ValueError, match="steps is 0"):
        decoder(KERNELS["rope"]).generate(PROMPT, 0)


# Layers that differ, and layers that share ---------------------------------------------------


def test_a_kernel_for_each_layer(tmp_path):
    specs = [RoPE(16).spec, None, ALiBi(2).spec]
    config = DecoderConfig(vocab=13, width=32, layers=3, heads=2, length=8, kernel=specs)
    model = Decoder(config, seed=0)
    assert [layer.kernel.spec["kernel"] for layer in model.attention_layers] == [
        "RoPE", "NoPE", "ALiBi",
    ]  # fmt: skip
    assert torch.equal(model.generate(PROMPT, 12, temperature=0), by_hand(model, PROMPT, 12))
    save_model(tmp_path / "m.safetensors", model)
    loaded = load_model(tmp_path / "m.safetensors")
    assert torch.equal(loaded(PROMPT[None]), model(PROMPT[None]))
    with pytest.raises(ValueError, match="kernel lists 2 specs for 3 layers"):
        DecoderConfig(vocab=13, width=32, layers=3, heads=2, length=8, kernel=specs[:2])
    with pytest.raises(ValueError, match="needs a single spec"):
        DecoderConfig(
            vocab=13, width=32, layers=3, heads=2, length=8, kernel=specs, shared_kernel=True
        )


def test_one_kernel_for_all_layers(tmp_path):
    from pjrope import PJBias

    spec = PJBias(2, 8, max_order=1).spec
    apart, shared = (
        Decoder(
            DecoderConfig(
                vocab=13, width=32, layers=3, heads=2, length=8, kernel=spec, shared_kernel=share
            ),
            seed=0,
        )
        for share in (False, True)
    )
    kernels = [layer.kernel for layer in shared.attention_layers]
    assert kernels[0] is kernels[1] is kernels[2]
    own = sum(p.numel() for p in kernels[0].parameters())
    assert sum(p.numel() for p in apart.parameters()) - 2 * own == sum(
        p.numel() for p in shared.parameters()
    )
    save_model(tmp_path / "m.safetensors", shared)
    loaded = load_model(tmp_path / "m.safetensors")
    assert loaded.attention_layers[0].kernel is loaded.attention_layers[2].kernel
    assert torch.equal(loaded(PROMPT[None]), shared(PROMPT[None]))


def test_a_learned_logit_scale_starts_at_one_and_learns():
    plain, scaled = (decoder(KERNELS["rope_alibi"], logit_scale=on) for on in (False, True))
    assert torch.equal(plain(PROMPT[None]), scaled(PROMPT[None]))
    scaled(PROMPT[None]).square().sum().backward()
    layer = scaled.attention_layers[0]
    assert layer.log_scale.grad.abs().min() > 0
    with torch.no_grad():
        layer.log_scale.fill_(0.7)
        for other in scaled.attention_layers[1:]:
            other.log_scale.fill_(0.7)
        factor = torch.tensor(0.7).exp()
        for plain_layer in plain.attention_layers:
            plain_layer.query.weight.mul_(factor)
    torch.testing.assert_close(scaled(PROMPT[None]), plain(PROMPT[None]), rtol=1e-4, atol=1e-5)
    assert torch.equal(scaled.generate(PROMPT, 9, temperature=0), by_hand(scaled, PROMPT, 9))


@torch.no_grad()
@pytest.mark.parametrize("name", ["none", "rope", "alibi", "rope_alibi", "jordan"])
@pytest.mark.parametrize("window", [4, [None, 3], [3, 50]])
def test_windows_of_the_configuration_reach_the_layers_caches_and_files(name, window, tmp_path):
    model = decoder(KERNELS[name], window=window)
    each = window if isinstance(window, list) else [window] * 2
    assert [layer.window for layer in model.attention_layers] == each
    want = by_hand(model, PROMPT, 20)
    assert torch.equal(model.generate(PROMPT, 20, temperature=0), want)
    save_model(tmp_path / "m", model)
    assert load_model(tmp_path / "m").config == model.config
    wide = decoder(KERNELS[name])
    for layer, seen in zip(wide.attention_layers, each, strict=True):
        layer.window = seen
    assert torch.equal(wide(want[None]), model(want[None]))


def test_windows_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="window lists 1 numbers for 2 layers"):
        decoder(None, window=[4])
    with pytest.raises(ValueError, match="window is 0, a number of tokens >= 1"):
        decoder(None, window=0)
    assert "window" not in decoder(None).config.to_json()
