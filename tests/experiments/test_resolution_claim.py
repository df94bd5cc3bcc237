"""The rule of P-F4 on made-up rows: every verdict, chance, and rows that are not all there."""

from __future__ import annotations

import pytest

from pjrope.experiments.codes.lag_codes import PRECISIONS
from pjrope.experiments.codes.resolution_claim import AT_CHANCE, resolution_claim


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


@pytest.mark.parametrize(
    ("low", "word"),
    [
        ({("paper", "fp32"), ("fair", "fp32")}, "P-F4, reproduced:"),
        ({("fair", "int4")}, "P-F4, reproduced with a caveat:"),
        (set(), "P-F4, not reproduced:"),
    ],
)
def test_the_rule_of_f4(low, word):
    lc = {place: 0.5 if place in low else 0.9 for place in PLACES}
    said = resolution_claim(rows_of(lc, 0.5), "top1")
    assert said[0].startswith(word)
    assert all("resolves less than the linear one" in sentence for sentence in said[-3:])


def test_the_rule_of_f4_asks_for_the_smallest_effect_and_for_seeds():
    lc = dict.fromkeys(PLACES, 0.88)
    rows = rows_of(lc, 0.88)
    said = resolution_claim(rows, "top1")
    assert said[0].startswith("P-F4, not reproduced") and "does not resolve less" in said[-1]
    assert "one seed" in resolution_claim([r for r in rows if r["seed"] == 0], "top1")[0]
    assert resolution_claim([r for r in rows if r["method"] != "raw"], "top1") == []


@pytest.mark.parametrize("rival", ["raw", "scaled"])
def test_lower_than_one_rival_alone_is_not_lower(rival):
    """lc is 0.4 below one rival and equal to the other, everywhere."""
    rows = rows_of(dict.fromkeys(PLACES, 0.5), 0.9)
    rows = [{**r, "top1": 0.5} if r["method"] == rival else r for r in rows]
    assert resolution_claim(rows, "top1")[0].startswith("P-F4, not reproduced: nowhere")


def changed(rows, share, **where):
    """Rows with another share where the fields fit."""
    return [{**r, "top1": share} if all(r[k] == v for k, v in where.items()) else r for r in rows]


def test_from_two_networks_at_chance_nothing_follows():
    rows = [{**r, "top1": 0.5} for r in rows_of(dict.fromkeys(PLACES, 0.5), 0.5)]
    said = resolution_claim(rows, "top1", chance=0.5)
    assert said[0].startswith("P-F4, not tested: nothing follows from paper at fp32, ")
    assert all(sentence.count(AT_CHANCE) == 2 for sentence in said[1:7])
    assert all(AT_CHANCE in sentence and "resolve" not in sentence for sentence in said[7:])
    # Where guessing reaches nothing, 0.5 is a measurement.
    assert resolution_claim(rows, "top1")[0].startswith("P-F4, not reproduced")


def test_both_must_be_at_chance_and_within_the_smallest_effect():
    rows = rows_of(dict.fromkeys(PLACES, 0.5), 0.52)
    rows = changed(rows, 0.51, method="phase_linear")
    assert AT_CHANCE in resolution_claim(rows, "top1", chance=0.5)[-1]
    # A lower linear phase that is not at chance is a finding.
    apart = changed(rows, 0.54, method="phase_linear")
    assert "does not resolve less" in resolution_claim(apart, "top1", chance=0.5)[-1]
    # raw and scaled have 0.9: lc at chance is lower than both.
    assert resolution_claim(rows, "top1", chance=0.5)[0].startswith("P-F4, reproduced:")


def test_a_rival_at_chance_does_not_hide_a_place_where_lc_is_lower():
    rows = rows_of({place: 0.5 for place in PLACES}, 0.5)
    rows = changed(rows, 0.5, protocol="fair", method="raw")
    head = resolution_claim(rows, "top1", chance=0.5)[0]
    assert "caveat: lc is lower than raw and than scaled by paper at fp32, paper at int8 " in head
    assert head.endswith("nothing follows from fair at fp32, fair at int8 and fair at int4.")


def test_a_rival_that_lc_equals_settles_a_place_whatever_the_other_does():
    rows = rows_of(dict.fromkeys(PLACES, 0.9), 0.5)
    rows = changed(rows, None, method="raw")
    assert resolution_claim(rows, "top1")[0].startswith("P-F4, not reproduced: nowhere")


@pytest.mark.parametrize("method", ["lc", "raw", "phase_linear"])
def test_one_seed_of_one_method_is_not_tested(method):
    rows = rows_of(dict.fromkeys(PLACES, 0.9), 0.9)
    one = [r for r in rows if not (r["method"] == method and r["seed"] > 0)]
    assert resolution_claim(one, "top1") == ["P-F4, not tested: from one seed nothing follows."]
    apart = [r for r in rows if (r["method"] == method) == (r["seed"] == 2)]
    assert "not tested" in resolution_claim(apart, "top1")[0]


@pytest.mark.parametrize("lost", [{"precision": "int8"}, {"protocol": "paper"}, {"seed": 7}])
@pytest.mark.parametrize("method", ["lc", "scaled", "phase_lightcone"])
def test_a_missing_row_leaves_nothing_to_say(method, lost):
    rows = rows_of(dict.fromkeys(PLACES, 0.9), 0.9)
    here = {**lost, "method": method}
    left = [r for r in rows if not all(r[k] == v for k, v in here.items())]
    said = resolution_claim(left, "top1")
    assert (said == []) == (len(left) < len(rows))
    assert resolution_claim([r for r in rows if r["precision"] != "int8"], "top1") == []
    assert resolution_claim(rows, "best_threshold") == []


def test_numbers_that_are_not_finite_settle_nothing():
    rows = changed(rows_of(dict.fromkeys(PLACES, 0.9), 0.9), None, method="lc")
    said = resolution_claim(rows, "top1", chance=0.5)
    assert said[0].startswith("P-F4, not tested: nothing follows from paper at fp32, ")
    assert "not finite for 3 of 3 seeds" in said[1]
