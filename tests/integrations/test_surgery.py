"""Rotations of transformers models: read, stretched, replaced by kernels, and tuned alone."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from pjrope.data.facts import model_facts, rotary_config
from pjrope.kernels import ALiBi, JordanRoPE, NearTable, NoPE, PJRotary, RoPE
from pjrope.positions import NTK, PI, YaRN
from pjrope.positions.frequencies import truncated

from .tiny import logits, tiny, tokens, transformers

hf = pytest.importorskip("pjrope.integrations.huggingface")
surgery = pytest.importorskip("pjrope.integrations.surgery")

LLAMA = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ROPES = {
    "default": {"rope_type": "default", "rope_theta": 5e4},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "llama3": LLAMA | {"original_max_position_embeddings": 64},
}


def mapped_rows():
    found = []
    for row in model_facts():
        try:
            found.append((row["key"], rotary_config(row)))
        except ValueError:
            continue
    return found


def test_every_row_of_practice_that_maps_is_read():
    rows = mapped_rows()
    assert len(rows) == 57
    for key, config in rows:
        rope = surgery.read_rotary(config)
        assert rope.spec == RoPE.from_config(config).spec, key


@pytest.mark.parametrize("name", ROPES)
def test_a_model_is_read_as_it_turns(name):
    model = tiny(rope_parameters={"rope_theta": 1e4} | ROPES[name])
    rope = surgery.read_rotary(model)
    assert rope.layout == "half" and rope.head_dim == 8
    assert_close(rope.frequencies(None, None)[0].float(), model.model.rotary_emb.inv_freq)
    ids = tokens()
    before = logits(model, ids)
    hf.replace_rotary(model, rope)
    assert_close(logits(model, ids), before, rtol=0, atol=3e-5)


def test_a_model_that_was_tampered_with_is_not_misread():
    model = tiny()
    model.model.rotary_emb.inv_freq.mul_(0.5)
    with pytest.raises(ValueError, match="turns by other frequencies"):
        surgery.read_rotary(model)
    gemma = tiny("gemma3")
    full = surgery.read_rotary(gemma, layer_type="full_attention")
    assert_close(full.omega.float(), gemma.model.rotary_emb.full_attention_inv_freq)
    with pytest.raises(ValueError, match="layer_type is None"):
        surgery.read_rotary(gemma)


@pytest.mark.parametrize(
    ("method", "factor", "want"),
    [
        ("pi", 4.0, RoPE(8, extension=PI(4.0))),
        ("ntk", 4.0, RoPE(8, extension=NTK(4.0))),
        ("yarn", 4.0, RoPE(8, extension=YaRN(4.0, 256))),
        ("p_rope", 0.5, RoPE(8, omega=truncated(8, kept=2))),
    ],
)
def test_extended_as_the_kernel_says(method, factor, want, tmp_path):
    model, ids = tiny(), tokens()
    before = logits(model, ids)
    assert surgery.extend(model, method, factor) is model
    found = surgery.read_rotary(model)
    for got, asked in zip(found.frequencies(None, None), want.frequencies(None, None), strict=True):
        assert_close(torch.as_tensor(got).double(), torch.as_tensor(asked).double())
    after = logits(model, ids)
    assert float((after - before).abs().max()) > 1e-3
    other = hf.replace_rotary(
        tiny(), RoPE(8, layout="half", extension=want.extension, omega=want.spec["omega"])
    )
    assert_close(logits(other, ids), after, rtol=0, atol=3e-5)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert torch.equal(logits(loaded, ids), after)
    assert loaded.config.max_position_embeddings == (256 if method == "p_rope" else 1024)
    if method != "ntk":  # which is a base, and can be raised again
        with pytest.raises(ValueError, match="stretched already"):
            surgery.extend(model, "pi", 2.0)


def test_extension_of_some_layers_and_of_some_channels():
    gemma = tiny("gemma3")
    kept = gemma.model.rotary_emb.sliding_attention_inv_freq.clone()
    whole = gemma.model.rotary_emb.full_attention_inv_freq.clone()
    with pytest.raises(ValueError, match="layer_type is None"):
        surgery.extend(gemma, "pi", 2.0)
    surgery.extend(gemma, "pi", 2.0, layer_type="full_attention")
    assert torch.equal(gemma.model.rotary_emb.sliding_attention_inv_freq, kept)
    assert_close(gemma.model.rotary_emb.full_attention_inv_freq, whole / 2)
    wide = {
        "hidden_size": 64,
        "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25},
    }
    neox = tiny("gpt_neox", **wide)
    with pytest.raises(ValueError, match="4 of 16 channels turn"):
        surgery.extend(neox, "p_rope", 0.5)
    surgery.extend(neox, "ntk", 4.0)
    want = RoPE(16, rotary_dim=4, extension=NTK(4.0)).frequencies(None, None)[0]
    assert_close(neox.gpt_neox.rotary_emb.inv_freq, want.float())


@pytest.mark.parametrize(
    ("method", "factor", "message"),
    [
        ("xpos", 2.0, "method is 'xpos'"),
        ("pi", 0.5, "factor is 0.5: pi needs"),
        ("p_rope", 2.0, "p_rope keeps a share"),
    ],
)
def test_what_cannot_be_extended_is_named(method, factor, message):
    with pytest.raises(ValueError, match=message):
        surgery.extend(tiny(), method, factor)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt_neox"])
def test_the_models_own_rotation_in_either_layout_changes_nothing(kind, layout):
    partial = {
        "hidden_size": 64,
        "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25},
    }
    model, ids = tiny(kind, **(partial if kind == "gpt_neox" else {})), tokens()
    before = logits(model, ids)
    own = RoPE.from_config(model.config, layout=layout)
    hf.replace_rotary(model, own)
    assert_close(logits(model, ids), before, rtol=0, atol=3e-5)
    generated = model.generate(ids[:, :6], max_new_tokens=5, do_sample=False)
    assert torch.equal(
        generated,
        tiny(kind, **(partial if kind == "gpt_neox" else {})).generate(
            ids[:, :6], max_new_tokens=5, do_sample=False
        ),
    )
    hf.detach(model)
    assert torch.equal(logits(model, ids), before)


def jordan(gamma, eta):
    """Blocks of two channels, both at the frequencies of the first two pairs of the model."""
    return JordanRoPE(8, 2, 64, omega=RoPE(8).omega[:2].clone(), gamma=gamma, eta=eta)


@pytest.mark.parametrize(
    "kernel",
    [jordan(1.0, 0.5), PJRotary(8, 64), PJRotary(8, 64) + ALiBi(4)],
    ids=["jordan", "pj", "pj_alibi"],
)
def test_jordan_rotations_in_place_of_the_models(kernel, tmp_path):
    model, ids = tiny(), tokens(rows=2, length=12)
    before = logits(model, ids)
    hf.replace_rotary(model, kernel)
    after = logits(model, ids)
    assert float((after - before).abs().max()) > 1e-2
    seen = torch.ones_like(ids)
    seen[1, :4] = 0
    cached = model.generate(
        ids,
        attention_mask=seen,
        max_new_tokens=4,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
    )
    mask = torch.cat([seen, torch.ones(2, 4, dtype=torch.long)], dim=1)
    full = logits(model, cached.sequences, attention_mask=mask)
    worst = (torch.stack(cached.logits, 1) - full[:, 11:-1]).abs().max() / full.abs().max()
    assert float(worst) < 1e-5
    model.save_pretrained(tmp_path)
    loaded = hf.attach(transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval())
    assert_close(logits(loaded, ids), after, rtol=0, atol=1e-6)


def test_a_jordan_block_at_zero_is_the_rotation_it_began_as():
    ids = tokens()
    own = hf.replace_rotary(tiny(), jordan(0.0, 0.0))
    pairs = RoPE(8).omega[:2].clone().repeat_interleave(2)
    plain = hf.replace_rotary(tiny(), RoPE(8, omega=pairs))
    assert_close(logits(own, ids), logits(plain, ids), rtol=0, atol=2e-5)


def test_what_cannot_replace_a_rotation_is_named():
    with pytest.raises(ValueError, match=r"ALiBi does not act on the channels"):
        hf.replace_rotary(tiny(), ALiBi(4))
    with pytest.raises(ValueError, match="NoPE does not act"):
        hf.replace_rotary(tiny(), NoPE())
    with pytest.raises(ValueError, match="made for 16 channels per head"):
        hf.replace_rotary(tiny(), RoPE(16))
    with pytest.raises(ValueError, match="made for 3 key heads"):
        hf.replace_rotary(tiny(), JordanRoPE(8, 3, 64))


def test_only_positions_train():
    model, ids = hf.attach(tiny(), NearTable(4, 4)), tokens()
    names = [name for name, _ in surgery.position_parameters(model, freeze=True)]
    assert names == [f"model.layers.{n}.self_attn.position_kernel.table" for n in (0, 1)]
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW([p for _, p in surgery.position_parameters(model)], lr=0.1)
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    changed = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert changed == set(names)
    assert {n for n, p in model.named_parameters() if p.requires_grad} == set(names)
    with pytest.raises(ValueError, match="no position parameters"):
        surgery.position_parameters(surgery.extend(tiny(), "yarn", 2.0))
