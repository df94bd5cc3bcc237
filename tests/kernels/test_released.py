"""Rotary settings of released models, against the tables that transformers computes itself."""

from __future__ import annotations

import importlib
import json
import math

import pytest
import torch

from pjrope import RoPE
from pjrope.data.facts import facts_about, model_facts, rotary_config
from pjrope.kernels import kernel_from_spec
from pjrope.kernels.released import rotary_settings
from pjrope.positions import LongRoPE

transformers = pytest.importorskip("transformers", minversion="5")
ROPE_TABLES = importlib.import_module("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS

UNMAPPED = {  # rows that hold no full set of rotary numbers, with a word of the reason
    "qwen-1-1.8b": "no factor",
    "phi-3.5-mini": "lists of divisors",
    "phi-4-mini": "lists of divisors",
    "falcon-rw-1b": "no rotation",
    "bloom-176b": "no rotation",
    "mpt-7b": "no rotation",
    "kimi-k3": "no rotation",
    "nemotron-3-nano-30b": "no rotation",
    "falcon-h1": "how many channels",
}
ROWS = {row["key"]: row for row in model_facts()}


def table_of_transformers(config: dict, seq_len: int | None = None) -> tuple[torch.Tensor, float]:
    """``inv_freq`` and the factor on q and on k of transformers, fp32."""
    config = dict(config)
    if "qk_rope_head_dim" in config:  # the rotated part of latent attention
        config["head_dim"] = config.pop("qk_rope_head_dim")
    made = transformers.LlamaConfig(hidden_size=4 * config["head_dim"], **config)
    made.num_attention_heads = 4
    kind = made.rope_parameters["rope_type"]
    if kind in ROPE_TABLES:
        return ROPE_TABLES[kind](made, "cpu", seq_len=seq_len)
    rotary = importlib.import_module("transformers.models.llama.modeling_llama")
    assert made.rope_parameters.get("partial_rotary_factor", 1.0) == 1.0
    return rotary.LlamaRotaryEmbedding(made).inv_freq, 1.0


def ours(rope: RoPE, longest: int) -> tuple[torch.Tensor, float]:
    position = torch.tensor([longest - 1])
    omega, temperature = rope.frequencies(position, position)
    return omega.float(), float(temperature)


def check_equal(config: dict, seq_len: int | None = None) -> None:
    want, factor = table_of_transformers(config, seq_len)
    got, temperature = ours(RoPE.from_config(config), seq_len or 1)
    # transformers computes in fp32 throughout; ours is fp64 rounded once.
    torch.testing.assert_close(got[: len(want)], want, rtol=2e-6, atol=0.0)
    assert temperature == pytest.approx(factor, rel=1e-7)


@pytest.mark.parametrize("key", [key for key in ROWS if key not in UNMAPPED])
def test_every_row_has_the_table_of_transformers(key):
    config = rotary_config(ROWS[key])
    partial = config["rope_parameters"].get("partial_rotary_factor", 1.0)
    if config["rope_parameters"]["rope_type"] == "default" and partial != 1.0:
        # The default table of a partial rotation is that of a full one on the turning channels.
        whole = {**config, "head_dim": ROWS[key]["rotary_dim"]}
        whole["rope_parameters"] = {**config["rope_parameters"], "partial_rotary_factor": 1.0}
        want, _ = table_of_transformers(whole)
        got, _ = ours(RoPE.from_config(config), 1)
        torch.testing.assert_close(got, want, rtol=2e-6, atol=0.0)
        assert RoPE.from_config(config).rotary_dim == ROWS[key]["rotary_dim"]
        return
    check_equal(config, seq_len=2 * (ROWS[key]["original_context"] or 1024))


def test_rows_that_cannot_be_mapped_say_why():
    for key, reason in UNMAPPED.items():
        with pytest.raises(ValueError, match=reason):
            rotary_config(ROWS[key])


def test_facts_are_fresh_copies_and_marked():
    model_facts()[0]["method"] = "changed"
    assert model_facts()[0]["method"] == "rope"
    assert len(ROWS) == 66 and {row["verified"] for row in ROWS.values()} == {True, False}
    assert "verified" in facts_about()["fields"]


@pytest.mark.parametrize(
    "scaling",
    [
        {"factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
        {"factor": 4.0},
        {"factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.5},
        {"factor": 8.0, "attention_factor": 1.0, "beta_fast": 16.0, "beta_slow": 2.0},
        {"factor": 32.0, "beta_fast": 1.0, "beta_slow": 1.0},
        {"factor": 16.0, "original_max_position_embeddings": 64},
    ],
    ids=lambda s: "-".join(s),
)
@pytest.mark.parametrize(("dim", "base"), [(64, 150_000.0), (8, 10_000.0), (128, 5e6)])
def test_yarn_as_published(scaling, dim, base):
    rope = {"rope_type": "yarn", "rope_theta": base, "original_max_position_embeddings": 4096}
    check_equal(
        {"head_dim": dim, "max_position_embeddings": 131_072, "rope_parameters": rope | scaling}
    )


@pytest.mark.parametrize("seq_len", [100, 4096, 4097, 50_000])
@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_settings_that_follow_the_length(kind, seq_len):
    rope = {"rope_type": kind, "rope_theta": 1e4}
    config = {"head_dim": 16, "max_position_embeddings": 4096, "rope_parameters": rope}
    if kind == "dynamic":
        rope["factor"] = 4.0
    else:
        rope |= {"short_factor": [1.0 + 0.1 * k for k in range(8)]}
        rope |= {"long_factor": [1.5 + k for k in range(8)]}
        rope |= {"original_max_position_embeddings": 4096}
        config["max_position_embeddings"] = 131_072
    check_equal(config, seq_len)


def test_long_lists_are_chosen_by_row():
    lists = LongRoPE(32.0, 8, short=[1.0, 1.0], long=[2.0, 4.0])
    rope = RoPE(4, extension=lists)
    assert not rope.claims.length_free and not rope.claims.norm_preserving
    rows, _ = rope.frequencies(torch.stack([torch.arange(4), torch.arange(4) + 8]), None)
    torch.testing.assert_close(rows[0], rope.omega)
    torch.testing.assert_close(rows[1], rope.omega / torch.tensor([2.0, 4.0]))
    fixed = RoPE(4, extension=LongRoPE(32.0, 8, short=[1, 1], long=[2, 4], use="long"))
    assert fixed.claims.relative and fixed.claims.length_free
    torch.testing.assert_close(fixed.frequencies(None, None)[0], rows[1])
    assert kernel_from_spec(json.loads(json.dumps(fixed.spec))).extension == fixed.extension


def rotate_with_transformers(x, inv_freq, factor, positions, module):
    angles = positions[:, None].double() * inv_freq.double()
    angles = torch.cat([angles, angles], dim=-1)[None]
    cos, sin = angles.cos() * factor, angles.sin() * factor
    return module.apply_rotary_pos_emb(x, x, cos, sin)[0]


def test_rotation_equals_the_model_code_in_the_half_layout():
    llama = importlib.import_module("transformers.models.llama.modeling_llama")
    config = rotary_config(ROWS["gpt-oss-120b"])
    inv_freq, factor = table_of_transformers(config)
    x = torch.randn(1, 2, 5, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([0, 1, 7, 100, 4000])
    got = RoPE.from_config(config).rotate(x, None, positions)[0]
    want = rotate_with_transformers(x, inv_freq, factor, positions, llama)
    torch.testing.assert_close(got, want, rtol=0, atol=3e-3)  # fp32 angles at position 4,000
    torch.testing.assert_close(got[:, :, :3], want[:, :, :3], rtol=0, atol=1e-5)


def test_a_partial_rotation_leaves_the_rest_as_it_is():
    phi = importlib.import_module("transformers.models.phi3.modeling_phi3")
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75}
    rope |= {"short_factor": [1.0] * 6, "long_factor": [2.0 + k for k in range(6)]}
    rope |= {"original_max_position_embeddings": 64}
    config = {"head_dim": 16, "max_position_embeddings": 2048, "rope_parameters": rope}
    kernel = RoPE.from_config(config)
    inv_freq, factor = table_of_transformers(config, seq_len=100)
    x = torch.randn(1, 2, 3, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    positions = torch.tensor([0, 5, 99])
    got = kernel.rotate(x, None, positions)[0]
    want = rotate_with_transformers(x, inv_freq, factor, positions, phi)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
    assert factor == pytest.approx(math.sqrt(1 + math.log(32) / math.log(64)))
    assert torch.equal(got[..., 12:], x[..., 12:])


def test_the_interleaved_layout_equals_gpt_j():
    gptj = importlib.import_module("transformers.models.gptj.modeling_gptj")
    config = {"model_type": "gptj", "n_embd": 64, "n_head": 4, "rotary_dim": 8, "n_positions": 64}
    kernel = RoPE.from_config(config)
    assert (kernel.head_dim, kernel.rotary_dim, kernel.layout) == (16, 8, "interleaved")
    x = torch.randn(1, 3, 4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    table = gptj.create_sinusoidal_positions(64, 8).double()
    positions = torch.tensor([0, 3, 10, 60])
    sin, cos = table[positions][None].chunk(2, dim=-1)
    turned = gptj.apply_rotary_pos_emb(x[..., :8].transpose(1, 2), sin, cos).transpose(1, 2)
    got = kernel.rotate(x, None, positions)[0]
    torch.testing.assert_close(got[..., :8], turned, rtol=0, atol=1e-5)


def test_configuration_objects_and_layer_types():
    made = transformers.Gemma3TextConfig(head_dim=16, hidden_size=64, num_attention_heads=4)
    full = RoPE.from_config(made, layer_type="full_attention")
    sliding = RoPE.from_config(made, layer_type="sliding_attention")
    assert float(full.omega[1]) == pytest.approx(1e6 ** (-1 / 8))
    assert float(sliding.omega[1]) == pytest.approx(1e4 ** (-1 / 8))
    with pytest.raises(ValueError, match=r"layer_type is None: .*full_attention"):
        RoPE.from_config(made)
    old = {"head_dim": 16, "rope_theta": 1e6, "rope_local_base_freq": 1e4}
    assert rotary_settings(old, layer_type="sliding_attention")["base"] == 1e4
    with pytest.raises(ValueError, match="layer_type is None"):
        rotary_settings(old)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("llama", "config is str"),
        ({"model_type": "bloom", "hidden_size": 8}, "bloom has ALiBi"),
        ({"rope_theta": 1e4}, "neither head_dim nor hidden_size"),
        ({"head_dim": 8, "rope_scaling": {"type": "xpos"}}, "rope_type is 'xpos'"),
        ({"head_dim": 8, "rope_scaling": {"type": "linear"}}, "factor is missing"),
        ({"head_dim": 8, "rope_scaling": {"type": "yarn", "factor": 2.0}}, "max_position"),
    ],
)
def test_bad_configurations_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        RoPE.from_config(config)
