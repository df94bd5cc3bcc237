"""The byte models: methods are what they are called, and share what they should share."""

from __future__ import annotations

import pytest
import torch

from pjrope.experiments import get, run
from pjrope.experiments.byte_lm import LONG_TRAININGS, TRAININGS, make_kernel, make_model
from pjrope.experiments.order_toy import bag_ceiling, needle_batch, order_batch
from pjrope.kernels import Affine, ALiBi, NoPE, RoPE
from pjrope.positions import NTK

SETTINGS = get("byte_lm/baselines").presets["smoke"].settings


def test_methods_are_what_they_are_called():
    made = {m: make_kernel(m, 8, 2, 64) for group in TRAININGS for m in group}
    assert set(made) == {"none", "rope", "rope_ntk", "alibi", "rope_alibi", "affine"}
    assert isinstance(made["none"], NoPE) and isinstance(made["affine"], Affine)
    assert isinstance(made["alibi"], ALiBi)
    assert isinstance(made["rope"], RoPE) and made["rope"].extension is None
    assert made["rope_ntk"].extension == NTK(length=64)
    assert [type(p) for p in made["rope_alibi"].parts] == [RoPE, ALiBi]


def test_methods_that_share_a_training_share_its_weights():
    for methods in TRAININGS:
        first = make_model(methods[0], SETTINGS, 16, seed=1)
        for other in methods[1:]:
            make_model(other, SETTINGS, 16, seed=2).load_state_dict(first.state_dict(), strict=True)


@pytest.fixture(scope="module")
def smoke():
    return run("byte_lm/baselines", only={"method": "rope"}, store=False, progress=False)


def test_smoke_trains_and_ntk_equals_rope_at_the_training_length(smoke):
    loss = {(r["method"], r["length"]): r["loss"] for r in smoke.rows}
    length = SETTINGS["length"]
    assert loss["rope", length] == pytest.approx(loss["rope_ntk", length], abs=1e-6)
    assert loss["rope", 4 * length] != pytest.approx(loss["rope_ntk", 4 * length], abs=1e-3)
    assert loss["rope", length] < 2.2, "uniform guessing costs 2.77 nats"
    assert smoke.card["data"][0]["name"] == "toy_language"


def test_long_trains_as_baselines_does_and_reads_further(smoke):
    result = run("byte_lm/long", only={"method": "rope"}, store=False, progress=False)
    many, far = (result.where(windows=name).rows for name in ("many", "far"))
    want = smoke.where(method="rope").rows
    assert [row["length"] for row in many] == [row["length"] for row in want]
    assert [row["segments"] for row in many] == [row["segments"] for row in want]
    chosen = get("byte_lm/long").presets["smoke"].settings["far"]
    assert [row["length"] for row in far] == list(chosen["lengths"])
    assert all(len(row["segments"]) == chosen["segments"] for row in far)
    assert max(chosen["lengths"]) > max(SETTINGS["lengths"])


def test_long_and_baselines_train_alike_in_the_book():
    settings = {
        name: {
            key: value
            for key, value in get(f"byte_lm/{name}").presets["book"].settings.items()
            if key != "far"
        }
        for name in ("long", "baselines")
    }
    assert settings["long"] == settings["baselines"]
    assert {m for cell in LONG_TRAININGS for m in cell} == {"none", "rope", "alibi", "rope_alibi"}
    assert max(get("byte_lm/long").presets["book"].settings["far"]["lengths"]) == 32_768


def test_order_toy_asks_what_it_says():
    generator = torch.Generator().manual_seed(0)
    x, y = order_batch(generator, 4, 9, lag=3)
    assert torch.equal(y[:, 3:], x[:, :-3]) and bool((y[:, :3] == -100).all())
    x, y = needle_batch(generator, 50, 9)
    marked = (x >= 16) & (x < 32)
    assert bool((marked.sum(1) == 1).all()) and bool((x[:, -1] == 32).all())
    assert torch.equal(x[marked] - 16, y[:, -1])
    # Of 1, 1, 2 before the only scored step, guessing 1 is right two times in three.
    assert bag_ceiling(torch.tensor([[1, 1, 2, 5]]), lag=3) == pytest.approx(2 / 3)
