"""Stability of the eight variants: the protocol's printed digits, ranges, and rules."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from pjrope.experiments import Result
from pjrope.experiments.codes import lightcone_stability
from pjrope.experiments.codes.lag_codes import VARIANTS, amplitudes
from pjrope.experiments.codes.lightcone_stability import stability
from pjrope.experiments.codes.rounding import TYPES, first_overflow, predicted_overflow
from pjrope.experiments.codes.stability_claims import RULES, stability_sentences
from pjrope.experiments.engine import registry
from tests.experiments.printed import as_printed

# The reference's code, run again at its defaults (fp32, L = 1024, 17 cycles, 32,768 positions):
# protocol of PJ-RoPE, E1, C6; the strings keep the digits printed. Left out are condition numbers
# above 1e5, which are the rounding of fp32.
FIELDS = (
    "norm",
    "bias",
    "entropy",
    "support",
    "distance",
    "phase_ratio",
    "span",
    "local",
    "wrapped",
)
PUBLISHED = {
    "raw": "5.86e12 5.85e12 0 1.0 32767 1 1708.9 0 1.00",
    "scaled": "223.6 224 5.24 188 30634 1 1708.9 0 1.00",
    "clipped": "1.509 .167 10.39 32548 16386 1 1708.9 0 1.00",
    "log": "10.07 7.12 8.34 4175 27358 1 1708.9 0 1.00",
    "lc_amp_only": "1.999 .9985 10.20 26935 16638 1 1708.9 0 1.00",
    "lc_phase_only": "5485 5269 2.86 17.5 31444 .03125 73.96 0 .73",
    "lc": "1.999 .9985 10.20 26884 16515 .03125 73.96 0 .73",
    "lc_wrong_scale": "1.999 .9375 10.39 32511 16838 3.05e-5 .0722 1.0 1.00",
}
CONDITION = {"raw": "1.7e3", "scaled": "1.5e3", "log": "5.3e4", "lc_phase_only": "1.8e3"}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_protocol_comes_out_to_the_printed_digits(name):
    found = stability(name, 32768, 1024, "paper")
    texts = dict(zip(FIELDS, PUBLISHED[name].split(), strict=True))
    texts |= {"condition": CONDITION[name]} if name in CONDITION else {}
    assert {
        field: found[field] for field, text in texts.items() if not as_printed(text, found[field])
    } == {}


@pytest.mark.parametrize(
    ("count", "ratio", "span"),
    [(1024, ".708", "42.7"), (4096, ".243", "69.5"), (16384, ".0625", "73.7")],
)
def test_the_light_cone_phase_by_length(count, ratio, span):
    found = stability("lc", count, 1024, "paper")
    assert as_printed(ratio, found["phase_ratio"]) and as_printed(span, found["span"])


def test_whole_cycles_are_what_makes_unbent_phases_collide():
    paper, fair = (stability("scaled", 32768, 1024, p) for p in ("paper", "fair"))
    assert paper["joint"] == 1.0 and fair["joint"] == 0.0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", VARIANTS)
def test_where_a_variant_leaves_a_number_type_is_said_beforehand(name, dtype):
    # L = 8 brings the overflow of every growing variant within reach of a short search.
    count, kind = 1 << 16, TYPES[dtype]
    lost, _ = first_overflow(name, 8, count, kind)
    said = predicted_overflow(name, 8, kind)
    assert lost == (said if said < count else -1)
    leaving = {"raw", "lc_phase_only"} if dtype == "fp16" else set()
    assert (lost >= 0) == (name in leaving)


def test_over_a_million_positions_only_raw_fp16_is_lost():
    # The longest search on the variants that grow; that the others are bounded is their formula.
    for name in ("raw", "lc_phase_only"):
        lags = torch.tensor([73, 74, (1 << 20) - 1])
        for dtype in TYPES.values():
            finite = torch.isfinite(amplitudes(name, lags, 1024).to(dtype)).all(1).tolist()
            said = predicted_overflow(name, 1024, dtype)
            assert finite == [lag < said for lag in lags.tolist()]


def test_errors_of_numbers_whose_squares_leave_fp32_are_not_zero():
    """raw reaches 1.9e17: a norm in fp32 is infinite, and an error over it would read 0."""
    paper, fair = (stability("raw", 1 << 20, 1024, p) for p in ("paper", "fair"))
    assert fair["int8"] > 0.005 and fair["int4"] > 0.09
    assert paper["int8"] == pytest.approx(fair["int8"], rel=1e-4)
    assert paper["int4"] == pytest.approx(fair["int4"], rel=1e-4)


def test_a_norm_of_numbers_whose_squares_vanish_in_fp32_is_not_zero():
    paper, fair = (stability("scaled", 1 << 20, 1024, p)["norm"] for p in ("paper", "fair"))
    assert fair < 1e-36 and paper == pytest.approx(
        fair, rel=0.5, abs=0
    )  # e^-102 is subnormal in fp32


def test_what_is_not_finite_is_refused_and_so_are_too_few_positions(monkeypatch):
    with pytest.raises(ValueError, match=r"positions is 3: at least 4"):
        stability("lc", 3, 1024, "fair")
    assert stability("lc", 4, 1024, "fair")["norm"] < 2
    heights = torch.tensor([[1.0, math.inf]]).expand(8, 2)
    monkeypatch.setattr(lightcone_stability, "amplitudes", lambda *_: heights)
    with pytest.raises(OverflowError, match=r"norm is inf"):
        stability("raw", 8, 1024, "paper")


def test_a_number_that_is_no_norm_is_refused_too(monkeypatch):
    monkeypatch.setattr(lightcone_stability, "_condition", lambda _: math.nan)
    with pytest.raises(OverflowError, match=r"lc over 8 positions, fair: condition left"):
        stability("lc", 8, 1024, "fair")


def result(rows, **settings):
    return Result(rows, {"settings": {"length": 1024, "looked_at": 32768, **settings}})


@pytest.fixture(scope="module")
def rows():
    experiment = registry.get("lightcone_stability")
    preset = experiment.preset("smoke")
    made = []
    for cell in experiment.grid(preset, [0]):
        made += experiment.run_cell(cell, SimpleNamespace(settings=preset.settings))
    return made


def test_verdicts_and_sentences_follow_the_rows(rows):
    found = {claim: rule(result(rows)) for claim, rule in RULES.items()}
    assert {claim: verdict.outcome for claim, verdict in found.items()} == {
        "P-F1": "reproduced in part",
        "P-F2": "reproduced",
        "P-F3": "reproduced",
        "P-U1": "not tested",  # the smoke run has no two doublings
        "P-U2": "reproduced in part",
    }
    assert "clipped" in found["P-F1"].because and "L/sqrt" in found["P-F2"].because
    assert (
        "23 of 24" in found["P-U2"].because and "raw leaves fp16 at lag 74" in found["P-U2"].because
    )
    said = stability_sentences(result(rows))
    assert said[0].endswith("wrong: none.") and "lc_wrong_scale in bf16 from 1,268" in said[1]


def changed(rows, method, **fields):
    """Rows of a method with other values of fields that they have."""
    return [
        {**row, **{k: v for k, v in fields.items() if k in row}} if row["method"] == method else row
        for row in rows
    ]


@pytest.mark.parametrize(
    ("claim", "method", "field", "value"),
    [
        ("P-F1", "lc", "norm", 2.1),
        ("P-F1", "raw", "norm", 1.5),
        ("P-F2", "lc", "phase_ratio", 0.5),
        ("P-F2", "raw", "span", 1.0),
        ("P-F3", "lc_wrong_scale", "span", 1.5),
        ("P-U2", "raw", "overflow", -1),
    ],
)
def test_a_breach_takes_the_verdict_away(rows, claim, method, field, value):
    assert RULES[claim](result(changed(rows, method, **{field: value}))).outcome == "contradicted"


def test_a_bound_that_no_other_variant_has_is_reproduced_whole(rows):
    for method in ("clipped", "lc_amp_only", "lc_wrong_scale"):
        rows = changed(rows, method, norm=3.0)
    assert RULES["P-F1"](result(rows)).outcome == "reproduced"


@pytest.mark.parametrize(
    ("norms", "outcome"),
    [
        ([1, 8, 64, 512], "contradicted"),
        ([1, 8, 128, 8192], "reproduced"),
        ([1, 16, 256, 4096], "undecided"),
    ],
)
def test_exponential_growth_multiplies_its_factor(norms, outcome):
    rows = [
        {"protocol": "fair", "method": "raw", "positions": 1024 * 2**i, "norm": float(norm)}
        for i, norm in enumerate(norms)
    ]
    assert RULES["P-U1"](result(rows)).outcome == outcome


def test_a_crash_in_bf16_or_fp32_is_one(rows):
    assert RULES["P-U2"](result(changed(rows, "raw", overflow=500))).outcome == "reproduced"
    assert RULES["P-U2"](result(changed(rows, "raw", overflow=99999))).outcome == "contradicted"
    assert RULES["P-U2"](result(rows, looked_at=100)).outcome == "not tested"


def test_a_forecast_that_is_wrong_is_named(rows):
    rows = [{**row, "predicted": 5} if row.get("type") == "bf16" else row for row in rows]
    assert "wrong: raw in bf16, scaled in bf16" in stability_sentences(result(rows))[0]


def test_a_filtered_run_tests_nothing_and_has_no_sentences(rows):
    few = result([row for row in rows if row["method"] == "lc"])
    assert stability_sentences(few) == []
    assert {rule(few).outcome for claim, rule in RULES.items() if claim in ("P-F1", "P-U1")} == {
        "not tested"
    }
