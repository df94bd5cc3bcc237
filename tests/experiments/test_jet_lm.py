"""The jet language: one set of frequencies for all orders, targets as said."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope.experiments import get, run
from pjrope.experiments.sequences.jet_lm import METHODS, TARGETS, frequencies, make_kernel
from pjrope.experiments.sequences.language import lag_sampler
from pjrope.experiments.sequences.phase_lm import target_frequency
from pjrope.positions.frequencies import geometric
from pjrope.training import stream

SETTINGS = get("jet_lm").presets["book"].settings
HEAD_DIM, LENGTH = 48, 128


def _scores(kernel, seed: int = 0) -> torch.Tensor:
    q, k = torch.randn(2, 1, 2, 5, HEAD_DIM, generator=stream(seed))
    pos = torch.arange(5) * 9
    turned, other = kernel.rotate(q, k, pos, pos)
    return turned @ other.mT


def test_every_order_has_the_same_two_frequencies():
    ladder = geometric(HEAD_DIM)
    expected = sorted(float(ladder[SETTINGS[name]]) for name in ("target_index", "other_index"))
    assert target_frequency(SETTINGS) in expected
    for method in METHODS:
        omega = make_kernel(method, SETTINGS).omega
        values, counts = omega.double().unique(return_counts=True)
        assert values.tolist() == pytest.approx(expected)
        assert len(set(counts.tolist())) == 1, "as many blocks of one as of the other"


def test_both_frequencies_are_on_the_ladder_that_the_paper_leaves_to_order_4():
    left = HEAD_DIM // (2 * 4)
    assert max(SETTINGS["target_index"], SETTINGS["other_index"]) < left
    with pytest.raises(ValueError, match="use a multiple of 16"):
        frequencies(HEAD_DIM + 8, 4, (3, 5))


def test_the_damped_twin_is_every_order_without_shear():
    twin = _scores(make_kernel("order1_damped", SETTINGS))
    for method in ("order2", "order3", "order4"):
        kernel = make_kernel(method, SETTINGS)
        assert not torch.allclose(_scores(kernel), twin, atol=1e-3)
        torch.nn.init.zeros_(kernel.eta)
        torch.testing.assert_close(_scores(kernel), _scores(_twin(kernel)), atol=1e-4, rtol=1e-4)


def _twin(kernel):
    """`order1_damped` with the frequencies in the order in which this kernel's blocks hold them."""
    from pjrope.kernels import DampedRoPE

    omega = kernel.omega.double().repeat_interleave(kernel.order)
    return DampedRoPE(HEAD_DIM, SETTINGS["heads"], LENGTH, c=SETTINGS["damping"], omega=omega)


@pytest.mark.parametrize(("target", "power"), TARGETS.items())
def test_labels_are_those_of_a_slow_loop_and_balanced(target, power):
    length, n, omega = 16, 50, 0.3
    tokens, labels = lag_sampler(target, length, omega)(stream(0), 2000, n)
    for row, label in zip(tokens[:40].tolist(), labels[:40].flatten().tolist(), strict=True):
        score = sum(
            (d / length) ** power
            * math.exp(-0.1 * d / length)
            * math.cos(omega * d)
            * (2 * row[n - 1 - d] - 1)
            for d in range(1, n)
        )
        assert label == int(score > 0)
    assert abs(float(labels.double().mean()) - 0.5) < 4 * 0.5 / math.sqrt(2000)


def test_smoke_runs_and_learns():
    result = run("jet_lm", store=False, progress=False)
    at_length = result.where(times=1).rows
    assert {r["method"] for r in at_length} == {"order1", "order1_damped", "order3"}
    assert all(r["accuracy"] > 0.75 for r in at_length), "chance is 0.5"
    shear = {r["method"]: r["shear"] for r in at_length}
    assert shear["order1"] == shear["order1_damped"] == 0 < shear["order3"]
