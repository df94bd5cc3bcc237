"""Heads learn as if alone, diagnostics name what a kernel is made of, and the rules of G1 to G3."""

from __future__ import annotations

import itertools
import math
import time

import pytest
import torch

from pjrope.experiments import Cell, CellContext, Preset, Result, get, run
from pjrope.experiments.functions.adaptive_spectrum.claims import CYCLED, INITIAL, RULES, sentences
from pjrope.experiments.functions.adaptive_spectrum.spectrum import MAX_ORDER, fit, learner, rows_of
from pjrope.experiments.functions.fixed_kernel import TARGETS
from pjrope.experiments.functions.spans import Lags
from pjrope.experiments.functions.teachers import TEACHERS
from pjrope.kernels.pj_init import SECTORS

LENGTH, CYCLES = 64, 5


def _teacher(name, times=1):
    return TEACHERS[name].values(Lags(torch.arange(times * LENGTH).double(), LENGTH, CYCLES))


def test_heads_of_a_batch_learn_as_if_alone():
    teacher, lags = _teacher("recency_weak_jet"), torch.arange(LENGTH)
    together = learner(LENGTH, CYCLES, 3, INITIAL, range(2))
    fit(together, teacher, 12)
    for i, name in enumerate(INITIAL):
        for k in range(2):
            alone = learner(LENGTH, CYCLES, 3, [name], [k])
            fit(alone, teacher, 12)
            ours = together.lag_bias(lags)[2 * i + k]
            torch.testing.assert_close(ours, alone.lag_bias(lags)[0], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(together.gates[2 * i + k], alone.gates[0], atol=1e-4, rtol=0)


def test_the_start_is_the_protocols():
    kernel = learner(1024, 17, 0, INITIAL, range(2))
    assert kernel.bias_heads == 10 and kernel.max_order == MAX_ORDER == 3
    gates = {name: kernel.gates[2 * i].tolist() for i, name in enumerate(INITIAL)}
    weight = math.exp(-0.2)
    expected = [1 / (1 + 2 * weight), weight / (1 + 2 * weight), weight / (1 + 2 * weight)]
    assert gates["protocol"] == pytest.approx(expected)
    assert gates["uniform"] == pytest.approx([1 / 3] * 3)
    for n, sector in enumerate(SECTORS):
        assert gates[sector][n] == pytest.approx(0.9647, abs=1e-4)
    assert torch.equal(kernel.slope, torch.zeros(10)) and not kernel.omega.requires_grad
    assert kernel.omega.tolist() == pytest.approx([2 * math.pi * 17 / 1024] * 10)
    assert kernel.damping.tolist() == pytest.approx([math.log1p(math.exp(-2))] * 10)
    zeta = torch.stack([kernel.fj_zeta_re, kernel.fj_zeta_im, kernel.lc_zeta_re, kernel.lc_zeta_im])
    pairs = zeta.view(4, 5, 2, 4)
    assert torch.equal(pairs[:, :1].expand(-1, 5, -1, -1), pairs), "the same for every gate"
    assert not torch.equal(pairs[:, 0, 0], pairs[:, 0, 1]), "another for every restart"
    many = learner(64, 5, 1, ["uniform"], range(200))
    assert float(many.fj_zeta_re.detach().std()) == pytest.approx(0.05, rel=0.1)


def test_cycled_restarts_prefer_another_order_each_and_others_none():
    kernel = learner(64, 5, 0, ["cycled", "uniform"], range(5))
    for weights in (kernel.fj_alpha_logits.softmax(-1), kernel.lc_alpha_logits.softmax(-1)):
        assert weights[:5].argmax(-1).tolist() == [0, 1, 2, 3, 0]
        assert weights[:5].max(-1).values.tolist() == pytest.approx([0.948] * 5, abs=1e-3)
        assert torch.equal(weights[5:], torch.full((5, 4), 0.25))
    assert torch.equal(kernel.gates[0], learner(64, 5, 0, ["protocol"], [0]).gates[0])


def test_a_training_step_is_adams_on_the_mean_squared_error():
    teacher, lags = _teacher("linear"), torch.arange(LENGTH)
    kernel, twin = (learner(LENGTH, CYCLES, 0, ["uniform"], [0]) for _ in range(2))
    fit(kernel, teacher, 1)
    (twin.lag_bias(lags)[0] - teacher).square().mean().backward()
    for name, before in twin.named_parameters():
        if before.grad is not None and name != "omega":
            moved = (dict(kernel.named_parameters())[name] - before) / -3e-2
            expected = before.grad / (before.grad.abs() + 1e-8)
            torch.testing.assert_close(moved, expected, atol=1e-3, rtol=0)
    assert torch.equal(kernel.omega, twin.omega)


def test_affine_slopes_of_either_sign_are_learned():
    for sign in (1, -1):
        kernel = learner(LENGTH, CYCLES, 0, ["affine"], [0])
        fit(kernel, sign * _teacher("linear"), 400)
        row = rows_of(kernel, "linear", sign * _teacher("linear", 4), LENGTH, [0])[0]
        assert row["train_mse"] < 1e-4 and row["sector_by_rms"] == "affine"
        assert row["slope"] == pytest.approx(-sign, abs=0.1), "b = -slope d/L"


def _handmade(sector, order, slope=0.0):
    kernel = learner(LENGTH, CYCLES, 0, ["uniform"], [0])
    with torch.no_grad():
        for name, value in kernel.named_parameters():
            if "zeta" in name:
                value.zero_()
        kernel.affine_slope.fill_(slope)
        if order is not None:
            getattr(kernel, f"{sector}_zeta_re")[0, order] = 12.0  # gate 1/3, weight 1/4
    return kernel


@pytest.mark.parametrize("order", range(4))
def test_diagnostics_name_the_order_a_kernel_is_made_of(order):
    kernel = _handmade("fj", order)
    own = kernel.lag_bias(torch.arange(4 * LENGTH))[0].detach()
    row = rows_of(kernel, "phase", own, LENGTH, [0])[0]
    assert {row[f"order_by_{name}"] for name in ("mass", "energy", "loo")} == {order}
    assert {row[f"sector_by_{name}"] for name in ("mass", "rms")} == {"fj"}
    assert row[f"mass_{order}"] == row["mass_fj"] == 1.0 and row[f"energy_{order}"] == 1.0
    assert row["eval_mse"] == 0 and row["eval_r2"] == 1 and row["mass_affine"] == 0
    assert row[f"loo_{order}"] == pytest.approx(float(own.square().mean()), rel=1e-3)
    assert sum(row[f"loo_{r}"] for r in range(4)) == row[f"loo_{order}"]
    assert row["rms_own"] == 1 and row["mass_own"] == (1 if order == 0 else 0)


def test_gates_can_lie_where_functions_do_not():
    kernel = _handmade("lc", 0, slope=3.0)
    with torch.no_grad():
        kernel.gate_logits.copy_(torch.tensor([[4.0, 0.0, 0.0]]))
        kernel.lc_zeta_re.mul_(60)
    row = rows_of(kernel, "lc_core", _teacher("lc_core", 4), LENGTH, [0])[0]
    assert row["sector_by_gate"] == "fj" and row["rms_fj"] == 0
    assert row["sector_by_rms"] == row["sector_by_mass"] == "lc"
    assert row["slope"] == pytest.approx(3.0 * row["gate_affine"], rel=1e-3)
    expected = row["slope"] * math.sqrt((LENGTH**2 - 1) / 12) / LENGTH
    assert row["rms_affine"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", ["adaptive_spectrum", "adaptive_spectrum/frequencies"])
def test_the_restart_that_fits_best_on_d_below_L_is_told_of(name, tmp_path):
    settings = {"length": LENGTH, "times": 4, "restarts": 3, "steps": 40, "initial": ["lc", "fj"]}
    preset = Preset("smoke", (0,), settings | {"cycles": [CYCLES]}, "1 core-second")
    which = {"target": "third_jet", "cycles": CYCLES, "seed": 0}
    cell = Cell({"method": settings["initial"], **which})
    rows = get(name).run_cell(cell, CellContext(tmp_path, "cpu", False, preset))
    teacher = _teacher("third_jet")
    chosen = []
    for row, initial in zip(rows, settings["initial"], strict=True):
        kernel = learner(LENGTH, CYCLES, 0, [initial], range(3))
        fit(kernel, teacher, settings["steps"])
        error = (kernel.lag_bias(torch.arange(LENGTH)) - teacher).detach().square().mean(1)
        assert error.max() > 1.05 * error.min(), "restarts that differ, or nothing is chosen"
        assert row["method"] == initial and row["restart"] == int(error.argmin())
        assert row["train_mse"] == pytest.approx(float(error.min()), rel=1e-2)
        chosen.append(row["restart"])
    assert any(chosen), "not the first restart of every start"


@pytest.mark.parametrize(
    ("name", "cycles"), [("adaptive_spectrum", {5}), ("adaptive_spectrum/frequencies", {5})]
)
def test_smoke_runs_are_quick_and_say_something(name, cycles, tmp_path):
    start = time.process_time()
    result = run(name, out=tmp_path, progress=False)
    assert time.process_time() - start < 6
    initial = get(name).presets["smoke"].settings["initial"]
    found = [(row["target"], row["method"]) for row in result.rows]
    assert found == [(t, m) for t in TARGETS for m in initial]
    assert {row["cycles"] for row in result.rows} == cycles
    told = get(name).sentences(result)
    assert all(any(s.startswith(f"{t}: ") for s in told) for t in TARGETS)
    few = result.where(method=["uniform"])
    assert get(name).sentences(result.where(target=["phase"])) == []
    assert get(name).sentences(few) == []
    assert {rule(few).outcome for rule in get(name).verdicts.values()} == {"not tested"}


CARD = {"settings": {"length": 1024, "times": 4, "steps": 1000}}


def _rows(seeds=(0, 1), **changes):
    """Made-up runs in which every diagnostic is right, but where changed: target → fields."""
    rows = []
    for target, seed in itertools.product(TARGETS, seeds):
        teacher = TEACHERS[target]
        order = teacher.order or 0
        for method in INITIAL:
            row = {"target": target, "method": method, "seed": seed, "cycles": 17}
            row |= {"train_mse": 1e-6, "eval_r2": 0.99}
            row |= {f"rms_{s}_far": 2.0 if s == teacher.sector else 0.5 for s in SECTORS}
            row |= {f"sector_by_{n}": teacher.sector for n in ("gate", "mass", "rms")}
            row |= {f"order_by_{n}": order for n in ("mass", "energy", "loo")}
            row |= {f"loo_{r}": 1.0 if r == order else 0.01 for r in range(4)}
            row |= {f"{n}_{s}": 0.5 for n in ("gate", "rms") for s in SECTORS}
            starts, fields = changes.get(target, ((), {}))
            rows.append(row | (fields if method in starts else {}))
    return Result(rows, CARD)


LOST = {"sector_by_gate": "affine"}
OTHER = {"order_by_mass": 9}


@pytest.mark.parametrize(
    ("claim", "changes", "word"),
    [
        ("G1", {}, "reproduced"),
        ("G1", {"phase": (["lc"], LOST)}, "reproduced in part"),
        ("G1", {"phase": (["protocol"], LOST)}, "contradicted"),
        ("G2", {}, "reproduced"),
        ("G2", {"linear": (INITIAL, OTHER)}, "reproduced"),
        ("G2", {"lc_core": (["uniform"], OTHER)}, "reproduced in part"),
        ("G2", {"lc_core": (["protocol"], OTHER)}, "contradicted"),
        ("G3", {}, "reproduced"),
        ("G3", {"third_jet": (["protocol"], {"loo_2": 0.1})}, "reproduced in part"),
        ("G3", {"third_jet": (["lc"], {"order_by_energy": 2})}, "reproduced in part"),
        ("G3", {"third_jet": (["protocol"], {"order_by_energy": 2})}, "contradicted"),
        ("G3", {"lc_core": (INITIAL, {"order_by_loo": 2})}, "reproduced"),
    ],
)
def test_the_rules_of_g1_to_g3(claim, changes, word):
    assert RULES[f"P-{claim}"](_rows(**changes)).outcome == word


def _with_cycled(rows, **fields):
    """Rows with runs from "cycled" beside them, made of those from the protocol's start."""
    return Result([*rows, *({**r, "method": CYCLED, **fields} for r in rows[::5])], CARD)


def test_the_start_of_the_protocols_own_probe_decides_where_there_is_one():
    rows = _with_cycled(_rows(third_jet=(["protocol"], OTHER)).rows)
    assert RULES["P-G2"](rows).outcome == "contradicted", "rows[::5] are protocol's"
    found = RULES["P-G2"](_with_cycled(_rows(third_jet=(["uniform"], OTHER)).rows, cycles=5))
    assert found.outcome == "reproduced in part"
    assert found.because.endswith("not on third_jet at 17 turns (from uniform 2x)")


def test_what_uniform_gates_do_not_recover_is_named():
    told = sentences(_rows(phase=(["uniform"], LOST), linear=(INITIAL, OTHER)))
    first, second = (s for s in told if s.startswith("From uniform gates"))
    assert "7 of 8 teachers in every run; not always of phase (0 of 2)" in first
    assert "8 of 8 teachers in every run." in second
    found = RULES["P-G1"](_rows(phase=(["uniform"], LOST)))
    assert found.because.endswith("; not on phase (from uniform 2x)")


def test_one_seed_judges_nothing():
    lacking = [r for r in _rows().rows if r["seed"] == 0 or r["target"] != "phase"]
    for result in (_rows(seeds=(0,)), Result(lacking, CARD)):
        assert RULES["P-G1"](result).outcome == "undecided"


def test_a_run_that_did_not_fit_is_excluded_and_named_and_the_limit_fits():
    short = {**OTHER, "eval_r2": 0.8999}
    found = RULES["P-G2"](_rows(third_jet=(["uniform"], short)))
    assert found.outcome == "reproduced"
    (out,) = found.evidence.excluded
    assert (out.of, len(out.runs)) == (70, 2) and "third_jet uniform cycles 17 seed 0" in out.runs
    found = RULES["P-G2"](_rows(phase=(["lc"], {**OTHER, "eval_r2": 0.9})))
    assert found.outcome == "reproduced in part" and not found.evidence.excluded[0].runs
    told = sentences(_rows(third_jet=(["uniform"], short)))
    assert next(s for s in told if s.startswith("third_jet: ")).endswith("; 2 do not fit.")


def test_a_teacher_without_a_fit_from_the_protocols_start_is_not_tested():
    found = RULES["P-G2"](_rows(third_jet=(["protocol"], {"eval_r2": 0.5})))
    assert found.outcome == "not tested" and "no run that fits" in found.because


def test_the_sentence_says_where_rms_hangs_on_its_window():
    far = {"rms_fj_far": 9.0}
    told = sentences(_rows(recency_weak_jet=(["lc", "fj"], far), phase=(["fj"], far)))
    line = next(s for s in told if s.startswith("Rms names"))
    assert line.endswith("another in 4 of 80 runs: fj on recency_weak_jet in 4.")
    assert any(s.endswith("names another in 0 of 80 runs.") for s in sentences(_rows()))


@pytest.mark.parametrize(
    ("others", "outcome"),
    [
        ((-0.02, -0.03), "reproduced"),
        ((0.04, 0.05), "reproduced"),
        ((0.06, 0.0), "reproduced in part"),
    ],
)
def test_another_order_may_be_worth_a_twentieth(others, outcome):
    result = _rows()
    for row in result.rows:
        rest = [r for r in range(4) if r != (TEACHERS[row["target"]].order or 0)]
        row |= {f"loo_{r}": value for r, value in zip(rest, (*others, others[1]), strict=True)}
    assert RULES["P-G3"](result).outcome == outcome
