"""The rule, on summaries with a known answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pjrope.diagnosis import ARMS, Evidence, decide
from pjrope.diagnosis.evidence import interval

SEGMENTS = 32
WOBBLE = [0.002 * ((n * 7) % 5 - 2) for n in range(SEGMENTS)]  # how segments differ between arms
TEXT = [2.0 + 0.1 * ((n * 3) % 7) for n in range(SEGMENTS)]  # how hard segments are
LOSSES = {
    "none": 2.0,
    "alibi": 1.8,
    "rope": 1.7,
    "affine": 1.79,
    "near": 1.75,
    "fj": 1.5,
    "lc": 1.6,
    "union": 1.5,
}
STARTS = ("uniform", "affine", "fj", "lc")


def runs(level, shift=0):
    values = [t - 2.3 + level + WOBBLE[(n + shift) % SEGMENTS] for n, t in enumerate(TEXT)]
    return [values, [v + 0.003 for v in values]]


def evidence(losses=LOSSES, far=None, left_out=None, falls=None, unigram=2.2, tokens=50_000):
    def arms(levels):
        return {arm: runs(levels[arm], shift) for shift, arm in enumerate(ARMS)}

    cost = {"affine": 0.0, "near": 0.0, "fj": 0.2, "lc": 0.0} | (left_out or {})
    orders = {"fj 0": 0.01, "fj 1": 0.15, "fj 2": 0.0}
    return Evidence(
        tokens=tokens,
        unigram=[t - 2.3 + unigram for t in TEXT],
        near=arms(losses),
        far=arms(far or losses),
        left_out={
            part: {start: [c + 0.001 * k, c - 0.001 * k] for k, start in enumerate(STARTS)}
            for part, c in {**cost, **orders}.items()
        },
        falls=dict.fromkeys(ARMS, 0.02) | (falls or {}),
        learned=unigram - losses["union"],
    )


def test_a_sector_that_leads_everywhere_is_found():
    found = decide(evidence())
    assert (found.verdict, found.leading, found.rivals) == ("found", "fj", ())
    status = {s.sector: s.status for s in found.sectors}
    assert status == {
        "affine": "not needed",
        "near": "not needed",
        "fj": "used",
        "lc": "not needed",
    }
    fj = found.sectors[2]
    assert fj.orders == (1,) and fj.stable == (4, 4) and fj.share == pytest.approx(1.0, abs=0.02)
    assert found.kernel == "fj" and "FourierJet" in found.headline and not found.would_decide


def test_a_lead_that_is_clear_and_small_is_told_as_little():
    found = decide(evidence(LOSSES | {"lc": 1.51}))
    assert found.verdict == "found" and found.leading == "fj"
    (small,) = [said for said in found.because if "either would do" in said]
    assert "against light cone" in small and "Less than 0.025 is little" in small
    assert not any("either would do" in said for said in decide(evidence()).because)


def test_the_simpler_of_equal_sectors_leads_and_the_gap_is_told():
    found = decide(evidence(LOSSES | {"lc": 1.49}))
    assert (found.verdict, found.leading, found.rivals) == ("found", "fj", ())
    (told,) = [said for said in found.because if "the simpler one leads" in said]
    assert "behind light cone" in told and "0.010 ± " in told


def test_a_richer_sector_that_may_be_better_by_what_matters_is_a_rival():
    e = evidence(LOSSES | {"lc": 1.4745})
    matters = 0.05 * e.gap("none", "lc").mean
    gain = e.gap("fj", "lc", comparisons=3)
    assert gain.mean < matters < gain.high
    found = decide(e)
    assert found.verdict == "cannot tell" and found.leading is None
    assert found.rivals == ("fj", "lc")
    assert any("light cone" in s and "±" in s for s in found.would_decide)
    assert decide(evidence(LOSSES | {"lc": 1.46})).leading == "lc"


def test_a_lead_that_flips_between_seeds_is_none():
    e = evidence()
    e.near["near"][0] = [v - 0.2 for v in e.near["fj"][0]]
    e.near["near"][1] = [v + 0.4 for v in e.near["fj"][1]]
    assert "near" in decide(e).rivals


def test_a_rival_that_still_catches_up_is_not_beaten():
    assert decide(evidence(falls={"near": 0.3})).rivals == ("fj", "near")
    assert decide(evidence(falls={"near": 0.2})).leading == "fj"


def test_a_curve_that_falls_is_not_decided():
    found = decide(evidence(falls={"union": 0.2}))
    assert found.verdict == "cannot tell" and found.leading == "fj"
    assert found.headline.startswith("For now") and "Twice the budget" in found.would_decide[0]


def test_random_tokens_have_no_structure():
    flat = dict.fromkeys(ARMS, 2.3)
    found = decide(evidence(flat, unigram=2.295, falls=dict.fromkeys(ARMS, 0.0)))
    assert found.verdict == "no structure" and found.kernel is None and not found.sectors
    falling = decide(evidence(flat, unigram=2.295, falls=dict.fromkeys(ARMS, 0.1)))
    assert falling.verdict == "cannot tell" and "--minutes" in falling.would_decide[0]
    # As much again would leave the best model behind the frequencies: more training decides nothing.
    hopeless = decide(evidence(flat, unigram=2.1, falls=dict.fromkeys(ARMS, 0.1)))
    assert hopeless.verdict == "no structure"


def test_order_may_not_matter():
    found = decide(evidence(dict.fromkeys(ARMS, 1.5)))
    assert found.verdict == "order does not matter" and found.kernel == "none"
    found = decide(evidence(dict.fromkeys(ARMS, 1.5), falls={"union": 0.5}))
    assert found.verdict == "cannot tell"
    little = evidence(dict.fromkeys(ARMS, 1.5) | {"none": 1.505})
    assert (
        little.gap("none", "union", comparisons=len(ARMS) - 1).low > 0
    )  # resolved, and too little
    assert decide(little).verdict == "order does not matter"


def test_little_data_is_told_before_anything_else():
    found = decide(replace(evidence(), tokens=3000))
    assert found.verdict == "too little data" and "17,000 more" in found.would_decide[0]


def test_a_sector_used_from_one_start_alone_is_in_doubt():
    e = evidence()
    e.left_out["lc"] = {s: [0.3, 0.3] if s == "lc" else [0.0, 0.0] for s in STARTS}
    lc = decide(e).sectors[3]
    assert lc.status == "cannot tell" and lc.stable == (1, 4)
    assert any("1 of 4 starts" in s for s in decide(e).would_decide)


def test_a_sector_used_from_half_of_the_starts_is_in_doubt():
    e = evidence()
    e.left_out["lc"] = {s: [0.3, 0.3] if s in ("lc", "fj") else [0.0, 0.0] for s in STARTS}
    lc = decide(e).sectors[3]
    assert lc.left_out["low"] > 0 and lc.stable == (2, 4) and lc.status == "cannot tell"


def test_a_lead_must_hold_for_all_three_comparisons_together():
    e = evidence(LOSSES | {"near": 1.55})
    noise = [0.125 * (-1) ** n for n in range(SEGMENTS)]
    e.near["near"] = [[v + x for v, x in zip(run, noise, strict=True)] for run in e.near["near"]]
    one, three = (e.gap("near", "fj", comparisons=n) for n in (1, 3))
    assert one.low > 0 > three.low
    assert "near" in decide(e).rivals


def test_the_recommendation_weighs_long_contexts():
    losses = LOSSES | {"rope": 1.4, "fj": 1.5, "union": 1.45}
    rising = losses | {"rope": 3.0, "fj": 1.9, "union": 1.46}
    assert decide(evidence(losses, far=rising)).kernel == "union"
    assert decide(evidence(losses)).kernel == "rope"
    simple = dict.fromkeys(ARMS, 1.5) | {"none": 2.0}
    assert decide(evidence(simple)).kernel == "alibi"  # the simplest of equals
    told = decide(evidence(losses, far=rising)).because
    assert any("RoPE" in s and "rises by" in s for s in told)


def test_intervals_widen_with_comparisons_and_need_two_values():
    one, many = interval([1.0, 2.0, 3.0]), interval([1.0, 2.0, 3.0], 7)
    assert one.high == pytest.approx(2 + 4.302653 / 3**0.5, rel=1e-4)
    assert many.high > one.high and interval([1.0]).low is None
