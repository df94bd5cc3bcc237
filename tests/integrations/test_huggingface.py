"""Kernels attached to models of transformers: nothing changes at zero, and nothing is lost after."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing import assert_close

from pjrope.kernels import ALiBi, FourierJet, NearTable, RoPE, T5Bias

from .tiny import SHAPES, logits, tiny, tokens, transformers

hf = pytest.importorskip("pjrope.integrations.huggingface")
KINDS = [kind for kind in SHAPES if kind != "gemma2"]  # capped logits: a test of their own


def with_table(kind="llama", **more):
    """A tiny model with a near-lag table of random numbers in each layer."""
    model = hf.attach(tiny(kind, **more.pop("model", {})), NearTable(4, 8), **more)
    for n, kernel in enumerate(hf.attached(model)):
        if kernel is not None:
            kernel.table.data.normal_(generator=torch.Generator().manual_seed(n))
    return model


def by_hand(model, ids):
    """Logits with the bias of every pair given to the model's own eager attention in its mask."""
    plain, n = copy.deepcopy(model), ids.shape[1]
    kernels = hf.detach(plain)
    plain.set_attn_implementation("eager")
    lag = torch.arange(n)[:, None] - torch.arange(n)
    for layer, kernel in zip(plain.model.layers, kernels, strict=True):
        bias = kernel.lag_bias(lag.flatten()).detach().view(-1, n, n)
        mask = bias[None].masked_fill(lag < 0, -1e30)
        layer.self_attn.register_forward_pre_hook(
            lambda module, args, given, mask=mask: (args, given | {"attention_mask": mask}),
            with_kwargs=True,
        )
    return logits(plain, ids)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attention", ["auto", "sdpa", "eager"])
def test_a_bias_of_zero_changes_nothing(kind, attention):
    model, ids = tiny(kind), tokens()
    before = logits(model, ids)
    hf.attach(model, NearTable(4, 8), attention=attention)
    assert_close(logits(model, ids), before, rtol=0, atol=2e-5)
    small = tiny(kind)
    for p in small.parameters():
        if p.ndim > 1:
            p.data.div_(6.0)  # the usual initial size
    before = logits(small, ids)
    assert_close(logits(hf.attach(small, NearTable(4, 8)), ids), before, rtol=0, atol=1e-6)


def test_a_bias_of_zero_is_one_rounding_away_in_bf16():
    model, ids = tiny(dtype=torch.bfloat16), tokens()
    before = logits(model, ids)
    hf.attach(model, NearTable(4, 8))
    assert hf.attached(model)[0].table.dtype == torch.float32
    after = logits(model, ids)
    assert after.dtype == torch.bfloat16
    exact = logits(tiny(), ids)
    ours, theirs = ((x.float() - exact).abs().max() for x in (after, before))
    assert float(ours) < 1.5 * float(theirs)


def test_the_bias_is_the_one_asked_for():
    model, ids = with_table("llama"), tokens()
    assert_close(logits(model, ids), by_hand(model, ids), rtol=0, atol=2e-5)
    assert float((logits(model, ids) - logits(tiny(), ids)).abs().max()) > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_the_three_attentions_agree_also_with_padding(kind):
    ids = tokens(length=16)
    seen = torch.ones_like(ids)
    seen[0, :5] = 0
    found = []
    for attention in ("auto", "sdpa", "eager"):
        model = with_table(kind, attention=attention)
        found.append(logits(model, ids, attention_mask=seen)[seen.bool()])
    assert_close(found[1], found[0], rtol=0, atol=3e-5)
    assert_close(found[2], found[0], rtol=0, atol=3e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_left_padding_equals_the_row_alone(kind):
    model, ids = with_table(kind), tokens(rows=1, length=11)
    alone = logits(model, ids)
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], dim=1)
    seen = torch.cat([torch.zeros(1, 3, dtype=torch.long), torch.ones_like(ids)], dim=1)
    places = (seen.cumsum(-1) - 1).clamp(min=0)
    found = logits(model, padded, attention_mask=seen, position_ids=places)[:, 3:]
    assert_close(found, alone, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_generating_with_a_cache_equals_full_recomputation(kind):
    model, ids = with_table(kind), tokens(rows=2, length=9)
    seen = torch.ones_like(ids)
    seen[1, :4] = 0
    cached = model.generate(
        ids,
        attention_mask=seen,
        max_new_tokens=6,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
    )
    text = cached.sequences
    mask = torch.cat([seen, torch.ones(2, 6, dtype=torch.long)], dim=1)
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    full = logits(model, text, attention_mask=mask, position_ids=places)
    for step, got in enumerate(cached.logits):
        assert_close(got, full[:, 8 + step], rtol=0, atol=1e-4)
    small = float((torch.stack(cached.logits, 1) - full[:, 8:-1]).abs().max() / full.abs().max())
    assert small < 1e-5


def test_a_static_cache_knows_its_places():
    model, ids = with_table("llama"), tokens(rows=1, length=7)
    options = {"max_new_tokens": 5, "do_sample": False}
    static = model.generate(ids, cache_implementation="static", **options)
    assert torch.equal(static, model.generate(ids, use_cache=False, **options))
    chunked = transformers.DynamicCache(config=model.config)
    parts = [logits(model, part, cache=chunked) for part in ids.split([3, 4], dim=1)]
    assert_close(torch.cat(parts, 1), logits(model, ids), rtol=0, atol=2e-5)


def test_packed_documents_and_copies():
    model, a, b = with_table(), tokens(1, 7, 1), tokens(1, 9, 2)
    places = torch.cat([torch.arange(7), torch.arange(9)])[None]
    # transformers finds documents by their positions, where there is no cache.
    both = logits(model, torch.cat([a, b], 1), position_ids=places, use_cache=False)
    assert_close(both, torch.cat([logits(model, a), logits(model, b)], 1), rtol=0, atol=2e-5)
    assert torch.equal(logits(copy.deepcopy(model), a), logits(model, a))


def test_saved_and_loaded(tmp_path):
    model, ids = with_table("qwen3", layers=[1]), tokens()
    want = logits(model, ids)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    with pytest.raises(ValueError, match=r"call .*attach\(model\)"):
        logits(loaded, ids)
    assert hf.attached(hf.attach(loaded))[0] is None
    assert torch.equal(logits(loaded, ids), want)
    bare = transformers.AutoModel.from_pretrained(tmp_path).eval()
    hf.attach(bare, weights=tmp_path)
    with torch.no_grad():
        hidden = bare(ids).last_hidden_state
        assert torch.equal(loaded.lm_head(hidden), want)
    with pytest.raises(ValueError, match=r"holds no model\.safetensors"):
        hf.attach(hf.detach(loaded) and with_state(loaded, model), weights=tmp_path / "none")


def test_kernels_come_back_from_every_shard(tmp_path):
    model, ids = with_table(), tokens()
    want = logits(model, ids)
    model.save_pretrained(tmp_path, max_shard_size="8KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 2 and not (tmp_path / "model.safetensors").exists()
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert torch.equal(logits(hf.attach(loaded), ids), want)


@pytest.mark.parametrize("name", ["s_aux", "position_bias", "head_mask"])
@pytest.mark.parametrize("attention", ["auto", "sdpa"])
def test_what_a_kernel_would_leave_out_is_refused(name, attention):
    from pjrope.integrations.huggingface.forward import NAMES

    layer = with_table(attention=attention).model.layers[0].self_attn
    call = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS[NAMES[attention]]
    q, k = torch.zeros(1, 4, 5, 8), torch.zeros(1, 2, 5, 8)
    with pytest.raises(ValueError, match=f"LlamaAttention uses {name}, which an attached kernel"):
        call(layer, q, k, k, None, scaling=1.0, **{name: torch.zeros(4)})


def with_state(model, source):
    model.config.pjrope = source.config.pjrope
    return model


def test_training_checkpointing_and_the_trainer(tmp_path):
    pytest.importorskip("accelerate")
    model = hf.attach(tiny().train(), NearTable(4, 4))
    ids = tokens(rows=4, length=12)
    model(ids, labels=ids).loss.backward()
    want = hf.attached(model)[0].table.grad.clone()
    assert bool((want != 0).any())
    model.zero_grad()
    model.gradient_checkpointing_enable()
    model(ids, labels=ids).loss.backward()
    assert_close(hf.attached(model)[0].table.grad, want, rtol=1e-4, atol=1e-7)
    before = hf.attached(model)[1].table.detach().clone()
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=10,
        per_device_train_batch_size=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    rows = [{"input_ids": row, "labels": row} for row in ids]
    done = transformers.Trainer(model=model, args=arguments, train_dataset=rows).train()
    assert done.global_step == 10 and not torch.equal(hf.attached(model)[1].table, before)


def test_detaching_leaves_the_model_as_it_was():
    model, ids = tiny(), tokens()
    before, names = logits(model, ids), list(model.state_dict())
    config = model.config.to_dict()
    hf.attach(model, T5Bias(4))
    assert len(model.state_dict()) == len(names) + 2
    kernels = hf.detach(model)
    assert [type(k) for k in kernels] == [T5Bias, T5Bias]
    assert torch.equal(logits(model, ids), before) and list(model.state_dict()) == names
    assert model.config.to_dict() == config
    with pytest.raises(ValueError, match="nothing of pjrope"):
        hf.detach(model)


def test_capped_logits_go_through_the_models_own_eager_attention():
    ids, model = tokens(), tiny("gemma2")
    model.set_attn_implementation("eager")
    before = logits(model, ids)
    hf.attach(model, NearTable(4, 8), attention="eager")
    assert_close(logits(model, ids), before, rtol=0, atol=2e-5)
    with pytest.raises(ValueError, match="capped at 50"):
        logits(hf.attach(tiny("gemma2"), NearTable(4, 8)), ids)


def test_no_backend_may_leave_the_bias_out(monkeypatch):
    ids = tokens(rows=1)
    for other in ("sdpa", "eager", "flash_attention_2"):
        model = with_table()
        model.config._attn_implementation = other
        with pytest.raises(ValueError, match=f"'{other}', which ignores"):
            logits(model, ids)
    dropping = with_table(model={"attention_dropout": 0.1}).train()
    with pytest.raises(ValueError, match=r"dropout is 0\.1"):
        dropping(ids)
    assert hf.DENSE_LIMIT == 2048
    monkeypatch.setattr("pjrope.integrations.huggingface.forward.DENSE_LIMIT", 19)
    with pytest.raises(ValueError, match=r"20 keys: a dense bias is made for 19 at most"):
        logits(with_table(attention="sdpa"), ids)
    with pytest.raises(ValueError, match="numbers beside 0"):
        logits(with_table(), ids, attention_mask=torch.full((1, 1, 20, 20), 0.5))
    block = torch.zeros(1, 1, 20, 20).masked_fill(torch.ones(20, 20).triu(1).bool(), -torch.inf)
    assert_close(
        logits(with_table(), ids, attention_mask=block),
        logits(with_table(), ids),
        rtol=0,
        atol=2e-5,
    )


@pytest.mark.parametrize(
    ("kernel", "more", "message"),
    [
        (RoPE(8), {}, "use replace_rotary"),
        (ALiBi(3), {}, "made for 3 query heads"),
        (ALiBi(4), {"layers": [2]}, r"layers are \[2\]: the model has 0 … 1"),
        (ALiBi(4), {"attention": "flash"}, "attention is 'flash'"),
        (None, {}, "not saved with one"),
    ],
)
def test_what_does_not_fit_is_named(kernel, more, message):
    model = tiny()
    with pytest.raises(ValueError, match=message):
        hf.attach(model, kernel, **more)
    assert not any(hf.attached(model)) and model.config._attn_implementation == "sdpa"


def test_models_that_cannot_take_a_kernel():
    with pytest.raises(ValueError, match="a model of transformers is needed"):
        hf.attach(torch.nn.Linear(2, 2), ALiBi(4))
    model = hf.attach(tiny(), FourierJet(4, 32))
    with pytest.raises(ValueError, match="detach"):
        hf.attach(model, ALiBi(4))
