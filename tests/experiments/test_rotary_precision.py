"""Precision of rotary kernels far out, and the rule of P-R1."""

from __future__ import annotations

import pytest

from pjrope.experiments import Result
from pjrope.experiments.codes import rotary_precision
from pjrope.experiments.codes.rotary_precision import precision
from pjrope.experiments.codes.rounding_claims import (
    KERNELS,
    TYPES,
    rotary_claim,
    rotary_sentences,
)

SETTINGS = {"block": 2, "keys": 512, "length": 512}


def test_absolute_positions_lose_the_lag_in_bf16_and_a_near_origin_keeps_it():
    far, near = (precision("pj_rotary", 32767, "bf16", r, SETTINGS, 0) for r in ("paper", "fair"))
    # Protocol of PJ-RoPE, T16: scores of 4 to 8 off by 3.8 to 6.8, a query of 5 grown to 229.
    assert 1 < far["absolute"] < 20 and far["error"] > 0.1
    assert 100 < far["q_norm"] < 400 and near["q_norm"] < 8
    assert near["error"] < 0.05


def test_the_law_is_exact_in_fp64_and_grows_worse_with_position_in_fp32():
    errors = [
        precision("pj_rotary", p, "fp32", "paper", SETTINGS, 0)["error"] for p in (4096, 1 << 20)
    ]
    assert errors[1] > 10 * errors[0]
    assert precision("pj_rotary", 1 << 20, "fp64", "paper", SETTINGS, 0)["error"] < 1e-9


@pytest.mark.parametrize("method", ["rope", "pj_rotary", "pj_rotary_3", "jordan_scaled"])
def test_attend_keeps_the_law_a_million_tokens_out(method):
    assert precision(method, 1 << 20, "fp32", "attend", SETTINGS, 0)["error"] < 1e-4


def test_the_stabilised_form_is_not_relative_whatever_the_type():
    assert precision("jordan_stabilized", 1 << 20, "fp64", "paper", SETTINGS, 0)["error"] > 0.1


@pytest.mark.parametrize("route", ["paper", "fair"])
def test_only_keys_that_a_query_sees_count(route, monkeypatch):
    """Scores of later keys that are wrong by 1e6 leave every number as it is."""
    plain = precision("rope", 32767, "fp32", route, SETTINGS, 0)
    scores = rotary_precision._scores

    def wrong(kernel, q, k, q_pos, k_pos, number):
        found, *rows = scores(kernel, q, k, q_pos, k_pos, number)
        later = k_pos > q_pos[:, None]
        assert int(later.sum()) == 1  # of a block of two, the first query's
        return (found + 1e6 * later * (1 if number == TYPES["fp32"] else -1), *rows)

    monkeypatch.setattr(rotary_precision, "_scores", wrong)
    assert precision("rope", 32767, "fp32", route, SETTINGS, 0) == plain


def test_a_wrong_score_of_a_visible_key_counts(monkeypatch):
    scores = rotary_precision._scores

    def wrong(kernel, q, k, q_pos, k_pos, number):
        found, *rows = scores(kernel, q, k, q_pos, k_pos, number)
        own = k_pos == q_pos[:, None]
        return (found + 100 * own * (number == TYPES["fp32"]), *rows)

    monkeypatch.setattr(rotary_precision, "_scores", wrong)
    found = precision("rope", 32767, "fp32", "fair", SETTINGS, 0)
    assert found["absolute"] == pytest.approx(100, rel=1e-3)


def result(paper: dict, fair: dict):
    rows = []
    for method in KERNELS:
        for number in ("fp64", "fp32", "bf16"):
            for route, errors in (("paper", paper), ("fair", fair), ("attend", fair)):
                error = 1.0 if method == "rope" else errors[number]
                row = {"method": method, "seed": 0, "type": number, "protocol": route}
                rows.append({**row, "position": 9, "error": error, "q_norm": 5.0})
    return Result(rows, {"settings": {"length": 512, "positions": [9]}})


GOOD = {"fp64": 1.0, "fp32": 2.0, "bf16": 5.0}


@pytest.mark.parametrize(
    ("paper", "fair", "outcome"),
    [
        (GOOD, GOOD, "reproduced"),
        (GOOD | {"bf16": 500.0}, GOOD, "reproduced in part"),
        (GOOD | {"bf16": 500.0}, GOOD | {"bf16": 11.0}, "contradicted"),
        (GOOD | {"fp64": 500.0}, GOOD, "contradicted"),
    ],
)
def test_the_rule_of_r1(paper, fair, outcome):
    rows = result(paper, fair)
    assert rotary_claim(rows).outcome == outcome
    cured = rotary_sentences(rows)[0]
    assert ("pj_rotary in bf16" in cured) == (paper["bf16"] > 10 >= fair["bf16"])


def test_attend_is_not_compared_with_itself():
    """In fp64 the truth of "attend" is the same call: its 0 proves nothing and is not told."""
    (said,) = [s for s in rotary_sentences(result(GOOD, GOOD)) if s.startswith("attend()")]
    assert "fp64" not in said and "2.0e+00 in fp32 and 5.0e+00 in bf16" in said
    found = precision("pj_rotary", 1 << 20, "fp64", "attend", SETTINGS, 0)
    assert found["error"] == 0


def test_a_filtered_run_tests_nothing_and_has_no_sentences():
    few = result(GOOD, GOOD).where(method="rope")
    assert rotary_claim(few).outcome == "not tested" and rotary_sentences(few) == []
