"""Claims P-S1 to P-S5 and P-X1 are judged by their rules: every outcome, on made-up rows."""

from __future__ import annotations

import pytest

from pjrope.experiments import get
from pjrope.experiments.analysis.claims import Verdict
from pjrope.experiments.engine.result import Result
from pjrope.experiments.sequences.teachers.claims import (
    claim_s1,
    claim_s2,
    claim_s3,
    claim_s4a,
    claim_s4b,
    claim_s5,
    claim_x1,
)
from pjrope.experiments.sequences.teachers.judging import JETS, PLAIN, pick

CARD = {"settings": {"length": 48}}
WOBBLE = (-0.004, 0.0, 0.004, 0.002)
WIDE = (-0.6, 0.0, 0.6, 0.1)


def _rows(
    method: str, teacher: str, accuracy: float, times: int = 1, wobble=WOBBLE, **more
) -> list[dict]:
    fixed = {"sharpness": None, **PLAIN, "length": 48 * times, "support": 40.0, **more}
    return [
        {"method": method, "teacher": teacher, "seed": s, "times": times, **fixed}
        | {"accuracy": accuracy + w * (1 + len(method) % 3 / 2)}
        for s, w in enumerate(wobble)
    ]


def _result(rows: list[dict]) -> Result:
    return Result(rows, CARD)


def _names(verdict: Verdict) -> list[str]:
    return [f.name for f in verdict.evidence.findings]


@pytest.mark.parametrize(
    ("affine", "vote", "wobble", "outcome"),
    [
        (0.95, 0.7, WOBBLE, "reproduced"),
        (0.72, 0.71, WOBBLE, "reproduced in part"),
        (0.67, 0.6, WOBBLE, "not at this scale"),
        (0.95, 0.7, WIDE, "undecided"),
    ],
)
def test_claim_s1(affine, vote, wobble, outcome):
    levels = {"affine": affine, "full": 0.95, "none": 0.66, "majority": vote}
    rows = [
        r
        for m, a in levels.items()
        for r in _rows(m, "affine", a, sharpness=16.0, wobble=wobble if m == "affine" else WOBBLE)
    ]
    verdict = claim_s1(_result(rows))
    assert verdict.outcome == outcome and "affine - majority" in _names(verdict)


def test_a_praised_method_that_never_trained_is_taken_out_and_no_position_is_not():
    levels = {"affine": 0.95, "full": 0.95, "none": 0.66, "majority": 0.7}
    rows = [r for m, a in levels.items() for r in _rows(m, "affine", a, sharpness=16.0)]
    for row in rows:
        row["train_loss"] = 0.8 if row["method"] == "none" or row["seed"] == 3 else 0.1
    verdict = claim_s1(_result(rows))
    out = verdict.evidence.excluded[0]
    assert len(out.runs) == 2 and out.of == 8 and all("none" not in run for run in out.runs)
    assert verdict.outcome == "reproduced" and verdict.evidence.seeds == 3


def _sweep(wide: float, narrow: float, none: tuple, vote: tuple, slope: float = 2.0) -> list[dict]:
    rows = []
    for place, sharpness in enumerate((4.0, 24.0)):
        here = {"sharpness": sharpness}
        rows += _rows("none", "recency_weak_jet", none[place], **here)
        rows += _rows("majority", "recency_weak_jet", vote[place], **here)
        for m in ("affine", "full"):
            rows += _rows(m, "recency_weak_jet", (wide, narrow)[place], slope=slope, **here)
    return rows


@pytest.mark.parametrize(
    ("wide", "narrow", "none", "vote", "outcome"),
    [
        (0.95, 0.97, (0.85, 0.62), (0.86, 0.64), "reproduced"),
        (0.75, 0.97, (0.85, 0.62), (0.86, 0.64), "reproduced in part"),
        (0.95, 0.97, (0.85, 0.62), (0.70, 0.70), "reproduced in part"),
        (0.95, 0.72, (0.85, 0.62), (0.86, 0.64), "not at this scale"),
    ],
)
def test_claim_s2(wide, narrow, none, vote, outcome):
    verdict = claim_s2(_result(_sweep(wide, narrow, none, vote)))
    assert verdict.outcome == outcome
    grown = {f.name: f.summary.mean for f in verdict.evidence.findings}
    expected = (narrow - none[1]) - (wide - none[0])
    assert grown["affine from slope 2, growth over none"] == pytest.approx(expected)


def test_claim_s2_must_hold_at_every_slope():
    rows = _sweep(0.95, 0.97, (0.85, 0.62), (0.86, 0.64))
    steep = [r for r in _sweep(0.75, 0.97, (0, 0), (0, 0), slope=6.4) if r["slope"] == 6.4]
    verdict = claim_s2(_result(rows + steep))
    assert verdict.outcome == "reproduced in part" and "from slope 6.4" in verdict.because


@pytest.mark.parametrize("missing", [("affine", "full"), ("affine",), ("full",)])
def test_claim_s2_without_a_method_is_not_tested(missing):
    rows = [r for r in _sweep(0.95, 0.97, (0.85, 0.62), (0.86, 0.64)) if r["method"] not in missing]
    assert claim_s2(_result(rows)).outcome == "not tested"


@pytest.mark.parametrize(
    ("held", "trained", "outcome", "because"),
    [
        ((0.9, 0.8), (0.9, 0.8), "reproduced", "all differences"),
        ((0.9, 0.8), (0.9, 0.5), "reproduced in part", "at 2 L, frequencies trained"),
        ((0.52, 0.5), (0.9, 0.8), "not at this scale", "at 1 L, frequencies frozen"),
    ],
)
def test_claim_s3(held, trained, outcome, because):
    rows = []
    for jet in JETS:
        for place, times in enumerate((1, 2)):
            rows += _rows("none", jet, 0.51, times) + _rows("affine", jet, 0.5, times)
            rows += _rows("fj", jet, held[place], times)
            rows += _rows("fj", jet, trained[place], times, omega="trained")
    verdict = claim_s3(_result(rows))
    assert verdict.outcome == outcome and because in verdict.because


def _jets_of_full(right: float, uniform: float, wobble=WOBBLE, **more) -> list[dict]:
    """Leads from either start, by gates, masses and functions alike; the right one begins ahead."""
    rows = []
    for jet in JETS:
        for gates, level in (("right", right), ("uniform", uniform)):
            for row in _rows("full", jet, 0.9, gates=gates, **more):
                ahead = {
                    f"{name}_lead": level + wobble[row["seed"]]
                    for name in ("gate", "sector", "mass", "order")
                }
                rows.append({**row, **ahead, "gate_lead_start": 0.947, "mass_lead_start": 0.91})
    return rows


@pytest.mark.parametrize(("rule", "start"), [(claim_s4a, "gate"), (claim_s4b, "mass")])
@pytest.mark.parametrize(
    ("right", "uniform", "rate", "wobble", "outcome"),
    [
        (0.9, 0.5, 1.0, WOBBLE, "reproduced"),
        (0.9, 0.5, 10.0, WOBBLE, "reproduced in part"),
        (0.9, -0.2, 1.0, WOBBLE, "reproduced in part"),
        (-0.1, -0.2, 1.0, WOBBLE, "not at this scale"),
        (0.1, 0.1, 1.0, WIDE, "undecided"),
    ],
)
def test_claims_s4(rule, start, right, uniform, rate, wobble, outcome):
    verdict = rule(_result(_jets_of_full(right, uniform, wobble, gate_lr=rate)))
    assert verdict.outcome == outcome
    begun = [f for f in verdict.evidence.findings if "before training" in f.name]
    assert [f.name.split()[0] for f in begun] == [start] * 3
    assert ("the protocol's rate" in verdict.because) == (rate == 1.0)


def test_claims_s4_judge_the_protocols_rate_where_it_was_run():
    fast = _jets_of_full(-0.9, -0.9, gate_lr=10.0)
    slow = _jets_of_full(0.9, 0.5, gate_lr=1.0)
    for rule in (claim_s4a, claim_s4b):
        assert rule(_result(fast)).outcome == "not at this scale"
        assert rule(_result(fast + slow)).outcome == "reproduced"


def test_wrong_starts_at_ten_times_the_rate_are_told():
    rows = _jets_of_full(0.9, 0.5, gate_lr=1.0)
    for teacher in ("affine", *JETS, "lc_core"):
        sharp = {"sharpness": 16.0} if teacher == "affine" else {}
        for row in _rows("full", teacher, 0.9, gates="wrong", gate_lr=10.0, **sharp):
            rows.append({**row, "gate_lead": 0.5 if teacher != "lc_core" else -0.5})
    because = claim_s4a(_result(rows)).because
    assert "for 4 of 5 teachers: gates read their rate x steps" in because
    assert "4 of 5" not in claim_s4b(_result(rows)).because


def test_rows_of_the_first_record_are_at_the_fast_rate_and_its_cells_do_not_name_it():
    without, named = _rows("full", "first_jet", 0.9), _rows("full", "first_jet", 0.9, gate_lr=10.0)
    slow = _rows("full", "first_jet", 0.9, gate_lr=1.0)
    assert pick(_result(without + slow)) == without and pick(_result(named + slow)) == named
    for name in ("teacher_sequences", "teacher_sequences/support"):
        experiment = get(name)
        assert all(
            "gate_lr" not in c.key for c in experiment.grid(experiment.presets["book"], (0,))
        )


@pytest.mark.parametrize(
    ("far", "fj", "outcome", "because"),
    [
        ({"lc_affine": 0.87, "full": 0.87}, 0.5, "reproduced", "all differences"),
        (
            {"lc_affine": 0.87, "full": 0.70},
            0.5,
            "reproduced in part",
            "full at 4 L - at L (worse)",
        ),
        ({"lc_affine": 0.87, "full": 0.87}, 0.78, "reproduced in part", "fj at L - at 4 L (equal)"),
        ({"lc_affine": 0.51, "full": 0.87}, 0.5, "not at this scale", "lc_affine - fj at 4 L"),
    ],
)
def test_claim_s5(far, fj, outcome, because):
    near = {"lc_affine": 0.87, "full": 0.87, "fj": 0.78, "none": 0.55}
    there = {**far, "fj": fj, "none": 0.5}
    rows = [
        row
        for times, levels in ((1, near), (4, there))
        for m, a in levels.items()
        for row in _rows(m, "lc_core", a, times)
    ]
    verdict = claim_s5(_result(rows))
    assert verdict.outcome == outcome and because in verdict.because


@pytest.mark.parametrize(
    ("given", "order0", "outcome"),
    [
        (0.7, 0.8, "reproduced"),
        (0.93, 0.8, "reproduced in part"),
        (0.7, 0.95, "not at this scale"),
    ],
)
def test_claim_x1(given, order0, outcome):
    levels = {"fj": 0.93, "order0": order0, "rope": 0.6, "rope_given": given}
    rows = [
        row
        for teacher in ("phase", "first_jet")
        for times in (1, 4)
        for m, a in levels.items()
        for row in _rows(m, teacher, a, times, qk="free")
    ]
    for m in ("none", "affine", "affine_signed"):
        rows += _rows(m, "affine", 0.8, qk="free")
    verdict = claim_x1(_result(rows))
    assert verdict.outcome == outcome and "fj - rope_given" in _names(verdict)
    assert "affine_signed on a line that prefers far keys" in _names(verdict)


def test_a_claim_without_its_rows_says_what_it_takes():
    one_seed = [r for r in _sweep(0.9, 0.9, (0.8, 0.6), (0.8, 0.6)) if r["seed"] == 0]
    rules = (claim_s1, claim_s2, claim_s3, claim_s4a, claim_s4b, claim_s5, claim_x1)
    for rule in rules:
        verdict = rule(_result(one_seed))
        assert (
            verdict.outcome == "not tested" and "it takes two trained seeds of" in verdict.because
        )
