"""The phase language is what it says, its readers share what they should."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope.experiments import get, run
from pjrope.experiments.sequences.language import QUERY, lag_sampler, lag_weights, scores_of
from pjrope.experiments.sequences.linear_readers import readout_accuracy, readout_ceiling
from pjrope.experiments.sequences.methods import METHODS, learned, make_kernel
from pjrope.experiments.sequences.phase_lm import make_model, target_frequency
from pjrope.experiments.sequences.training import examine
from pjrope.kernels import RoPE
from pjrope.models import Decoder
from pjrope.positions.frequencies import geometric
from pjrope.training import stream

SETTINGS = get("phase_lm").presets["book"].settings


def test_labels_are_those_of_a_slow_loop():
    length, n, omega = 16, 40, 0.3
    tokens, labels = lag_sampler("mixed_raw", length, omega)(stream(0), 50, n)
    assert tokens.shape == (50, n) and labels.shape == (50, 1)
    assert bool((tokens[:, -1] == QUERY).all()) and bool((tokens[:, :-1] < 2).all())

    def weight(d: int) -> float:
        return d / length * math.cos(omega * d)

    norm = math.sqrt(sum(weight(d) ** 2 for d in range(1, length)))
    slow = [
        sum(weight(d) / norm * (2 * row[n - 1 - d] - 1) for d in range(1, n))
        for row in tokens.tolist()
    ]
    fast = scores_of(tokens, lag_weights("mixed_raw", n - 1, length, omega))
    assert fast.tolist() == pytest.approx(slow, abs=1e-12)
    assert labels.flatten().tolist() == [int(s > 0) for s in slow]


def test_the_score_has_unit_variance_at_the_training_length_and_more_beyond():
    weights = lag_weights("mixed_raw", 8 * 128 - 1, 128, 0.18)
    assert float(weights[:127].norm()) == pytest.approx(1.0, abs=1e-12)
    assert float(weights.norm()) > 8
    with pytest.raises(ValueError, match=r"there are .*mixed_raw"):
        lag_weights("mixed", 3, 4, 0.1)


def test_labels_are_balanced():
    _, labels = lag_sampler("mixed_raw", 32, 0.3)(stream(1), 4000, 64)
    assert abs(float(labels.double().mean()) - 0.5) < 4 * 0.5 / math.sqrt(4000)


def test_target_is_on_the_ladders_of_all_methods_but_the_direct_sum_and_the_respread_one():
    omega = target_frequency(SETTINGS)
    assert omega == pytest.approx(10_000 ** (-6 / 32))

    def has_it(name: str) -> bool:
        parts = make_kernel(name, 32, 4, 128).modules()
        ladders = [p.omega for p in parts if getattr(p, "omega", None) is not None]
        return any(
            bool(torch.isclose(w.double(), torch.tensor(omega).double()).any()) for w in ladders
        )

    lacking = {"none", "alibi", "direct_sum", "rope_respread"}
    assert {name for name in METHODS if not has_it(name)} == lacking


def test_truncated_ladder_is_rope_on_every_frequency_of_a_jordan_kernel():
    q, k = torch.randn(2, 1, 1, 9, 16, dtype=torch.float64, generator=stream(0))
    pos = torch.arange(9) * 7

    def scores(kernel):
        turned, other = kernel.rotate(q, k, pos, pos)
        return turned.double() @ other.double().mT

    plain = make_kernel("rope_trunc", 16, 1, 64)
    rope = RoPE(16, omega=geometric(16)[:4].repeat_interleave(2))
    assert list(plain.parameters()) == []
    torch.testing.assert_close(scores(plain), scores(rope), atol=1e-5, rtol=0)


def test_last_token_is_the_decoder_at_its_last_position():
    model = make_model(SETTINGS, make_kernel("stabilized", 32, 4, 128), seed=3)
    tokens, labels = lag_sampler("mixed_raw", 128, 0.18)(stream(0), 3, 70)
    whole = model.decoder(tokens)[:, -1:, :2]
    torch.testing.assert_close(model(tokens), whole, atol=1e-5, rtol=1e-5)
    seen = examine(model, tokens, labels)
    right = (whole.argmax(-1) == labels).double().mean().item()
    assert seen["accuracy"] == pytest.approx(right) and seen["sequences"] == 3
    assert seen["standard_error"] == pytest.approx(math.sqrt(right * (1 - right) / 3))


def test_all_methods_start_from_one_backbone():
    def backbone(name: str) -> dict:
        model: Decoder = make_model(SETTINGS, make_kernel(name, 32, 4, 128), seed=5).decoder
        return {n: p for n, p in model.named_parameters() if ".kernel." not in n}

    first = backbone("none")
    for name in METHODS:
        other = backbone(name)
        assert first.keys() == other.keys()
        assert all(torch.equal(first[n], other[n]) for n in first)


def test_learned_counts_shear_and_damping_at_the_training_length():
    still = learned([make_kernel("rope", 32, 4, 128)], 128)
    assert still == {"shear": 0.0, "damping": 0.0}
    made = {name: make_kernel(name, 32, 4, 128) for name in ("exact", "lag", "scaled", "damped_c1")}
    for name in ("exact", "lag", "scaled"):
        torch.nn.init.constant_(made[name].eta, -0.01)
    found = {name: learned([kernel], 128) for name, kernel in made.items()}
    assert found["exact"]["shear"] == pytest.approx(1.28)
    assert found["lag"]["shear"] == pytest.approx(0.64)
    assert found["scaled"]["shear"] == pytest.approx(0.01)
    assert found["damped_c1"]["shear"] == 0.0
    assert found["exact"]["damping"] == pytest.approx(0.0128, rel=1e-3)
    assert found["scaled"]["damping"] == found["damped_c1"]["damping"] == pytest.approx(1.0)


# Best linear read-outs at L, 2 L, 4 L, 8 L, or at L and 8 L; rounded to three digits.
READOUTS = [
    ("mixed_raw", "rope", (0.834, 0.834, 0.833, 0.833)),
    ("mixed_raw", "damped_c1", (0.746, 0.674, 0.590, 0.534)),
    ("mixed_raw", "damped_c01", (0.824, 0.815, 0.797, 0.762)),
    ("mixed_raw", "lag", (0.972, 0.956, 0.937, 0.917)),
    ("mixed_raw", "stabilized", (0.972, 0.956, 0.937, 0.917)),
    ("mixed_raw", "exact", (1.0, 1.0, 1.0, 1.0)),
    ("mixed_raw", "scaled_c1", (0.950, 0.886, 0.756, 0.610)),
    ("mixed_raw", "scaled_c01", (0.996, 0.991, 0.982, 0.961)),
    ("high_jet_r2", "rope", (0.768, 0.768)),
    ("high_jet_r2", "stabilized", (0.982, 0.927)),
    ("high_jet_r2", "lag", (0.911, 0.846)),
    ("high_jet_r2", "exact", (0.947, 0.947)),
    ("high_jet_r2", "exact_order3", (1.0, 1.0)),
    ("high_jet_r3", "exact_order3", (0.984, 0.984)),
    ("high_jet_r3", "scaled_c1", (0.840, 0.531)),
]


@pytest.mark.parametrize(("target", "name", "expected"), READOUTS)
def test_linear_readouts_score_what_the_protocol_says(target, name, expected):
    times = (1, 2, 4, 8) if len(expected) == 4 else (1, 8)
    found = [readout_ceiling(target, name, t, 1024, target_frequency(SETTINGS)) for t in times]
    assert found == pytest.approx(expected, abs=2e-3)


def test_readout_accuracy_is_the_sign_agreement_of_two_normal_sums():
    draw = stream(0)
    k, w = torch.randn(2, 200, dtype=torch.float64, generator=draw)
    signs = 2 * torch.randint(2, (200_000, 200), generator=draw).double() - 1
    agree = float(((signs @ k > 0) == (signs @ (k + w) > 0)).double().mean())
    assert readout_accuracy(k, (k + w)[:, None]) == pytest.approx(agree, abs=5e-3)
    assert readout_accuracy(k, torch.stack([k + w, w], 1)) == pytest.approx(1.0, abs=1e-6)


def test_grid_gives_every_seed_the_main_methods_and_few_seeds_the_rest():
    experiment = get("phase_lm")
    cells = experiment.grid(experiment.preset("book"), range(16))
    seeds = {m: {c.seed for c in cells if c.key["method"] == m} for m in METHODS}
    assert {m for m, s in seeds.items() if len(s) == 16} == {
        "rope",
        "rope_trunc",
        "direct_sum",
        "direct_sum_grid",
        "stabilized",
    }
    assert all(s == set(range(5)) for s in seeds.values() if len(s) < 16)


def test_smoke_learns_the_language():
    result = run("phase_lm", store=False, progress=False)
    at_length = result.where(times=1).rows
    assert {row["method"] for row in at_length} == {"rope_trunc", "stabilized"}
    assert all(row["accuracy"] > 0.75 for row in at_length), "chance is 0.5"
    assert result.where(method="stabilized", times=1).rows[0]["shear"] > 0
