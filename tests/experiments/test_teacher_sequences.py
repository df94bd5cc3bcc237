"""The teachers' languages are what they say, and read-outs cannot be faked."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest
import torch

from pjrope.diagnostics import regauge
from pjrope.experiments import get, run
from pjrope.experiments.analysis.report import report
from pjrope.experiments.engine.plain_json import plain
from pjrope.experiments.engine.spec import Preset
from pjrope.experiments.sequences.language import QUERY
from pjrope.experiments.sequences.teachers.judging import JETS, PLAIN
from pjrope.experiments.sequences.teachers.language import TEACHERS, Language, majority_accuracy
from pjrope.experiments.sequences.teachers.methods import METHODS, SECTORS, make_model, start
from pjrope.experiments.sequences.teachers.readouts import lead, leads, state
from pjrope.kernels import PJBias, PJInit
from pjrope.training import stream

GRIDS = ["teacher_sequences"] + [f"teacher_sequences/{n}" for n in ("support", "inits", "grape")]
SETTINGS = get("teacher_sequences").presets["book"].settings
LEARNERS = [name for name in METHODS if name != "majority"]


def _language(teacher: str, sharpness: float | None = None, length: int = 48) -> Language:
    return Language(teacher, sharpness, length, 17.0)


def _key(method: str, **changes) -> dict:
    free = {"qk": "free"} if method.startswith("rope") else {}
    return {"teacher": "first_jet", "method": method, "seed": 3, **PLAIN, **free, **changes}


def _model(method: str, **changes):
    return make_model(_key(method, **changes), SETTINGS, _language("first_jet"))


# The language ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sharpness", [None, 8.0])
def test_labels_are_those_of_a_slow_loop(sharpness):
    length, n, cycles = 16, 40, 3.0
    omega = 2 * math.pi * cycles / length

    def k(d: int) -> float:
        x = d / length
        return x**2 * math.exp(-0.1 * x) * math.cos(omega * d)

    raw = [k(d) for d in range(1, n)]
    if sharpness is None:
        weights = [value / math.sqrt(sum(v * v for v in raw)) for value in raw]
    else:
        weights = [math.exp(sharpness * v) / sum(math.exp(sharpness * u) for u in raw) for v in raw]
    language = Language("second_jet", sharpness, length, cycles)
    assert language.weights(n - 1).tolist() == pytest.approx(weights, abs=1e-12)
    tokens, labels = language.sampler()(stream(0), 50, n)
    assert bool((tokens[:, -1] == QUERY).all()) and bool((tokens[:, :-1] < 2).all())
    scores = [
        sum(weights[d - 1] * (2 * row[n - 1 - d] - 1) for d in range(1, n))
        for row in tokens.tolist()
    ]
    assert labels.flatten().tolist() == [int(score > 0) for score in scores]


# Figures of the PJ-RoPE protocol, C3: L = 96, at 96 and 192 tokens.
@pytest.mark.parametrize(
    ("sharpness", "expected"), [(4, (86, 139)), (8, (68, 92)), (16, (42, 46)), (24, (28, 29))]
)
def test_support_of_the_weak_jet_teacher_is_the_protocols(sharpness, expected):
    language = _language("recency_weak_jet", float(sharpness), length=96)
    assert (language.support(95), language.support(191)) == pytest.approx(expected, abs=0.6)


# Protocol, trap T34: the vote that learns nothing, at lambda 4 and 16.
@pytest.mark.parametrize(("sharpness", "expected"), [(4.0, 0.864), (16.0, 0.688)])
def test_majority_vote_answers_what_the_protocol_says(sharpness, expected):
    exam = _language("recency_weak_jet", sharpness).sampler()(stream(5), 20_000, 48)
    assert majority_accuracy(*exam) == pytest.approx(expected, abs=0.02)


def test_median_threshold_halves_the_batch_and_disagrees_with_zero_on_a_few():
    language = _language("first_jet")
    tokens, zero = language.sampler()(stream(1), 400, 48)
    same, median = language.sampler("median")(stream(1), 400, 48)
    assert torch.equal(tokens, same)
    assert int(median.sum()) == 200 and int(zero.sum()) != 200
    assert 0 < int((median != zero).sum()) < 40


def test_unknown_words_are_refused_by_name():
    with pytest.raises(ValueError, match=r"fourth_jet.*third_jet"):
        _language("fourth_jet")
    with pytest.raises(ValueError, match="sharpness is 0"):
        _language("affine", 0.0)
    with pytest.raises(ValueError, match="'mean': choose from zero, median"):
        _language("affine").sampler("mean")
    with pytest.raises(ValueError, match="there are none, affine"):
        _model("alibi")


# Models and starts ----------------------------------------------------------------------------


def test_methods_share_a_backbone_but_for_q_and_k_that_are_frozen_at_zero():
    def backbone(method: str) -> dict:
        named = _model(method).decoder.named_parameters()
        return {
            n: p
            for n, p in named
            if ".kernel." not in n and ".query." not in n and ".key." not in n
        }

    first = backbone("none")
    for method in LEARNERS:
        other = backbone(method)
        assert all(torch.equal(first[n], other[n]) for n in first), method
    layer = _model("full").decoder.blocks[0].attention
    frozen = [*layer.query.parameters(), *layer.key.parameters()]
    assert all(not p.requires_grad and not bool(p.any()) for p in frozen)
    assert _model("full", qk="free").decoder.blocks[0].attention.query.weight.requires_grad


def test_none_reads_the_bits_as_a_bag_and_never_the_query():
    tokens, _ = _language("first_jet").sampler()(stream(0), 8, 48)
    shuffled = torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], 1)
    torch.testing.assert_close(_model("none")(tokens), _model("none")(shuffled), atol=1e-5, rtol=0)
    moved = (_model("affine")(tokens) - _model("affine")(shuffled)).abs().max()
    assert float(moved.detach()) > 1e-3
    with torch.no_grad():  # a value of QUERY's own would move this answer
        model = _model("none")
        layer = model.decoder.blocks[0].attention
        seen = []
        layer.out.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        model(tokens)
        values = layer.value(
            model.decoder.blocks[0].attention_norm(model.decoder.embedding(tokens))
        )
    torch.testing.assert_close(seen[0][:, 0], values[:, :-1].mean(1), atol=1e-6, rtol=0)


def test_rope_with_frozen_q_and_k_is_refused():
    with pytest.raises(ValueError, match="rope_given acts on q and k"):
        _model("rope_given", qk="frozen")


def test_rope_given_and_the_given_heads_turn_at_the_teachers_frequency():
    omega = _language("first_jet").omega
    assert omega == pytest.approx(2 * math.pi * 17 / 48)
    rope, own = (_model(m).kernels[0].omega.tolist() for m in ("rope_given", "rope"))
    assert rope[0] == pytest.approx(omega) and rope[1:] == pytest.approx(own[1:])
    ladder = _model("fj").kernels[0].omega.tolist()
    assert ladder == pytest.approx([2 * math.pi / 48, omega])
    assert _model("fj", omega="given").kernels[0].omega.tolist() == pytest.approx([omega, omega])


def test_right_and_wrong_starts_favor_and_avoid_the_teachers_room():
    assert start("third_jet", "right", 2.0) == PJInit(gates="fj", order=3)
    assert start("third_jet", "wrong", 2.0) == PJInit(gates="lc", order=1)
    assert start("affine", "right", 0.4) == PJInit(gates="affine", slope=0.4)
    assert start("lc_core", "wrong", 2.0) == PJInit(gates="fj", order=2)
    for teacher in TEACHERS:
        assert start(teacher, "uniform", 2.0) == PJInit()
    with pytest.raises(ValueError, match="uniform, right, wrong"):
        start("affine", "auto", 2.0)


# Read-outs ------------------------------------------------------------------------------------


def test_lead_is_a_share_minus_the_largest_other():
    assert lead([3.0, 1.0, 0.0], 0) == pytest.approx(0.5)
    assert lead([3.0, 1.0, 0.0], 1) == pytest.approx(-0.5)
    assert lead([1.0, 1.0], 0) == 0.0
    assert lead([0.0, 0.0, 0.0], 0) == 0.0


def test_leads_are_those_of_the_last_head():
    kernel = PJBias(2, 48, max_order=3)
    with torch.no_grad():  # the first head is all recency and order 3, the last all jet of order 1
        kernel.gate_logits.copy_(torch.tensor([[0.0, 9.0, 0.0], [9.0, 0.0, 0.0]]))
        for name in ("fj", "lc"):
            orders = getattr(kernel, f"{name}_alpha_logits")
            orders.copy_(torch.tensor([[0.0, 0.0, 0.0, 9.0], [0.0, 9.0, 0.0, 0.0]]))
            for part in ("re", "im"):
                getattr(kernel, f"{name}_zeta_{part}").fill_(1.0)
    found = leads(kernel, "first_jet", 48)
    assert all(value > 0.9 for value in found.values()) and len(found) == 4


def test_function_leads_do_not_move_with_the_gauge_and_gate_leads_do():
    kernel = PJBias(2, 48, max_order=3).double()
    draw = stream(2)
    with torch.no_grad():
        for part in (kernel.fj_zeta_re, kernel.fj_zeta_im, kernel.lc_zeta_re, kernel.lc_zeta_im):
            part.copy_(torch.randn(part.shape, generator=draw))
    other = regauge(kernel, [0.02, 0.9, 0.08])
    before, after = leads(kernel, "first_jet", 48), leads(other, "first_jet", 48)
    for name in ("sector_lead", "order_lead"):
        assert after[name] == pytest.approx(before[name], abs=1e-6)
    assert before["gate_lead"] == pytest.approx(0.0) and after["gate_lead"] < -0.8
    old, new = (state([k], (48, 192)) for k in (kernel, other))
    assert new["rms_fj"] == pytest.approx(old["rms_fj"], rel=1e-6)
    assert new["gated_slope"] == pytest.approx(old["gated_slope"], rel=1e-6)


def test_rms_sees_no_constant_and_recency_of_slope_s_is_s_over_root_twelve():
    kernel = PJBias(1, 48, sectors=("affine",), init=PJInit(slope=6.0))
    found = state([kernel], (48, 192))
    assert found["rms_affine"] == pytest.approx(6 / math.sqrt(12), rel=1e-3)
    assert found["far_rms_affine"] == pytest.approx(4 * 6 / math.sqrt(12), rel=1e-3)
    assert state([], (48, 192)) == {} and leads(kernel, "affine", 48) == {}


# Grids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_says_and_shows_all_it_can_when_its_book_is_run_in_small(name):
    experiment = get(name)
    book = experiment.presets["book"]
    assert len(book.seeds) >= 5
    settings = plain(book.settings) | {"sequences": 16, "lengths": [48, 96, 192]}
    settings["training"] = {"steps": 1, "batch": 2}
    small = Preset("book", seeds=(0, 1), settings=settings, cost="")
    experiment = dataclasses.replace(experiment, presets={"book": small})
    shown = report(experiment, run(experiment, "book", store=False, progress=False))
    for table in experiment.tables:
        assert f"## {table.title}" in shown
    said = shown.split("## Claims")[1]  # after one step nothing is trained: the rules say so
    assert re.findall(r"^- (P-[SX]\w+), ", said, re.M) == list(experiment.claims)


def test_rows_tell_what_frequencies_did_and_what_a_start_was():
    experiment = get("teacher_sequences/inits")
    settings = plain(experiment.presets["smoke"].settings) | {"sequences": 16}
    settings["training"] = {"steps": 4, "batch": 4}
    settings["groups"] = [
        {
            "teachers": [["first_jet", None]],
            "methods": ["fj"],
            "omega": ["frozen", "slow", "trained"],
        }
    ]
    small = Preset("smoke", seeds=(0,), settings=settings, cost="")
    experiment = dataclasses.replace(experiment, presets={"smoke": small})
    rows = run(experiment, store=False, progress=False).where(times=1).rows
    drift = {r["omega"]: abs(r["cycles"] - r["cycles_start"]) for r in rows}
    assert drift["frozen"] == 0 < drift["slow"] < drift["trained"]
    assert all(r["cycles_start"] == 17 for r in rows)
    assert all(r["mass_1"] != r["mass_1_start"] > 0 for r in rows)


def test_gates_and_orders_learn_at_their_own_rate():
    experiment = get("teacher_sequences/inits")
    settings = plain(experiment.presets["smoke"].settings) | {"sequences": 16}
    settings["training"] = {"steps": 4, "batch": 4}
    group = {"teachers": [["first_jet", None]], "methods": ["full"]}
    settings["groups"] = [group, {**group, "gate_lr": [1.0, 10.0]}]
    small = Preset("smoke", seeds=(0,), settings=settings, cost="")
    experiment = dataclasses.replace(experiment, presets={"smoke": small})
    rows = run(experiment, store=False, progress=False).where(times=1).rows
    moved = {r.get("gate_lr"): abs(r["gate_lead"] - r["gate_lead_start"]) for r in rows}
    assert set(moved) == {None, 1.0, 10.0} and moved[None] == moved[10.0] > 3 * moved[1.0] > 0


def test_the_grid_of_inits_has_both_rates_on_the_jets():
    experiment = get("teacher_sequences/inits")
    keys = [c.key for c in experiment.grid(experiment.presets["book"], (0,))]
    for rate in (1.0, 10.0):
        found = {(k["teacher"], k["gates"]) for k in keys if k.get("gate_lr") == rate}
        assert {(jet, gates) for jet in JETS for gates in ("uniform", "right")} <= found


def test_smoke_learns_recency_and_the_vote_stands_beside_it():
    rows = {
        r["method"]: r
        for r in run("teacher_sequences", store=False, progress=False).where(times=1).rows
    }
    assert set(rows) == {"majority", "none", "affine", "full"}
    for method in ("affine", "full"):
        assert (
            rows[method]["accuracy"]
            > max(rows["none"]["accuracy"], rows["majority"]["accuracy"]) + 0.03
        )
    assert rows["full"]["gate_lead"] > rows["full"]["gate_lead_start"]


def test_sectors_of_methods_are_registered_kernels():
    for method in SECTORS:
        kernel = _model(method).kernels[0]
        assert kernel.sectors == SECTORS[method]
        assert kernel.max_order == (0 if method.startswith("order0") else 3)
    assert hasattr(_model("affine_signed").kernels[0], "affine_slope")
