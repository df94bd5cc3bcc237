"""Claim J-K9 is judged by its rule: every verdict, on made-up rows."""

from __future__ import annotations

import pytest

from pjrope.experiments.analysis.statistics import summary
from pjrope.experiments.sequences.cache_survival.claims import claim_k9, survives

WOBBLE = (-0.01, 0.0, 0.01)
CONTROLS = ("rope_trunc", "direct_sum_grid")


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
    ({"exact": 0.8} | _lost("exact", "plain", 2), "reproduced, the advantage survives down to 4"),
    ({"exact": 0.8}, "reproduced, the advantage survives down to 2 bits"),
    (
        {"exact": 0.8} | _lost("exact", "plain", 4, 2) | _lost("exact", "rotated", 2),
        "with a caveat: down to 4 bits, but in rotated coordinates alone",
    ),
    (
        {"exact": 0.8} | _lost("exact", "plain", 4, 2) | _lost("exact", "rotated", 4, 2),
        "with a caveat: only down to 8 bits",
    ),
    # A gap at 4 and 2 bits does not count when there is none at 8.
    ({"exact": 0.8} | _lost("exact", "plain", 8) | _lost("exact", "rotated", 8), "not reproduced"),
    ({"exact": 0.61}, "not decided, no trained model has an advantage"),
    # Ahead of one control alone.
    ({"exact": 0.8, "rope_trunc": 0.8}, "not decided, no trained model has an advantage"),
    # The method that goes furthest decides.
    ({"exact": 0.61, "stabilized": 0.8}, "reproduced, the advantage survives down to 2 bits"),
]


@pytest.mark.parametrize(("accuracy", "expected"), CASES)
def test_the_verdict_follows_the_rule(accuracy, expected):
    assert expected in claim_k9(_rows(accuracy))[-1]


def test_without_an_advantage_it_says_that_there_is_nothing_to_survive():
    said = claim_k9(_rows({}))
    assert said[0].startswith("exact has no advantage over rope_trunc and direct_sum_grid")
    assert "(+0.000" in said[0] and said[0].endswith("there is nothing to survive.")
    assert said[1].startswith("stabilized has no advantage")


def test_it_is_judged_at_the_longest_exam_with_an_advantage():
    said = claim_k9(_rows({}, exact=0.8))
    assert said[0].startswith("At 4 L exact is ahead") and "reproduced" in said[-1]
    assert claim_k9(_rows({"exact": 0.7}, exact=0.8))[0].startswith("At 8 L exact is ahead")


@pytest.mark.parametrize(
    ("rounded", "expected"),
    [((0.19, 0.2, 0.21), True), ((0.16, 0.17, 0.18), False), ((0.0, 0.2, 0.4), False)],
)
def test_survival_needs_a_resolved_advantage_that_lost_at_most_the_smallest_effect(
    rounded, expected
):
    assert survives(summary((0.205, 0.21, 0.215)), summary(rounded)) is expected


def test_a_small_advantage_must_still_exceed_the_smallest_effect():
    clean = summary((0.039, 0.04, 0.041))
    assert survives(clean, summary((0.034, 0.035, 0.036)))
    assert not survives(clean, summary((0.024, 0.025, 0.026)))


def test_the_drop_is_that_of_the_advantage_and_not_of_the_accuracy():
    """Both sides lose 0.2 to rounding: the advantage is what it was."""
    both = {("exact", b, 2): 0.6 for b in ("plain", "rotated")}
    controls = {(c, b, 2): 0.4 for c in CONTROLS for b in ("plain", "rotated")}
    said = claim_k9(_rows({"exact": 0.8} | both | controls))
    assert "survives 2 bits and more in plain" in said[0]


def test_use_and_correlation_are_told_where_they_were_measured():
    rows = _rows({"exact": 0.8})
    for row in rows:
        if row["method"] == "exact" and row["basis"] == "plain":
            row["unsheared_x8"] = row["accuracy_x8"] - (0.2 if row["bits"] else 0.3)
            row |= {"snr_far": 10.0 ** row["bits"], "drop_x8": -0.01 * row["bits"]}
    said = " ".join(claim_k9(rows))
    assert "+0.300 ± 0.000 unrounded, +0.200 ± 0.000 at 8 bits, " in said
    assert "exact: Pearson's r of log SNR_J" in said and "-1.00 ± 0.00" in said
    assert "stabilized: Pearson" not in said


def test_parts_of_the_grid_and_one_seed_give_no_verdict():
    assert claim_k9([r for r in _rows({"exact": 0.8}) if r["method"] != "rope_trunc"]) == []
    assert claim_k9([r for r in _rows({}) if r["method"] in CONTROLS]) == []
    (said,) = claim_k9(_rows({"exact": 0.8}, seeds=1))
    assert "Claim J-K9: not tested" in said


def _without(rows: list[dict], **where) -> list[dict]:
    return [r for r in rows if not all(r[k] == v for k, v in where.items())]


@pytest.mark.parametrize("method", ["exact", "stabilized", *CONTROLS])
def test_without_rounded_rows_of_both_bases_nothing_was_tried(method):
    rows = _rows({"exact": 0.8})
    for lost in ({}, {"basis": "rotated"}, {"basis": "rotated", "method": method}, {"bits": 4}):
        (said,) = claim_k9(_without(rows, store="keys, values", **{"method": method, **lost}))
        assert "rounded keys and values" in said and said.endswith("Claim J-K9: not tested.")
    (said,) = claim_k9([r for r in rows if r["store"] == "nothing"])
    assert said.endswith("Claim J-K9: not tested.")
    assert claim_k9(_without(rows, store="nothing", method=method)) == []


@pytest.mark.parametrize("method", ["exact", *CONTROLS])
@pytest.mark.parametrize("place", [{}, {"bits": 4}, {"basis": "rotated"}, {"store": "nothing"}])
def test_fewer_than_two_seeds_of_a_needed_row_are_not_tested(method, place):
    rows = _rows({"exact": 0.8})
    for lost in ((1, 2), (0, 1)):
        left = rows
        for seed in lost:
            left = _without(left, method=method, seed=seed, **place)
        (said,) = claim_k9(left)
        assert said.startswith("From one seed") and said.endswith("Claim J-K9: not tested.")
    apart = [r for r in rows if (r["method"] == method) == (r["seed"] == 2)]
    assert "From one seed" in claim_k9(apart)[0]


def test_a_method_without_the_mode_may_be_left_out():
    rows = _without(_rows({"exact": 0.8}), method="stabilized")
    assert claim_k9(rows)[-1].startswith("Claim J-K9: reproduced")


@pytest.mark.parametrize("place", [{"bits": 4}, {"store": "nothing", "seed": 0}])
def test_an_accuracy_that_is_not_finite_is_named_and_decides_nothing(place):
    rows = _rows({"exact": 0.8})
    for row in rows:
        if row["method"] == "exact" and all(row[k] == v for k, v in place.items()):
            row["accuracy_x8"] = None
    (said,) = claim_k9(rows)
    assert said == "Accuracies of exact are not all finite. Claim J-K9: not tested."


def test_use_and_correlation_pass_on_what_is_not_finite():
    rows = _rows({"exact": 0.8})
    for row in rows:
        if row["method"] == "exact":
            lost = row["seed"] == 1
            row["unsheared_x8"] = None if lost else 0.5
            row |= {"snr_far": 10.0 ** row["bits"], "drop_x8": None}
    said = " ".join(claim_k9(rows))
    assert "not finite for 1 of 3 seeds unrounded" in said and "Pearson" not in said
    assert "Claim J-K9: reproduced" in said
