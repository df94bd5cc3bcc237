"""Claim J-K9 is judged by its rule: every verdict, on made-up rows."""

from __future__ import annotations

import pytest

from pjrope.experiments.analysis.claims import Finding
from pjrope.experiments.analysis.statistics import summary
from pjrope.experiments.engine.result import Result
from pjrope.experiments.sequences.cache_survival.claims import claim_k9, survives

WOBBLE = (-0.01, 0.0, 0.01)
CONTROLS = ("rope_trunc", "direct_sum_grid")
CARD = {"settings": {"width": 8, "heads": 1, "layers": 1, "length": 16}}


def _judge(rows: list[dict]):
    return claim_k9(Result(rows, CARD))


def _names(rows: list[dict]) -> list[str]:
    return [f.name for f in _judge(rows).evidence.findings]


def _rows(accuracy: dict, seeds: int = 3, **near: float) -> list[dict]:
    """Rows from (method, basis, bits) → accuracy at 8 L; controls are at 0.6 where not given.

    Near, at 4 L, every coupled method has the accuracy ``near`` says, however rounded.
    """
    rows = []
    for method in (*CONTROLS, "stabilized", "exact"):
        for basis, bits in (
            ("plain", 0),
            *((b, n) for b in ("plain", "rotated") for n in (8, 4, 2)),
        ):
            far = accuracy.get(
                (method, basis, bits), accuracy.get((method, basis), accuracy.get(method, 0.6))
            )
            for seed in range(seeds):
                wobble = WOBBLE[seed] * (1 if method in CONTROLS else 0.5)
                rows.append(
                    {
                        **{"method": method, "seed": seed, "basis": basis, "bits": bits},
                        "store": "keys, values" if bits else "nothing",
                        "accuracy_x4": near.get(method, 0.6) + wobble,
                        "accuracy_x8": far + wobble,
                    }
                )
    return rows


def _lost(method: str, basis: str, *bits: int) -> dict:
    """At these bits the method falls to the controls."""
    return {(method, basis, b): 0.6 for b in bits}


CASES = [
    ({"exact": 0.8} | _lost("exact", "plain", 2), "reproduced", "down to 4 bits"),
    ({"exact": 0.8}, "reproduced", "down to 2 bits"),
    (
        {"exact": 0.8} | _lost("exact", "plain", 4, 2) | _lost("exact", "rotated", 2),
        "reproduced in part",
        "down to 4 bits in rotated coordinates alone",
    ),
    (
        {"exact": 0.8} | _lost("exact", "plain", 4, 2) | _lost("exact", "rotated", 4, 2),
        "reproduced in part",
        "down to 8 bits only",
    ),
    # A gap at 4 and 2 bits does not count when there is none at 8.
    (
        {"exact": 0.8} | _lost("exact", "plain", 8) | _lost("exact", "rotated", 8),
        "contradicted",
        "survives no rounding",
    ),
    ({"exact": 0.61}, "undecided", "nothing to survive"),
    # Ahead of one control alone.
    ({"exact": 0.8, "rope_trunc": 0.8}, "undecided", "nothing to survive"),
    # The method that goes furthest decides.
    ({"exact": 0.61, "stabilized": 0.8}, "reproduced", "down to 2 bits"),
]


@pytest.mark.parametrize(("accuracy", "outcome", "because"), CASES)
def test_the_verdict_follows_the_rule(accuracy, outcome, because):
    verdict = _judge(_rows(accuracy))
    assert verdict.outcome == outcome and because in verdict.because


def test_without_a_lead_the_longest_exam_is_shown():
    names = _names(_rows({}))
    assert names == [
        f"{m} - {c} at 8 L, unrounded" for m in ("exact", "stabilized") for c in CONTROLS
    ]


def test_it_is_judged_at_the_longest_exam_with_a_lead():
    assert _names(_rows({}, exact=0.8))[0] == "exact - rope_trunc at 4 L, unrounded"
    assert _names(_rows({"exact": 0.7}, exact=0.8))[0] == "exact - rope_trunc at 8 L, unrounded"


def _finding(values) -> Finding:
    return Finding("", summary(values), 0.03)


@pytest.mark.parametrize(
    ("rounded", "expected"),
    [((0.19, 0.2, 0.21), True), ((0.16, 0.17, 0.18), False), ((0.0, 0.2, 0.4), False)],
)
def test_survival_needs_a_resolved_lead_that_lost_at_most_the_smallest_effect(rounded, expected):
    assert survives(_finding((0.205, 0.21, 0.215)), _finding(rounded)) is expected


def test_a_small_lead_must_still_exceed_the_smallest_effect():
    clean = _finding((0.039, 0.04, 0.041))
    assert survives(clean, _finding((0.034, 0.035, 0.036)))
    assert not survives(clean, _finding((0.024, 0.025, 0.026)))


def test_the_drop_is_that_of_the_lead_and_not_of_the_accuracy():
    """Both sides lose 0.2 to rounding: the lead is what it was."""
    both = {("exact", b, 2): 0.6 for b in ("plain", "rotated")}
    controls = {(c, b, 2): 0.4 for c in CONTROLS for b in ("plain", "rotated")}
    verdict = _judge(_rows({"exact": 0.8} | both | controls))
    assert "exact - rope_trunc at 8 L, 2 bits, plain" in [f.name for f in verdict.evidence.findings]
    assert verdict.because == "the lead survives down to 2 bits"


def test_use_and_correlation_are_told_where_they_were_measured():
    rows = _rows({"exact": 0.8})
    for row in rows:
        if row["method"] == "exact" and row["basis"] == "plain":
            row["unsheared_x8"] = row["accuracy_x8"] - (0.2 if row["bits"] else 0.3)
            row |= {"snr_far": 10.0 ** row["bits"], "drop_x8": -0.01 * row["bits"]}
    found = {f.name: f.text() for f in _judge(rows).evidence.findings}
    worth = "accuracy that its shear is worth to exact at 8 L, "
    assert "0.300 ± 0.000" in found[f"{worth}unrounded"]
    assert "0.200 ± 0.000" in found[f"{worth}8 bits"]
    told = "Pearson's r of log SNR_J at far lags and the fall at 8 L, "
    assert "-1.00 ± 0.00" in found[f"{told}exact"] and f"{told}stabilized" not in found


def _untested(rows: list[dict]) -> str:
    verdict = _judge(rows)
    assert verdict.outcome == "not tested"
    return verdict.because


def test_parts_of_the_grid_and_one_seed_give_no_verdict():
    rows = _rows({"exact": 0.8})
    assert "both controls" in _untested([r for r in rows if r["method"] != "rope_trunc"])
    assert "a coupled method" in _untested([r for r in _rows({}) if r["method"] in CONTROLS])
    assert "from one seed" in _untested(_rows({"exact": 0.8}, seeds=1))


def _without(rows: list[dict], **where) -> list[dict]:
    return [r for r in rows if not all(r[k] == v for k, v in where.items())]


@pytest.mark.parametrize("method", ["exact", "stabilized", *CONTROLS])
def test_without_rounded_rows_of_both_bases_nothing_was_tried(method):
    rows = _rows({"exact": 0.8})
    for lost in ({}, {"basis": "rotated"}, {"basis": "rotated", "method": method}, {"bits": 4}):
        left = _without(rows, store="keys, values", **{"method": method, **lost})
        assert "rounded keys and values" in _untested(left)
    assert "rounded keys" in _untested([r for r in rows if r["store"] == "nothing"])
    if method in CONTROLS:
        assert "unrounded" in _untested(_without(rows, store="nothing", method=method))


@pytest.mark.parametrize("method", ["exact", *CONTROLS])
@pytest.mark.parametrize("place", [{}, {"bits": 4}, {"basis": "rotated"}, {"store": "nothing"}])
def test_fewer_than_two_seeds_of_a_needed_row_are_not_tested(method, place):
    rows = _rows({"exact": 0.8})
    for lost in ((1, 2), (0, 1)):
        left = rows
        for seed in lost:
            left = _without(left, method=method, seed=seed, **place)
        assert _untested(left).startswith("from one seed")
    apart = [r for r in rows if (r["method"] == method) == (r["seed"] == 2)]
    assert "from one seed" in _untested(apart)


def test_a_method_without_the_mode_may_be_left_out():
    rows = _without(_rows({"exact": 0.8}), method="stabilized")
    assert _judge(rows).outcome == "reproduced"


@pytest.mark.parametrize("place", [{"bits": 4}, {"store": "nothing", "seed": 0}])
def test_an_accuracy_that_is_not_finite_is_named_and_decides_nothing(place):
    rows = _rows({"exact": 0.8})
    for row in rows:
        if row["method"] == "exact" and all(row[k] == v for k, v in place.items()):
            row["accuracy_x8"] = None
    assert _untested(rows) == "accuracies of exact are not all finite"


def test_use_and_correlation_pass_on_what_is_not_finite():
    rows = _rows({"exact": 0.8})
    for row in rows:
        if row["method"] == "exact":
            row["unsheared_x8"] = None if row["seed"] == 1 else 0.5
            row |= {"snr_far": 10.0 ** row["bits"], "drop_x8": None}
    verdict = _judge(rows)
    told = verdict.evidence.text()
    assert "unrounded not finite for 1 of 3 seeds" in told and "Pearson" not in told
    assert verdict.outcome == "reproduced"


def test_runs_that_never_trained_are_taken_out_and_counted():
    rows = _rows({"exact": 0.8})
    for row in rows:
        row["train_loss"] = 0.9 if (row["method"], row["seed"]) == ("exact", 2) else 0.3
    verdict = _judge(rows)
    assert verdict.evidence.excluded[0].runs == ("exact seed 2",)
    assert verdict.outcome == "reproduced"
