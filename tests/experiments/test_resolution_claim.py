"""The rule of P-F4 on made-up rows: every verdict, chance, and rows that are not all there."""

from __future__ import annotations

import pytest

from pjrope.experiments import Result
from pjrope.experiments.codes.lag_codes import PRECISIONS
from pjrope.experiments.codes.resolution_claims import phase_sentence, resolution_claim


def rows_of(lc: dict, phase: float):
    """Rows in which raw and scaled have 0.9, lc what is given, the bent phase alone `phase`."""
    made = []
    for protocol in ("paper", "fair"):
        for precision in PRECISIONS:
            shares = {"raw": 0.9, "scaled": 0.9, "lc": lc[protocol, precision]}
            if protocol == "fair":
                shares |= {"phase_linear": 0.9, "phase_lightcone": phase}
            for method, share in shares.items():
                for seed in (0, 1, 2):
                    row = {"protocol": protocol, "precision": precision, "method": method}
                    made.append({**row, "seed": seed, "bucket": "x16_32", "top1": share})
    return made


PLACES = [(protocol, precision) for protocol in ("paper", "fair") for precision in PRECISIONS]


def judge(rows, values=("top1",), chance=None):
    card = {"settings": {"length": 1024, "times": 32}}
    return resolution_claim(Result(rows, card), values, chance=chance)


def phases(rows, chance=None):
    return phase_sentence(Result(rows, {}), "top1", chance=chance)


@pytest.mark.parametrize(
    ("low", "outcome"),
    [
        ({("paper", "fp32"), ("fair", "fp32")}, "reproduced"),
        ({("paper", "fp32")}, "reproduced in part"),
        ({("fair", "int4")}, "reproduced in part"),
        (set(), "contradicted"),
    ],
)
def test_the_rule_of_f4(low, outcome):
    lc = {place: 0.5 if place in low else 0.9 for place in PLACES}
    found = judge(rows_of(lc, 0.5))
    assert found.outcome == outcome and found.evidence.seeds == 3
    assert len(found.evidence.findings) == 12
    (said,) = phases(rows_of(lc, 0.5))
    assert said.count("-0.400 ± 0.000 (worse)") == 3


def test_where_the_light_cone_is_higher_in_fp32_it_is_said_and_never_reproduced():
    lc = {place: 0.5 if place[1] == "int4" else 0.97 for place in PLACES}
    found = judge(rows_of(lc, 0.5))
    assert found.outcome == "reproduced in part"
    assert "higher in fp32 (paper) and fp32 (fair)" in found.because


def test_the_rule_of_f4_asks_for_the_smallest_effect_and_for_seeds():
    rows = rows_of(dict.fromkeys(PLACES, 0.88), 0.88)
    assert judge(rows).outcome == "contradicted"
    assert judge([r for r in rows if r["seed"] == 0]).outcome == "undecided"
    assert judge([r for r in rows if r["method"] != "raw"]).outcome == "not tested"


@pytest.mark.parametrize("rival", ["raw", "scaled"])
def test_lower_than_one_rival_alone_is_not_lower(rival):
    """lc is 0.4 below one rival and equal to the other, everywhere."""
    rows = rows_of(dict.fromkeys(PLACES, 0.5), 0.9)
    rows = [{**r, "top1": 0.5} if r["method"] == rival else r for r in rows]
    assert judge(rows).outcome == "contradicted"


def test_several_values_must_agree():
    low, high = (rows_of(dict.fromkeys(PLACES, share), 0.9) for share in (0.5, 0.9))
    rows = [{**a, "best": b["top1"]} for a, b in zip(low, high, strict=True)]
    assert judge(rows, ("top1",)).outcome == "reproduced"
    assert judge(rows, ("best",)).outcome == "contradicted"
    assert judge(rows, ("top1", "best")).outcome == "reproduced in part"


def changed(rows, share, **where):
    """Rows with another share where the fields fit."""
    return [{**r, "top1": share} if all(r[k] == v for k, v in where.items()) else r for r in rows]


def test_from_two_networks_at_chance_nothing_follows():
    rows = [{**r, "top1": 0.5} for r in rows_of(dict.fromkeys(PLACES, 0.5), 0.5)]
    found = judge(rows, chance=0.5)
    assert found.outcome == "undecided" and "nothing follows from fp32 (paper)" in found.because
    (out,) = found.evidence.excluded
    assert (len(out.runs), out.of) == (12, 12)
    assert phases(rows, chance=0.5)[0].count("both at chance") == 3
    # Where guessing reaches nothing, 0.5 is a measurement.
    assert judge(rows).outcome == "contradicted"


def test_both_must_be_at_chance_and_within_the_smallest_effect():
    rows = rows_of(dict.fromkeys(PLACES, 0.5), 0.52)
    rows = changed(rows, 0.51, method="phase_linear")
    assert "both at chance" in phases(rows, chance=0.5)[0]
    apart = changed(rows, 0.54, method="phase_linear")  # not at chance: a finding
    assert "chance" not in phases(apart, chance=0.5)[0]
    # raw and scaled have 0.9: lc at chance is lower than both.
    assert judge(rows, chance=0.5).outcome == "reproduced"


def test_a_rival_at_chance_does_not_hide_a_place_where_lc_is_lower():
    rows = rows_of({place: 0.5 for place in PLACES}, 0.5)
    rows = changed(rows, 0.5, protocol="fair", method="raw")
    found = judge(rows, chance=0.5)
    assert found.outcome == "reproduced in part"
    assert "in fp32 (paper), int8 (paper) and int4 (paper); nothing" in found.because
    assert found.because.endswith("follows from fp32 (fair), int8 (fair) and int4 (fair)")


def test_a_rival_that_lc_equals_settles_a_place_whatever_the_other_does():
    rows = changed(rows_of(dict.fromkeys(PLACES, 0.9), 0.5), None, method="raw")
    assert judge(rows).outcome == "contradicted"


@pytest.mark.parametrize("method", ["lc", "raw", "phase_linear"])
def test_one_seed_of_one_method_settles_nothing(method):
    rows = rows_of(dict.fromkeys(PLACES, 0.9), 0.9)
    one = [r for r in rows if not (r["method"] == method and r["seed"] > 0)]
    assert judge(one).outcome == "undecided"
    apart = [r for r in rows if (r["method"] == method) == (r["seed"] == 2)]
    assert judge(apart).outcome == "undecided"


@pytest.mark.parametrize("lost", [{"precision": "int8"}, {"protocol": "paper"}, {"seed": 7}])
@pytest.mark.parametrize("method", ["lc", "scaled", "phase_lightcone"])
def test_a_missing_row_tests_nothing(method, lost):
    rows = rows_of(dict.fromkeys(PLACES, 0.9), 0.9)
    here = {**lost, "method": method}
    left = [r for r in rows if not all(r[k] == v for k, v in here.items())]
    whole = len(left) == len(rows)
    assert (judge(left).outcome == "not tested") != whole and (phases(left) == []) != whole
    assert judge(rows, ("best_threshold",)).outcome == "not tested"


def test_numbers_that_are_not_finite_settle_nothing():
    rows = changed(rows_of(dict.fromkeys(PLACES, 0.9), 0.9), None, method="lc")
    found = judge(rows, chance=0.5)
    assert found.outcome == "undecided" and "nothing follows from fp32 (paper)" in found.because
    assert found.evidence.findings[0].word == "not finite"
