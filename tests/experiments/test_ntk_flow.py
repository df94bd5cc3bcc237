"""Steps are the package's NTK, jets are Taylor's, and the range of the flow picture is counted."""

from __future__ import annotations

import cmath
import math
import time

import pytest
import torch

from pjrope.experiments import ExperimentError, Result, get, run
from pjrope.experiments.functions.ntk_flow import approximations, relative_error, steps
from pjrope.experiments.functions.ntk_flow_claims import METHODS, flow_claim, held_to, law, reach
from pjrope.kernels import RoPE
from pjrope.positions.extensions import NTK


def r_squared(made, values):
    return 1 - relative_error(made, values)


def _lags(n):
    return torch.arange(n).double()


def test_delta_is_what_ntk_scaling_adds_to_ropes_scores():
    head_dim, s, zeta = 8, 4.0, complex(0.6, -0.8)
    omega, step = steps(head_dim, s)
    for rung in range(1, head_dim // 2):
        q, k = (torch.zeros(1, 1, 1, head_dim, dtype=torch.float64) for _ in range(2))
        q[..., 2 * rung] = 1.0
        k[..., 2 * rung], k[..., 2 * rung + 1] = zeta.real, -zeta.imag
        pos, zero = _lags(50).long(), torch.zeros(1).long()
        scores = []
        for extension in (NTK(scale=s), None):
            kernel = RoPE(head_dim, extension=extension)
            turned, other = kernel.rotate(q.expand(1, 1, 50, -1), k, pos, zero)
            scores.append((turned @ other.mT)[0, 0, :, 0])
        delta, _, _ = approximations(float(omega[rung]), float(step[rung]), _lags(50), 50)
        expected = (zeta.conjugate() * delta.conj()).real  # e^{-iwd} is the sign of the rotation
        torch.testing.assert_close(scores[0] - scores[1], expected, atol=1e-6, rtol=0)


def test_the_fastest_rung_stays_and_the_slowest_is_divided_by_s():
    omega, step = steps(16, 8.0)
    assert step[0] == 0 and (step[1:] < 0).all()
    assert float(1 + step[-1] / omega[-1]) == pytest.approx(1 / 8)


def test_taylors_jets_against_a_loop():
    omega, step = 0.7, -0.03
    delta, made, _ = approximations(omega, step, _lags(40), 40)
    for d in range(40):
        wave, u = cmath.exp(1j * omega * d), step * d
        assert complex(delta[d]) == pytest.approx(cmath.exp(1j * (omega + step) * d) - wave)
        for order in (1, 2, 3):
            jets = sum((1j * u) ** r / math.factorial(r) for r in range(1, order + 1))
            assert complex(made[f"taylor_{order}"][d]) == pytest.approx(wave * jets)


def test_least_squares_beats_taylor_where_it_is_fitted_and_more_jets_beat_fewer():
    delta, made, ratio = approximations(0.3, -0.002, _lags(1000), 1000)
    fits = {name: r_squared(values, delta) for name, values in made.items()}
    assert fits["taylor_1"] < fits["fitted_jet"] < fits["fitted_1"]
    assert fits["fitted_1"] < fits["fitted_2"] < fits["fitted_3"] < 1
    assert fits["taylor_3"] < fits["fitted_3"] and 0.5 < ratio < 1
    _, short, near = approximations(0.3, -0.002, _lags(1000), 100)
    assert near == pytest.approx(1, abs=0.02), "a small angle: Taylor's coefficient"
    early = r_squared(short["fitted_jet"], delta)
    assert early < fits["fitted_jet"], "it did not see the rest"


def test_a_fit_is_the_least_squares_of_both_quadratures():
    lags = _lags(200)
    delta, made, ratio = approximations(0.9, -0.01, lags, 200)
    jet = lags * torch.polar(torch.ones_like(lags), 0.9 * lags)
    inner = torch.vdot(jet, delta) / torch.vdot(jet, jet).real
    torch.testing.assert_close(made["fitted_jet"], inner * jet)
    assert ratio == pytest.approx(float((inner / (1j * -0.01)).real))


def test_r_squared_of_complex_numbers_pools_real_and_imaginary_zeta():
    delta, made, _ = approximations(0.8, -0.02, _lags(60), 60)
    rest = whole = 0.0
    for zeta in (1, 1j):
        y, y_hat = (zeta * delta).real, (zeta * made["taylor_1"]).real
        rest, whole = rest + (y - y_hat).square().sum(), whole + (y - y.mean()).square().sum()
    assert r_squared(made["taylor_1"], delta) == pytest.approx(float(1 - rest / whole))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_fast_carrier_leaves_a_law_of_the_angle_alone(order):
    edge = reach(order)
    assert law(order, edge) == pytest.approx(0.9, abs=1e-6)
    assert law(order, edge * 0.9) > 0.9 > law(order, edge * 1.1)
    for omega, length in ((0.8, 2000), (1.7, 5000)):
        delta, made, _ = approximations(omega, edge / length, _lags(length), length)
        assert r_squared(made[f"taylor_{order}"], delta) == pytest.approx(0.9, abs=0.003)


def test_the_law_for_small_angles_by_hand():
    # Order 1 leaves u^2/2 of u: its square over that of u is (U^4/20) / (U^2/3), or 3 U^2/20.
    assert 1 - law(1, 0.1) == pytest.approx(3 * 0.1**2 / 20, rel=0.01)


def test_smoke_run_is_quick_complete_and_refuses_other_seeds(tmp_path):
    start = time.process_time()
    result = run("ntk_flow", out=tmp_path, progress=False)
    assert time.process_time() - start < 6
    settings = get("ntk_flow").presets["smoke"].settings
    rungs = range(1, settings["head_dim"] // 2)
    cells = {(row["factor"], row["rung"]) for row in result.rows}
    assert cells == {(f, r) for f in settings["factors"] for r in rungs}
    assert {row["method"] for row in result.rows} == {*METHODS}
    for row in result.rows:
        window = settings["length"] * (1 if row["window"] == "L" else row["factor"])
        step = float(steps(settings["head_dim"], row["factor"])[1][row["rung"]])
        assert row["angle"] == pytest.approx(abs(step) * round(window), rel=1e-3)
        assert row["relative_error"] == pytest.approx(1 - row["r2"], rel=1e-2, abs=1e-4)
    assert any("U = 0.81 (order 1)" in s for s in get("ntk_flow").sentences(result))
    assert get("ntk_flow").sentences(result.where(method=["taylor_1"])) == []
    assert get("ntk_flow").sentences(result.where(factor=2)) == []
    with pytest.raises(ExperimentError, match="nothing in it is random"):
        run("ntk_flow", seeds=[1], out=tmp_path, progress=False)


def test_the_range_is_up_to_the_first_failure_and_none_holds_after_the_last_success():
    rows = [{"angle": u, "r2": r2} for u, r2 in ((3, 0.2), (1, 0.99), (2, 0.5), (2.5, 0.95))]
    assert held_to(rows) == (1, 3)
    assert held_to(rows[1:2]) == (1, math.inf)
    assert held_to(rows[:1]) == (0.0, 3)


@pytest.mark.parametrize(
    ("errors", "outcome"),
    [
        ({0.5: 0.001, 3.0: 0.01}, "reproduced"),
        ({0.5: 0.01, 3.0: 0.2}, "reproduced in part"),
        ({0.5: 0.02, 3.0: 0.01}, "contradicted"),
        ({3.0: 0.001}, "not tested"),
    ],
)
def test_the_rule_of_n1(errors, outcome):
    row = {"method": "fitted_jet", "window": "L", "factor": 1.1, "seed": 0}
    rows = [{**row, "angle": u, "relative_error": error} for u, error in errors.items()]
    rows.append({**row, "factor": 2, "angle": 0.1, "relative_error": 1.0})
    found = flow_claim(Result(rows, {"settings": {"length": 64}}))
    assert (found.claim, found.outcome) == ("P-N1", outcome)
