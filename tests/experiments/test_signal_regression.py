"""The filter is the sum it says, magnitudes survive the input map, and a training can resume."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import mse_loss

from pjrope.experiments import get, run
from pjrope.experiments.sequences.language import lag_weights
from pjrope.experiments.sequences.signal_regression import (
    TARGETS,
    filtered,
    make_model,
    score,
    signal_sampler,
)
from pjrope.training import CheckpointError, TrainConfig, stream, train

SMOKE = get("signal_regression").presets["smoke"].settings
LENGTH, OMEGA = 16, 0.4


def _weight(name: str, d: int) -> float:
    x, phase = d / LENGTH, OMEGA * d
    if name == "seasonal_trend":
        return (0.35 + 0.9 * x) * math.cos(phase) + 0.25 * math.sin(phase)
    return math.exp(-1e-4 * d) * (math.cos(phase) + 0.75 * x * math.sin(phase))


@pytest.mark.parametrize("name", TARGETS)
def test_output_is_that_of_a_slow_loop(name):
    n = 40
    x, y = signal_sampler(name, LENGTH, OMEGA)(stream(0), 2, n)
    assert x.shape == y.shape == (2, n, 1) and x.dtype == y.dtype == torch.float32
    norm = math.sqrt(sum(_weight(name, d) ** 2 for d in range(1, LENGTH)))
    for signal, output in zip(x[..., 0].tolist(), y[..., 0].tolist(), strict=True):
        slow = [
            sum(_weight(name, d) / norm * signal[i - d] for d in range(1, i + 1)) for i in range(n)
        ]
        assert output == pytest.approx(slow, abs=1e-5)
        assert output[0] == 0, "no past yet"


def test_filter_sees_the_past_alone():
    weights = lag_weights("seasonal_trend", 19, LENGTH, OMEGA)
    x = torch.randn(1, 20, generator=stream(1))
    late = x.clone()
    late[:, 12:] += 1
    same = filtered(x, weights)[:, :13] == filtered(late, weights)[:, :13]
    assert bool(same.all()) and filtered(x, weights)[0, 13] != filtered(late, weights)[0, 13]


def test_an_affine_input_map_lets_magnitudes_through_the_first_norm_and_a_linear_one_signs_alone():
    x = torch.tensor([[[0.2], [1.0], [3.0], [-1.0]]])
    for affine in (True, False):
        model = make_model(SMOKE, "rope_trunc", affine, seed=0)
        seen = model.blocks[0].attention_norm(model.embedding(x))[0]
        assert torch.allclose(seen[0], seen[2], atol=1e-3) is not affine
        assert not torch.allclose(seen[1], seen[3], atol=1e-3)


def test_methods_share_input_map_and_backbone():
    one, two = (make_model(SMOKE, name, True, seed=4) for name in ("rope_trunc", "stabilized"))
    other = dict(two.named_parameters())
    shared = {n: p for n, p in one.named_parameters() if ".kernel." not in n}
    assert "embedding.bias" in shared
    assert all(torch.equal(p, other[n]) for n, p in shared.items())


def test_r2_is_one_less_the_error_over_the_variance():
    model = torch.nn.Linear(1, 1)
    x, y = torch.randn(2, 8, 50, 1, generator=stream(0))
    found = score(model, x, y)
    error = (model(x) - y).square().mean().item()
    assert found["mse"] == pytest.approx(error, rel=1e-5)
    assert found["r2"] == pytest.approx(1 - error / y.var(correction=0).item(), rel=1e-4)


def test_a_killed_regression_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    sample = signal_sampler("seasonal_trend", 32, OMEGA)
    config = TrainConfig(steps=9, batch=2, length=32, checkpoint_every=3, log_every=3)

    def fresh():
        return make_model(SMOKE, "stabilized", True, seed=1)

    whole = fresh()
    train(whole, sample, config, seed=1, progress=False, loss=mse_loss)
    drawn = []

    def dying(generator, batch, length):
        drawn.append(length)
        if len(drawn) == 6:
            raise KeyboardInterrupt
        return sample(generator, batch, length)

    with pytest.raises(KeyboardInterrupt):
        train(fresh(), dying, config, seed=1, out=tmp_path, progress=False, loss=mse_loss)
    again = fresh()
    result = train(again, sample, config, seed=1, out=tmp_path, progress=False, loss=mse_loss)
    assert result.resumed_from == 3
    pairs = zip(whole.state_dict().values(), again.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    with pytest.raises(CheckpointError, match="loss was 'mse_loss', is 'l1_loss'"):
        train(fresh(), sample, config, seed=1, out=tmp_path, loss=torch.nn.functional.l1_loss)


def test_smoke_learns_the_filter():
    result = run("signal_regression", store=False, progress=False)
    at_length = result.where(times=1).rows
    assert {r["method"] for r in at_length} == {"rope_trunc", "stabilized"}
    assert all(r["r2"] > 0.5 for r in at_length), "the mean alone has R² = 0"
