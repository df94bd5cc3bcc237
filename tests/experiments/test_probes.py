"""The probes against published numbers, their algebra, and the rules of their sentences."""

from __future__ import annotations

import math
import time

import pytest
import torch

from pjrope import cli
from pjrope.experiments import ExperimentError, Result, run
from pjrope.experiments.engine import registry
from pjrope.experiments.functions.jordan_claims import (
    CONTROLS,
    ORDERS,
    PAPER,
    STRUCTURES,
    hierarchy_claim,
    product_claim,
    structure_claim,
)
from pjrope.experiments.functions.jordan_probes import fit_errors, lags_of, probe, settings
from pjrope.experiments.functions.least_squares import Fits, format_error, normal_fit, qr_fit
from pjrope.experiments.functions.spans import BASES, design

PROBES = ("kernel_probes", "structured_probes", "jet_probes")
KERNEL = settings(1024, 64, 16, 3, 5, [1])  # the paper's scale, in range
JET = settings(1024, 96, 16, 3, 5, [1])

# Mean squared errors on d < L = 1024 of the Jordan-RoPE reference code (fp32 normal equations,
# ridge 1e-4), run again at full scale: protocol of Jordan-RoPE, D.2 to D.4. The
# strings keep the digits that were printed. Left out are fits of targets that lie in the span:
# fp32 rounding is all that they show.
PUBLISHED = {
    "phase": {"none": ".501", "alibi": ".501", "damped": "4.4e-4", "real_jordan": ".501"}
    | {"jordan_bounded": "1.6e-5", "jordan_exact": "7.5e-8", "jordan_bounded_m3": "5e-7"},
    "linear": {"none": ".083", "rope": ".056", "damped": ".056", "real_jordan": "5e-6"}
    | {"jordan_bounded": "1e-5", "jordan_bounded_undamped": "1e-5", "jordan_exact": "1.1e-5"}
    | {"jordan_bounded_m3": "8e-6"},
    "mixed": {"none": ".167", "rope": ".0417", "alibi": ".167", "rope_alibi": ".0417"}
    | {"damped": ".0461", "real_jordan": ".167", "direct_sum": ".0417", "jordan_bounded": "1.85e-3"}
    | {"jordan_bounded_undamped": "1.29e-3", "jordan_exact": "3.0e-5"}
    | {"jordan_bounded_m3": "6.9e-5"},
}
_COLUMNS = ("rope", "direct_sum", "jordan_bounded", "jordan_bounded_undamped", "jordan_exact")
_STRUCTURED = {
    "phase_drift": "1.9e-5 1.9e-5 1.6e-5 5.9e-7 8e-8 5e-7",
    "seasonal_trend": ".034 .034 1.6e-3 1.0e-3 2.5e-5 6e-5",
    "damped_wave": ".019 .019 6e-4 4e-4 - 1.9e-5",
    "rhythm_envelope": ".016 .016 8e-4 5e-4 1.2e-5 2.8e-5",
    "motif_spacing": ".015 .015 3.6e-4 2e-4 1.4e-5 8e-6",
}
_JET_COLUMNS = ("rope", "jordan_bounded", "jordan_bounded_m3", "jordan_bounded_m4")
_JETS = {
    "jet_1": ".042 1.9e-3 7e-5 2.6e-5 4e-9 9e-11",
    "jet_2": ".045 8.8e-3 7e-4 2.9e-4 1.9e-6 8.5e-10",
    "jet_3": ".040 .013 2.2e-3 9.7e-4 2.3e-4 2.4e-7",
    "scaled_jet_2": ".037 6.9e-3 5e-4 2e-4 9e-11 2.6e-9",
    "scaled_jet_3": ".033 .011 1.7e-3 7.4e-4 1.6e-4 7.5e-8",
}
# Here fp64 differs by 2 % to a factor of 20: the figure is the rounding of one machine.
ROUNDED = {("linear", m) for m in ("real_jordan", "jordan_exact", "jordan_bounded_m3")}
ROUNDED |= {(t, "jordan_scaled_m4") for t in ("jet_1", "jet_2", "scaled_jet_2", "scaled_jet_3")}
ROUNDED |= {("scaled_jet_2", "jordan_scaled_m3")}


def _published():
    for target, values in PUBLISHED.items():
        yield from (("kernel", target, method, value) for method, value in values.items())
    for target, line in _STRUCTURED.items():
        for method, value in zip((*_COLUMNS, "jordan_bounded_m3"), line.split(), strict=True):
            if value != "-":
                yield "kernel", target, method, value
    for target, line in _JETS.items():
        methods = (*_JET_COLUMNS, "jordan_scaled_m3", "jordan_scaled_m4")
        for method, value in zip(methods, line.split(), strict=True):
            yield "jet", target, method, value


def _mse(chosen, target, method, solver="reference"):
    return float(fit_errors(chosen, method, target)[0][solver].double().square().mean())


@pytest.mark.parametrize(("chosen", "target", "method", "printed"), list(_published()), ids=str)
def test_the_reference_solver_gives_the_published_errors_in_range(chosen, target, method, printed):
    mse = _mse({"kernel": KERNEL, "jet": JET}[chosen], target, method)
    if (target, method) in ROUNDED:
        assert float(printed) / 2 < mse < float(printed) * 2
        return
    mantissa, _, power = printed.partition("e")
    last_digit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    assert mse == pytest.approx(float(printed), abs=0.6 * last_digit + 0.01 * float(printed))


def test_fp64_and_qr_give_the_published_errors_out_of_range_too():
    # D.2, last lines: the exact basis, ridge 1e-4, in fp64, at L, 2L, 4L and 8L; D.4: 1.58.
    errors, _, _ = fit_errors({**KERNEL, "spans": [8]}, "jordan_undamped", "mixed")
    for span, value in {1: 2.3e-13, 2: 2.5e-10, 4: 1.1e-9, 8: 5.5e-9}.items():
        mse = float(errors["QR 1e-4"][: span * 1024].square().mean())
        assert mse == pytest.approx(value, rel=0.03)
    errors, _, _ = fit_errors({**JET, "spans": [8]}, "jordan_scaled_m4", "scaled_jet_3")
    assert float(errors["QR 1e-4"].square().mean()) == pytest.approx(1.58, rel=0.01)


def test_fp32_normal_equations_lose_what_lies_in_the_span():
    assert _mse(KERNEL, "mixed", "jordan_matched", "QR") < 1e-28
    assert _mse(KERNEL, "mixed", "jordan_matched", "QR 1e-10") < 1e-24
    assert 1e-14 < _mse(KERNEL, "mixed", "jordan_matched", "reference") < 1e-10


def test_both_solvers_minimise_the_same_ridge_loss():
    generator = torch.Generator().manual_seed(0)
    columns = torch.randn(40, 6, generator=generator, dtype=torch.float64)
    values = torch.randn(40, generator=generator, dtype=torch.float64)
    for ridge in (0.0, 1e-4, 3.0):
        weights = qr_fit(columns, values, ridge)
        slope = columns.T @ (columns @ weights - values) + ridge * weights
        assert slope.abs().max() < 1e-12
        torch.testing.assert_close(normal_fit(columns, values, ridge), weights)


@pytest.mark.parametrize(
    ("columns", "methods"),
    # Protocol A.4, F = 16; the controls have the columns of order 2, 3, 4.
    [
        (1, "none"),
        (2, "alibi"),
        (3, "real_jordan"),
        (33, "rope damped"),
        (34, "rope_alibi"),
        (36, "direct_sum direct_sum_powers"),
        (65, "jordan_bounded jordan_exact jordan_matched rope_fine2 rope_split2 rope_full"),
        (97, "jordan_bounded_m3 jordan_matched_m3 rope_fine3 rope_split3"),
        (129, "jordan_bounded_m4 jordan_scaled_m4 rope_fine4 rope_split4"),
    ],
)
def test_bases_have_the_columns_they_are_matched_by(columns, methods):
    lags = lags_of(KERNEL, "mixed", torch.float64, "cpu")
    for method in methods.split():
        assert design(method, lags).shape == (1024, columns), method


def test_the_columns_of_a_jet_against_a_loop():
    lags = lags_of(settings(8, 16, 2, 1, 0, [2]), "scaled_jet_2", torch.float64, "cpu")
    for method, rate, bounded in (
        ("jordan_matched_m3", 0.1, False),
        ("jordan_undamped_m3", 0.0, False),
        ("jordan_bounded_m3", 0.1024, True),
    ):
        made = design(method, lags)
        assert made.shape == (16, 13)
        for d in range(16):
            x = d / 8
            t = x / (1 + x) if bounded else x
            wanted = [1.0] + [
                t**k / math.factorial(k) * math.exp(-rate * x) * wave(10_000 ** (-2 * b / 16) * d)
                for k in range(3)
                for wave in (math.cos, math.sin)
                for b in range(2)
            ]
            torch.testing.assert_close(made[d], torch.tensor(wanted, dtype=torch.float64))


def test_split_frequencies_are_centred_on_the_ladder_and_finer_ladders_contain_it():
    lags = lags_of(KERNEL, "mixed", torch.float64, "cpu")
    parts = lags.split_ladder(3).view(16, 3)
    torch.testing.assert_close(parts[:, 1], lags.ladder())
    torch.testing.assert_close(parts.diff(dim=1), torch.full((16, 2), 0.1 / 1024).double())
    torch.testing.assert_close(lags.ladder(4)[::4], lags.ladder())
    torch.testing.assert_close(lags.full_ladder()[:16], lags.ladder())


def test_columns_short_of_full_rank_have_no_fit_without_a_ridge():
    assert "QR" in fit_errors(KERNEL, "jordan_exact", "mixed")[0]
    errors, _, columns = fit_errors(KERNEL, "rope_full", "mixed")
    assert set(errors) == {"QR 1e-10", "QR 1e-4", "reference"}
    assert torch.linalg.cond(columns) > 1e12


@pytest.mark.parametrize("name", PROBES)
def test_smoke_runs_are_quick_complete_and_refuse_other_seeds(name, tmp_path):
    start = time.process_time()
    result = run(name, out=tmp_path, progress=False)
    assert time.process_time() - start < 6
    experiment = registry.get(name)
    wanted = {
        (c.key["target"], c.key["method"]) for c in experiment.grid(experiment.preset("smoke"), [0])
    }
    assert {(row["target"], row["method"]) for row in result.rows} == wanted
    fields = {"length", "ridge", "solver", "mse", "r2", "columns", "condition", "seed"}
    assert all(fields <= row.keys() and "not_finite" not in row for row in result.rows)
    assert {row["length"] for row in result.rows} == {64, 128, 256, 512}
    assert experiment.sentences(result)
    (verdict,) = [rule(result) for rule in experiment.verdicts.values()]
    assert verdict.evidence.findings and verdict.evidence.scale.longest == 512
    with pytest.raises(ExperimentError, match="nothing in it is random"):
        run(name, seeds=[1], out=tmp_path, progress=False)


def test_show_prints_all_three_with_the_reference_beside(tmp_path, capsys):
    for name in PROBES:
        assert cli.main(["run", name, "--out", str(tmp_path), "--device", "cpu"]) == 0
    capsys.readouterr()
    assert cli.main(["show", *PROBES, "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "| L QR | " in " ".join(told.split()) and "8L reference |" in told
    assert all(f"- J-K{n}, " in told for n in (1, 2, 3))
    assert told.count("Deterministic:") == 3 and "interval" not in told and "±" not in told


def test_a_filtered_run_has_no_sentences_and_tests_nothing(tmp_path):
    only = {"method": ["rope", "jordan_exact"]}
    result = run("kernel_probes", only=only, out=tmp_path, progress=False)
    experiment = registry.get("kernel_probes")
    assert experiment.sentences(result) == []
    assert experiment.verdicts["J-K1"](result).outcome == "not tested"


def test_a_probe_refuses_a_basis_that_does_not_exist():
    with pytest.raises(ExperimentError, match="'rope_split9' is neither a target nor a basis"):
        probe("p", "?", "J-K1", {}, ("mixed",), ("rope_split9",), (), product_claim, list)


def _fits(targets, errors, default=1.0):
    """Made-up fits: (target, method, span, solver) → relative error, `default` elsewhere."""
    rows = []
    for target in targets:
        for method in BASES:
            for span in ("L", "8L"):
                for solver in ("QR", "QR 1e-10", "QR 1e-4"):
                    key = (target, method, span, solver)
                    hits = [v for k, v in errors.items() if all(part in key for part in k)]
                    row = dict(zip(("target", "method", "span", "solver"), key, strict=True))
                    rows.append({**row, "relative_error": hits[-1] if hits else default})
    return Fits(Result(rows, {"settings": {"length": 64, "spans": [1, 8]}}), solver="QR 1e-4")


IN_PART, NOT = "reproduced in part", "contradicted"


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "reproduced"),
        ({("jordan_exact", "8L", "QR 1e-4"): 2.0}, IN_PART),
        ({("jordan_matched", "8L", "QR 1e-4"): 1e-6}, IN_PART),
        ({("jordan_matched", "8L"): 1e-6}, NOT),
        ({("rope_split2", "8L", "QR 1e-4"): 1e-10}, NOT),
    ],
)
def test_the_rule_of_k1(changes, outcome):
    errors = {("jordan_exact",): 1e-3, ("jordan_matched",): 1e-12, **changes}
    assert product_claim(_fits(("mixed", "linear"), errors)).outcome == outcome


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "reproduced"),
        ({("jordan_matched", "8L", "motif_spacing"): 0.2}, IN_PART),
        ({("jordan_matched", "8L", "damped_wave"): 0.2}, NOT),
        ({("rope", "8L", "damped_wave"): 1e-10}, NOT),
    ],
)
def test_the_rule_of_k2(changes, outcome):
    found = structure_claim(_fits(STRUCTURES, {("jordan_matched",): 1e-12, **changes}))
    assert found.outcome == outcome
    assert ("motif_spacing" in found.because) == (outcome == IN_PART)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "reproduced"),
        ({("jet_2", ORDERS[4], "8L", "QR 1e-4"): 1e-3}, IN_PART),
        ({("jet_3", ORDERS[4], "8L", "QR"): 1e-3}, NOT),
        ({("jet_2", ORDERS[2], "8L", "QR"): 1e-3}, NOT),
    ],
)
def test_the_rule_of_k3(changes, outcome):
    held = {(f"jet_{r}", ORDERS[m]): 1e-12 for m in ORDERS for r in range(1, m)}
    found = hierarchy_claim(_fits(("jet_1", "jet_2", "jet_3"), {**held, **changes}))
    assert found.outcome == outcome


def test_controls_are_not_among_the_papers_bases_and_errors_read_well():
    assert len(PAPER) == 11 and not {*PAPER} & {*CONTROLS}
    assert [format_error(e) for e in (5.1e-10, 0.19, 14.2, 1400.0)] == [
        "5.1e-10",
        "0.19",
        "14",
        "1,400",
    ]
