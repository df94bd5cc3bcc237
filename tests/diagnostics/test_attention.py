"""Attention statistics against the same numbers written out with whole matrices."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope import Decoder, DecoderConfig
from pjrope.diagnostics import attention_maps, attention_statistics
from pjrope.kernels import ALiBi, NoPE, PJBias, PJRotary, RoPE

HEADS, WIDTH, LENGTH = 2, 16, 8
KERNELS = {
    "none": NoPE(),
    "rope": RoPE(WIDTH // HEADS),
    "alibi": ALiBi(HEADS),
    "both": RoPE(WIDTH // HEADS) + ALiBi(HEADS),
    "union": PJBias(HEADS, LENGTH),
    "pj_rotary": PJRotary(WIDTH // HEADS, LENGTH),
}


def _model(kernel, layers=2):
    config = DecoderConfig(
        vocab=11, width=WIDTH, layers=layers, heads=HEADS, length=LENGTH, kernel=kernel.spec
    )
    return Decoder(config, seed=0).double()


def _tokens(length=24):
    return torch.randint(0, 11, (3, length), generator=torch.Generator().manual_seed(1))


def _by_hand(model, tokens, queries, near):
    """The first layer, from one matrix of logits per head and plain loops over queries."""
    block = model.blocks[0]
    layer, x = block.attention, block.attention_norm(model.embedding(tokens))
    q, k = (f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (layer.query, layer.key))
    at = torch.arange(tokens.shape[1])
    rotated_q, rotated_k = layer.kernel.rotate(q, k, at, at)
    scores = rotated_q @ rotated_k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    bias = layer.kernel.lag_bias((at[:, None] - at).abs().flatten())
    bias = torch.zeros(HEADS, len(at) ** 2) if bias is None else bias
    logits = scores + bias.view(HEADS, len(at), len(at))
    rows = []
    for b in range(tokens.shape[0]):
        for h in range(HEADS):
            for i in range(len(at) - queries, len(at)):
                row, p = logits[b, h, i, : i + 1], logits[b, h, i, : i + 1].softmax(0)
                d = i - at[: i + 1]
                rows.append(
                    {
                        "score_std": scores[b, h, i, : i + 1].std(correction=0),
                        "logit_std": row.std(correction=0),
                        "logit_max": row.abs().max(),
                        "entropy": -(p * p.log()).sum(),
                        "entropy_share": -(p * p.log()).sum() / math.log(i + 1),
                        "mean_lag": (p * d).sum(),
                        "share_near": p[d < near].sum(),
                    }
                )
    found = {n: float(torch.stack([r[n] for r in rows]).mean()) for n in rows[0]}
    found["logit_max"] = float(max(r["logit_max"] for r in rows))
    found["rotated_key_norm"] = float(rotated_k[:, :, -queries:].norm(dim=-1).mean())
    found["query_norm"] = float(q[:, :, -queries:].norm(dim=-1).mean())
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_statistics_equal_whole_matrices(name):
    model, tokens = _model(KERNELS[name]), _tokens()
    with torch.no_grad():
        want = _by_hand(model, tokens, queries=5, near=LENGTH)
    rows = attention_statistics(model, tokens, queries=5, near=LENGTH)
    assert [row["layer"] for row in rows] == [0, 1]
    for key, value in want.items():
        assert rows[0][key] == pytest.approx(value, rel=1e-6), key


def test_rope_keeps_norms_and_pj_rotary_does_not():
    turned = attention_statistics(_model(KERNELS["rope"]), _tokens(), queries=4)[0]
    assert turned["rotated_key_norm"] == pytest.approx(turned["key_norm"])
    grown = attention_statistics(_model(KERNELS["pj_rotary"]), _tokens(64), queries=4)[0]
    assert grown["rotated_key_norm"] > 2 * grown["key_norm"]


def test_without_position_or_with_one_token_the_bias_and_entropy_are_nothing():
    row = attention_statistics(_model(KERNELS["none"]), _tokens(), queries=1)[0]
    assert row["bias_std"] == 0.0
    assert row["share_near"] == pytest.approx(1.0)
    alone = attention_statistics(_model(KERNELS["alibi"]), _tokens(1), queries=1)[0]
    assert alone["entropy"] == alone["entropy_share"] == alone["mean_lag"] == 0.0


def test_a_model_is_left_as_it_was():
    model, tokens = _model(KERNELS["union"]), _tokens()
    before = model(tokens)
    attention_statistics(model, tokens, queries=2)
    assert torch.equal(model(tokens), before)
    assert not any(block.attention._forward_pre_hooks for block in model.blocks)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"queries": 25}, "queries is 25"),
        ({"queries": 0}, "queries"),
        ({"queries": 4, "near": 0}, "near"),
    ],
)
def test_numbers_out_of_range_are_named(options, error):
    with pytest.raises(ValueError, match=error):
        attention_statistics(_model(KERNELS["none"]), _tokens(), **options)


def test_a_model_without_attention_is_refused():
    with pytest.raises(ValueError, match="no AttentionLayer"):
        attention_statistics(torch.nn.Linear(2, 2), _tokens(), queries=1)


@pytest.mark.parametrize("name", KERNELS)
def test_maps_are_the_weights_written_out(name):
    model, tokens = _model(KERNELS[name]), _tokens()
    maps = attention_maps(model, tokens)
    assert [m.shape for m in maps] == [(3, HEADS, 24, 24)] * 2
    mean_lag = (maps[0] * (torch.arange(24)[:, None] - torch.arange(24))).sum(-1)
    row = attention_statistics(model, tokens, queries=24)[0]
    assert float(mean_lag.detach().mean()) == pytest.approx(row["mean_lag"], rel=1e-6)
    assert torch.allclose(maps[1].sum(-1), torch.ones(3, HEADS, 24).double())
    assert not bool(maps[1].triu(1).any())


def test_a_map_of_a_long_text_is_refused():
    with pytest.raises(ValueError, match="2,049 tokens is too large"):
        attention_maps(_model(KERNELS["none"]), torch.zeros(1, 2049, dtype=torch.long))
