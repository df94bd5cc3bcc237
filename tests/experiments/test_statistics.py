"""Intervals against published quantiles, pairing over seeds, verdicts and tables."""

from __future__ import annotations

import math

import pytest

from pjrope.experiments import ExperimentError, Summary, paired_difference, summary, table, verdict
from pjrope.experiments.analysis.student import t_cdf, t_quantile

# The t table of any statistics text, with more digits where a closed form gives them.
KNOWN = {
    1: math.tan(math.pi * 0.475),
    2: 0.95 / math.sqrt(2 * 0.975 * 0.025),
    3: 3.182446305,
    4: 2.776445105,
    5: 2.570581836,
    9: 2.262157163,
    15: 2.131449546,
    30: 2.042272456,
    120: 1.979930405,
}


@pytest.mark.parametrize(("df", "quantile"), KNOWN.items())
def test_t_quantiles_are_the_tabulated_ones(df, quantile):
    assert t_quantile(0.975, df) == pytest.approx(quantile, rel=1e-9)
    assert t_quantile(0.025, df) == pytest.approx(-quantile, rel=1e-9)


def test_the_distribution_is_that_of_scipy():
    t = pytest.importorskip("scipy.stats").t
    for df in (1, 2, 4, 9, 15, 199):
        for p in (0.6, 0.95, 0.975, 0.999):
            assert t_quantile(p, df) == pytest.approx(t.ppf(p, df), rel=1e-9)
            assert t_cdf(p, df) == pytest.approx(t.cdf(p, df), rel=1e-12)


def test_the_t_distribution_nears_the_normal_one():
    normal = 0.5 * (1 + math.erf(1.3 / math.sqrt(2)))
    assert t_cdf(1.3, 100_000) == pytest.approx(normal, abs=2e-6)
    assert t_quantile(0.5, 7) == 0.0


@pytest.mark.parametrize("df", [1, 2, 3, 6, 11])
def test_the_distribution_is_the_integral_of_its_density(df):
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    steps, t = 20_000, 1.7

    def density(x: float) -> float:
        return math.exp(log_scale - (df + 1) / 2 * math.log1p(x * x / df))

    area = math.fsum(density((i + 0.5) * t / steps) for i in range(steps)) * t / steps
    assert t_cdf(t, df) == pytest.approx(0.5 + area, abs=1e-9)


@pytest.mark.parametrize(("p", "df"), [(0.0, 3), (1.0, 3), (0.5, 0), (0.5, 1.5)])
def test_t_quantile_refuses_what_has_no_answer(p, df):
    with pytest.raises(ExperimentError, match="allowed"):
        t_quantile(p, df)


def test_a_summary_by_hand():
    # Mean 3, standard deviation √2.5, t(0.975, 4) = 2.7764: half width 1.9632.
    s = summary([1, 2, 3, 4, 5])
    assert (s.mean, s.n) == (3.0, 5)
    assert s.high - 3 == pytest.approx(2.776445105 * math.sqrt(2.5 / 5), rel=1e-9)
    assert s.low == pytest.approx(6 - s.high) and s.text(2) == "3.00 ± 1.96"


def test_one_seed_has_no_interval_and_a_lost_seed_no_mean():
    assert summary([2.0]) == Summary(2.0, None, None, 1)
    assert summary([2.0]).text() == "2.000 (one seed, no interval)"
    assert summary([-1e-9, 1e-10, -2e-9]).text(sign=True) == "+0.000 ± 0.000"
    lost = summary([1.0, None, 2.0])
    assert lost.mean is None and lost.text() == "not finite for 1 of 3 seeds"
    with pytest.raises(ExperimentError, match="no values"):
        summary([])


def _rows(method: str, values: dict[int, float | None], length: int = 8) -> list[dict]:
    common = {"method": method, "length": length}
    return [{**common, "seed": seed, "loss": value} for seed, value in values.items()]


def test_a_paired_difference_uses_shared_seeds_and_drops_their_common_part():
    base = _rows("none", {0: 10.0, 1: 20.0, 2: 30.0, 9: 0.0})
    ours = _rows("rope", {2: 29.0, 1: 19.1, 0: 8.9, 7: 5.0})
    gap = paired_difference(base + ours, "loss", method="rope", baseline="none")
    assert gap.seeds == (0, 1, 2)
    assert gap.summary.mean == pytest.approx(-1.0)
    assert gap.summary.high == pytest.approx(-1 + 4.302652730 * 0.1 / math.sqrt(3), rel=1e-6)


def test_pairing_refuses_several_rows_a_seed_and_no_shared_seed():
    rows = _rows("none", {0: 1.0}) + _rows("rope", {0: 1.0}) + _rows("rope", {0: 2.0}, length=16)
    with pytest.raises(ExperimentError, match="several rows for seed 0"):
        paired_difference(rows, "loss", method="rope", baseline="none")
    with pytest.raises(ExperimentError, match="share no seed"):
        paired_difference(rows[:2], "loss", method="rope", baseline="alibi")
    with pytest.raises(ExperimentError, match="rows have no 'nll'; they have: method"):
        paired_difference(rows, "nll", method="rope", baseline="none", where={"length": 8})


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.05, -0.01, "better"),
        (0.01, 0.05, "worse"),
        (-0.05, 0.01, "no difference resolved"),
        (0.002, 0.014, "worse by less than the smallest effect"),  # not zero, so resolved
        (-0.004, 0.006, "equal within the smallest effect"),
        (0.002, 0.006, "equal within the smallest effect"),
    ],
)
def test_verdicts_follow_the_interval_and_the_smallest_effect(low, high, words):
    s = Summary((low + high) / 2, low, high, 5)
    assert verdict(s, 0.01) == words
    swapped = {"better": "worse", "worse": "better", "worse by": "better by"}
    word = next((w for w in ("worse by", "better", "worse") if words.startswith(w)), "")
    assert verdict(s, 0.01, better="higher") == swapped.get(word, word) + words.removeprefix(word)


def test_no_verdict_without_an_interval():
    assert verdict(summary([5.0]), 0.01) == "no verdict: one seed, no interval"
    assert verdict(summary([5.0, None]), 0.01) == "no verdict: not finite for 1 of 2 seeds"
    with pytest.raises(ExperimentError, match="threshold"):
        verdict(summary([5.0, 4.0]), -1)


def test_a_table_puts_each_mean_in_its_place_and_marks_gaps():
    rows = _rows("none", {0: 1.0, 1: 3.0}) + _rows("none", {0: 5.0}, length=1024)
    rows += _rows("rope", {0: 1.5, 1: 3.5})
    shown = table(rows, "loss", columns="length", digits=1)
    lines = [[word.strip() for word in line.strip("|").split("|")] for line in shown.splitlines()]
    assert lines[0] == ["method", "length 8", "length 1,024"]
    assert lines[2] == ["none", "2.0 ± 12.7", "5.0 (one seed, no interval)"]
    assert lines[3] == ["rope", "2.5 ± 12.7", "–"]
    assert len({len(line) for line in shown.splitlines()}) == 1


def test_a_table_of_differences_leaves_the_baseline_out():
    rows = _rows("none", {0: 1.0, 1: 3.0}) + _rows("rope", {0: 1.5, 1: 3.5})
    shown = table(rows, "loss", baseline="none", threshold=0.1, digits=2).splitlines()
    assert shown[2] == "| rope   | +0.50 ± 0.00: worse |" and len(shown) == 3
    with pytest.raises(ExperimentError, match="'alibi'"):
        table(rows, "loss", baseline="alibi")
    with pytest.raises(ExperimentError, match="to show"):
        table(rows, "loss", where={"length": 99})


def test_one_seed_is_said_once_below_the_table():
    rows = [{"method": m, "seed": 3, "loss": v} for m, v in (("none", 2.0), ("rope", 1.5))]
    shown = table(rows, "loss", digits=1)
    assert shown.count("one seed, no interval") == 1
    assert " 1.5 |" in shown and "±" not in shown


def test_scientific_form_keeps_digits_of_values_that_span_decades():
    rows = [{"method": m, "seed": 0, "loss": v} for m, v in (("none", 174.9), ("rope", 1.24e-13))]
    rows += [{"method": "none", "seed": 1, "loss": 174.9}]
    shown = table(rows, "loss", digits=1, form="scientific")
    assert "1.7e+02 ± 0.0e+00 |" in shown and "1.2e-13 (one seed, no interval) |" in shown
    assert "0.000" in table(rows, "loss")  # what the fixed form makes of it
    with pytest.raises(ExperimentError, match="form 'roman': choose from fixed, scientific"):
        table(rows, "loss", form="roman")


def test_several_column_fields_give_a_column_for_each_combination_that_occurs():
    rows = [
        {"method": "none", "seed": 0, "solver": "qr", "length": 8, "loss": 1.0},
        {"method": "none", "seed": 0, "solver": "ref", "length": 8, "loss": 2.0},
        {"method": "none", "seed": 0, "solver": "qr", "length": 1024, "loss": 3.0},
        {"method": "rope", "seed": 0, "solver": "qr", "length": 1024, "loss": 4.0},
    ]
    shown = table(rows, "loss", columns=("length", "solver"), digits=1, deterministic=True)
    lines = [[word.strip() for word in line.strip("|").split("|")] for line in shown.splitlines()]
    assert lines[0] == ["method", "8 qr", "8 ref", "1,024 qr"]
    assert lines[2:4] == [["none", "1.0", "2.0", "3.0"], ["rope", "–", "–", "4.0"]]
    assert "interval" not in shown and "interval" in table(
        rows, "loss", columns=("length", "solver")
    )
