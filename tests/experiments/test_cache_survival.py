"""Serving from a rounded cache, and what is measured in its layers."""

from __future__ import annotations

import math
import time

import pytest
import torch

from pjrope.experiments import get, run
from pjrope.experiments.analysis.report import report
from pjrope.experiments.codes.rounding import Quantizer, haar_rotation, round_vectors
from pjrope.experiments.sequences.cache_survival.metrics import capture, growth, rounding, survival
from pjrope.experiments.sequences.cache_survival.serving import (
    STORES,
    RoundedKeys,
    Variant,
    served,
    variants,
    without_shear,
)
from pjrope.experiments.sequences.cache_survival.split import logits, shear_logits
from pjrope.experiments.sequences.language import lag_sampler
from pjrope.experiments.sequences.methods import make_kernel
from pjrope.experiments.sequences.phase_lm import make_model
from pjrope.kernels import ALiBi, JordanRoPE
from pjrope.kernels.jordan_action import JordanAction
from pjrope.training import stream

LENGTH, HEAD_DIM, HEADS = 16, 16, 2
SETTINGS = {"width": 32, "heads": HEADS, "layers": 2, "length": LENGTH}
METHODS = ("rope", "rope_trunc", "direct_sum_grid", "stabilized", "exact", "scaled")
NOTHING = variants(())[0]


def _kernel(method: str, shear: float = 0.05):
    kernel = make_kernel(method, HEAD_DIM, HEADS, LENGTH)
    for part in kernel.modules():
        if isinstance(part, JordanAction) and part.eta is not None:
            per_token = shear * (LENGTH if part.form == "scaled" else 1)
            torch.nn.init.uniform_(part.eta, 0.5 * per_token, per_token, generator=stream(1))
    return kernel


def _model(method: str, shear: float = 0.05):
    model = make_model(SETTINGS, _kernel(method), seed=2).eval()
    with torch.no_grad():
        for block in model.decoder.blocks:
            block.attention.kernel.load_state_dict(_kernel(method, shear).state_dict())
    return model


def _tokens(n: int = 48, batch: int = 3) -> torch.Tensor:
    return lag_sampler("mixed_raw", LENGTH, 0.3)(stream(0), batch, n)[0]


@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_a_cache_that_rounds_nothing_changes_no_logit(method):
    model, tokens = _model(method), _tokens()
    plain = model(tokens)
    with served(model, NOTHING, Quantizer(0, haar_rotation(HEAD_DIM, 0))):
        cached = model(tokens)
    if method in ("exact", "scaled"):  # attend() counts their positions from the middle
        torch.testing.assert_close(cached, plain, atol=2e-5, rtol=0)
    else:
        assert torch.equal(cached, plain)
    assert torch.equal(model(tokens), plain), "the model is put back as it was"


@pytest.mark.parametrize("store", list(STORES)[1:])
@torch.no_grad()
def test_only_what_is_stored_is_rounded(store):
    model = _model("exact")
    layer = model.decoder.blocks[1].attention
    kernel, x = layer.kernel, torch.randn(1, 5, 32, generator=stream(3))
    k = x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)

    def found() -> set[str]:
        made = {"content keys": layer.key(x), "values": layer.value(x)}
        made = {n: y.unflatten(-1, (HEADS, HEAD_DIM)) for n, y in made.items()}
        made["keys"] = layer.kernel.rotate(None, k, None, torch.arange(5))[1]
        return {n for n, y in made.items() if torch.equal(round_vectors(y, 3), y)}

    with served(model, Variant(store, "plain", 3), Quantizer(3)):
        assert found() == ({"keys", "values"} if store == "keys, values" else {store})
    assert found() == set() and layer.kernel is kernel


@torch.no_grad()
def test_rounding_moves_the_answers_less_with_more_bits():
    model, tokens = _model("exact"), _tokens()
    plain = model(tokens)
    moved = []
    for bits in (8, 4, 2):
        with served(model, Variant("keys, values", "plain", bits), Quantizer(bits)):
            moved.append(float((model(tokens) - plain).abs().max()))
    assert 0 < moved[0] < moved[1] < moved[2]


@torch.no_grad()
def test_keys_are_turned_from_position_zero_as_a_growing_cache_must():
    model, tokens, stored = _model("exact"), _tokens(batch=1), []
    block = model.decoder.blocks[0]

    class Spy(Quantizer):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            stored.append(x.clone())
            return x

    with served(model, Variant("keys", "plain", 2), Spy(2)):
        model(tokens)
    k = block.attention.key(block.attention_norm(model.decoder.embedding(tokens)))
    k = k.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
    _, expected = block.attention.kernel.rotate(None, k, None, torch.arange(48))
    torch.testing.assert_close(stored[0], expected, atol=1e-6, rtol=1e-6)


@torch.no_grad()
def test_a_model_can_be_served_without_its_shear():
    model, still, tokens = _model("stabilized"), _model("stabilized"), _tokens()
    for block in still.decoder.blocks:
        block.attention.kernel.eta.zero_()
    with served(model, NOTHING, Quantizer(0), shear=False):
        assert torch.equal(model(tokens), still(tokens))
    assert not torch.equal(model(tokens), still(tokens))


def test_a_bias_cannot_be_served_so():
    with pytest.raises(ValueError, match="ALiBi does more than act on channels"):
        RoundedKeys(ALiBi(2), Quantizer(4))


@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_base_and_shear_are_the_models_own_logits(method):
    kernel, n = _kernel(method), 8 * LENGTH
    q, k = torch.randn(2, 2, HEADS, n, HEAD_DIM, generator=stream(6))
    at = torch.arange(n)
    own = logits(kernel, q, k, at, at)  # fp32, as the model computes them
    wide = (q.double(), k.double(), at, at)
    shear = shear_logits(kernel, *wide)
    error = (logits(without_shear(kernel), *wide) + shear - own).tril()
    assert float(error.abs().max()) < 1e-5 * max(1.0, float(own.tril().abs().max()))
    mode = float(shear.tril().square().mean() / own.tril().square().mean())
    assert mode == 0 if "rope" in method else mode > 1e-3


def test_a_shear_taken_at_the_lag_is_wrong_where_it_saturates_in_the_position():
    kernel, at = _kernel("stabilized"), torch.arange(4 * LENGTH)
    q, k = torch.randn(2, 1, HEADS, len(at), HEAD_DIM, generator=stream(7)).double()
    own, theirs = (
        shear_logits(kernel, q, k, at, at, by_lag=lag).detach().tril() for lag in (False, True)
    )
    assert float((own - theirs).square().mean()) > 0.1 * float(own.square().mean())
    exact = _kernel("exact")
    same = [shear_logits(exact, q, k, at, at, by_lag=lag) for lag in (False, True)]
    torch.testing.assert_close(*same)


def test_the_split_needs_order_two():
    kernel = JordanRoPE(12, 1, 8, order=3, eta=0.1)
    x = torch.randn(1, 1, 4, 12)
    with pytest.raises(ValueError, match="order 3"):
        shear_logits(kernel, x, x, torch.arange(4), torch.arange(4))


def test_when_keys_are_lost_the_signal_is_the_noise():
    """The reference gets D here: it divides the noise by D, and not the signal."""
    layers = capture(_model("exact"), _tokens(8 * LENGTH), rows=16)

    class Nothing(Quantizer):
        def __call__(self, x):
            return torch.zeros_like(x)

    lags = {"near": (0, LENGTH), "far": (LENGTH, 8 * LENGTH)}
    found = rounding(layers, Variant("keys", "plain", 2), Nothing(2), lags)
    assert found["logit_error"] == pytest.approx(1.0)
    for name, (low, high) in lags.items():
        picked = [s.clean[..., (s.lag > low) & (s.lag <= high)].flatten() for s in layers]
        assert float(torch.cat(picked).square().mean()) / found[f"noise_{name}"] == pytest.approx(1)
    mode = survival(layers, lags)
    assert mode["paper_mode_far"] / mode["mode_far"] == pytest.approx(HEAD_DIM)
    assert mode["split_error"] < 1e-12 and mode["paper_split_error"] < 1e-12
    uniform = [s.clean.masked_fill(s.lag < 0, -torch.inf).log_softmax(-1) for s in layers]
    kl = [
        (p.exp() * (p + (s.rows[:, None] + 1.0).log())).masked_fill(s.lag < 0, 0).sum(-1).mean()
        for p, s in zip(uniform, layers, strict=True)
    ]
    assert found["attention_kl"] == pytest.approx(float(sum(kl) / len(kl)))


def test_captured_logits_are_those_the_layer_attends_with():
    model, tokens = _model("stabilized"), _tokens(40, batch=2)
    layers = capture(model, tokens, rows=64)
    assert layers[0].rows.tolist() == list(range(1, 40))
    top, seen = model.decoder.blocks[0], layers[0]
    p = seen.clean.masked_fill(seen.lag < 0, -torch.inf).softmax(-1)
    with torch.no_grad():
        x = top.attention_norm(model.decoder.embedding(tokens))
        v = top.attention.value(x).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2).double()
        expected = top.attention(x)[:, 1:]
        mine = top.attention.out((p @ v).float().transpose(1, 2).flatten(2))
    torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-4)
    assert capture(model, _tokens(128, batch=1), rows=16)[1].rows.tolist() == list(range(7, 128, 8))


def test_keys_grow_where_the_shear_does():
    tokens = _tokens(8 * LENGTH)
    found = {m: growth(capture(_model(m, 0.1), tokens, 4))["action_growth"] for m in METHODS}
    assert found["rope"] == found["rope_trunc"] == pytest.approx(1.0, abs=1e-6)
    assert 1 < found["direct_sum_grid"] < found["exact"]
    assert 1 < found["stabilized"] < found["exact"]
    c = 1.0  # damping of the scaled form: keys 7 L later are longer by e^7
    assert found["scaled"] > 0.5 * math.exp(7 * c)


def test_a_smoke_run_is_short_shows_both_columns_and_repeats(tmp_path):
    start = time.process_time()
    first = run("cache_survival", out=tmp_path / "a", progress=False)
    assert time.process_time() - start < 12  # meant for 6 s; room for a slow machine
    method = first.rows[0]["method"]
    again = run("cache_survival", out=tmp_path / "b", only={"method": [method]}, progress=False)
    assert again.rows and again.rows == first.where(method=method).rows
    shown = report(get("cache_survival"), first)
    assert "## SNR_J, lags" in shown and "## SNR_J as the reference has it" in shown
    assert "J-K9, not tested: from one seed nothing follows" in shown
    control = {row["control_error"] for row in first.where(store="nothing").rows}
    assert max(control) < 1e-5 and 0.0 in control
