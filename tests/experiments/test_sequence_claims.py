"""Claims J-K2, J-K4 and J-K5 are judged by their rules: every outcome, on made-up rows."""

from __future__ import annotations

import re

import pytest

from pjrope.experiments import load
from pjrope.experiments.engine.result import Result
from pjrope.experiments.sequences.claims import JETS, claim_k2, claim_k4, claim_k5, trained
from pjrope.experiments.sequences.training import decoder, parameters
from pjrope.kernels import NoPE

CARD = {"settings": {"width": 8, "heads": 1, "layers": 1, "length": 128, "lengths": [128, 1024]}}
WOBBLE = (-0.01, 0.0, 0.01, 0.005)


def _result(
    levels: dict[str, float], value: str = "accuracy", wobble: float = 1.0, **more
) -> Result:
    """Rows at L and at 8 L; wobbles differ between methods, so that differences have a spread."""
    rows = [
        {"method": m, "seed": s, "length": 128 * times, "times": times, "train_loss": 0.2}
        | {"shear": 1.5 if m == "stabilized" else 0.0, **more}
        | {value: a + wobble * WOBBLE[(s + i) % 4]}
        for i, (m, a) in enumerate(levels.items())
        for s in range(4)
        for times in (1, 8)
    ]
    return Result(rows, CARD)


LEVELS = {
    "stabilized": 0.9,
    "rope": 0.7,
    "direct_sum": 0.6,
    "rope_trunc": 0.7,
    "direct_sum_grid": 0.7,
}


@pytest.mark.parametrize(
    ("changes", "wobble", "outcome", "because"),
    [
        ({}, 1, "reproduced", "and the controls"),
        ({"rope_trunc": 0.9}, 0.1, "reproduced in part", r"stabilized - rope_trunc: equal"),
        ({"rope_trunc": 0.9}, 8, "undecided", "stabilized - rope.* not resolved by 4 seeds"),
        ({"rope": 0.95}, 0.1, "not at this scale", "stabilized - rope: worse"),
        ({"direct_sum": 0.9}, 0.1, "not at this scale", "stabilized - direct_sum: equal"),
    ],
)
def test_claim_k4_where_the_coupling_is_applied(changes, wobble, outcome, because):
    verdict = claim_k4(_result({**LEVELS, **changes}, wobble=wobble))
    assert verdict.outcome == outcome
    assert re.search(because, verdict.because)
    names = [f.name for f in verdict.evidence.findings]
    assert "learned shear over L" in names and "direct_sum_grid - direct_sum" in names


def test_claim_k4_is_not_tested_where_the_shear_stays_small_and_says_what_is_known():
    result = _result({**LEVELS, "rope_trunc": 0.9, "rope": 0.9})
    for row in result.rows:
        row["shear"] = 0.11 if row["method"] == "stabilized" else 0.0
    verdict = claim_k4(result)
    assert verdict.outcome == "not tested" and "over L is 0.110, and below 1" in verdict.because
    assert "no gain over the truncated grid" in verdict.because
    assert "+0.125 over RoPE is excluded" in verdict.because
    gained = claim_k4(Result([{**r, "shear": 0.1} for r in _result(LEVELS).rows], CARD))
    assert gained.outcome == "not tested" and "excluded" not in gained.because


def test_claim_k4_needs_its_grid_and_three_trained_seeds():
    verdict = claim_k4(_result({m: LEVELS[m] for m in ("stabilized", "rope_trunc")}))
    assert verdict.outcome == "not tested"
    assert "of rope, direct_sum and direct_sum_grid" in verdict.because
    lost = _result(LEVELS)
    for row in lost.rows:
        if row["method"] == "rope_trunc" and row["seed"] < 2:
            row["train_loss"] = 0.8
    verdict = claim_k4(lost)
    assert verdict.outcome == "not tested" and "of rope_trunc" in verdict.because
    assert verdict.evidence.excluded[0].runs == ("rope_trunc seed 0", "rope_trunc seed 1")
    assert verdict.evidence.excluded[0].of == 20
    assert "no trained run" in claim_k4(_result({"rope": 0.8})).because


def test_the_records_say_of_k4_what_the_audit_found():
    book, mid = (claim_k4(load(name)) for name in ("phase_lm", "phase_lm/mid"))
    assert book.outcome == mid.outcome == "not tested"
    assert "0.110" in book.because and "excluded at this scale" in book.because
    assert mid.evidence.excluded[0].runs == ("rope_trunc seed 1",)
    found = {f.name: f for f in book.evidence.findings}
    assert found["rope_trunc - rope"].word == "unresolved"
    assert found["direct_sum_grid - direct_sum"].word == "better"


ORDERS = ("order1", "order1_damped", "order2", "order3", "order4")


def _jets(accuracies: tuple[float, ...], wobble: float = 1.0) -> Result:
    levels = dict(zip(ORDERS, accuracies, strict=True))
    rows = [row for t in JETS for row in _result(levels, wobble=wobble, target=t).rows]
    return Result(rows, CARD)


@pytest.mark.parametrize(
    ("accuracies", "wobble", "outcome"),
    [
        ((0.5, 0.5, 0.6, 0.75, 0.9), 0.5, "reproduced"),
        ((0.6, 0.6, 0.8, 0.8, 0.8), 0.1, "reproduced in part"),
        ((0.6, 0.8, 0.8, 0.8, 0.8), 0.1, "not at this scale"),
        ((0.6, 0.8, 0.8, 0.8, 0.8), 10, "undecided"),
    ],
)
def test_claim_k5(accuracies, wobble, outcome):
    verdict = claim_k5(_jets(accuracies, wobble))
    assert verdict.outcome == outcome
    names = [f.name for f in verdict.evidence.findings]
    assert names[:2] == ["order3 - order1_damped, r = 2", "order4 - order1_damped, r = 3"]
    assert len(names) == 7


def test_claim_k5_needs_every_order_and_counts_what_never_trained():
    rows = _jets((0.6, 0.6, 0.7, 0.8, 0.9)).rows
    some = Result([r for r in rows if r["method"] != "order2"], CARD)
    assert claim_k5(some).outcome == "not tested"
    assert claim_k5(load("jet_lm")).outcome == "undecided"
    assert len(claim_k5(load("jet_lm")).evidence.excluded[0].runs) == 2


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "reproduced"),
        ({"rope_trunc": 0.9}, "reproduced in part"),
        ({"rope": 0.9}, "not at this scale"),
    ],
)
def test_claim_k2_of_a_trained_filter(changes, outcome):
    levels = {**LEVELS, **changes}
    parts = [_result(levels, "r2", 0.1, target=t, input="affine") for t in ("a", "b")]
    verdict = claim_k2(Result([r for part in parts for r in part.rows], CARD))
    assert verdict.outcome == outcome and len(verdict.evidence.findings) == 9


def test_claim_k2_takes_out_what_learned_nothing():
    result = _result(LEVELS, "r2", target="a", input="affine")
    for row in result.rows:
        if row["method"] == "rope" and row["seed"] < 2 and row["times"] == 1:
            row["r2"] = -0.1
    verdict = claim_k2(result)
    assert verdict.outcome == "not tested"
    assert claim_k2(load("signal_regression")).outcome == "not at this scale"


def test_a_loss_above_a_coins_disqualifies_all_rows_of_a_run():
    result = _result({"rope": 0.7})
    for row in result.rows:
        row["train_loss"] = 0.694 if row["seed"] == 1 else 0.692
    kept, out = trained(result)
    assert {row["seed"] for row in kept.rows} == {0, 2, 3} and len(kept.rows) == 6
    assert out.runs == ("rope seed 1",) and out.of == 4


def test_parameters_are_those_of_the_backbone():
    settings = {**CARD["settings"], "width": 16, "layers": 3}
    model = decoder(settings, NoPE(), 3, seed=0)
    assert parameters(settings, 3) == sum(p.numel() for p in model.parameters())
