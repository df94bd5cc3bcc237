"""The byte models: methods are what they are called, and share what they should share."""

from __future__ import annotations

import math

import pytest
import torch

from pjrope.experiments import Result, get, load, run
from pjrope.experiments.sequences.order_toy import bag_ceiling, needle_batch, order_batch
from pjrope.experiments.text.byte_lm import LONG_TRAININGS, TRAININGS, make_model
from pjrope.experiments.text.extrapolation import TRAININGS as EXTRAPOLATION
from pjrope.experiments.text.lightcone import METHODS as LIGHTCONE
from pjrope.experiments.text.lightcone_words import lightcone_sentences
from pjrope.experiments.text.methods import make_kernel
from pjrope.kernels import Affine, ALiBi, LightCone, NoPE, PJBias, PJRotary, RoPE
from pjrope.kernels.alibi import alibi_slopes
from pjrope.positions import NTK

SETTINGS = get("byte_lm/baselines").presets["smoke"].settings


def test_methods_are_what_they_are_called():
    made = {m: make_kernel(m, 8, 2, 64) for group in TRAININGS for m in group}
    assert set(made) == {"none", "rope", "rope_ntk", "alibi", "rope_alibi", "affine"}
    assert isinstance(made["none"], NoPE) and isinstance(made["affine"], Affine)
    assert isinstance(made["alibi"], ALiBi)
    assert isinstance(made["rope"], RoPE) and made["rope"].extension is None
    assert made["rope_ntk"].extension == NTK(length=64)
    assert [type(p) for p in made["rope_alibi"].parts] == [RoPE, ALiBi]


def test_unions_are_what_they_are_called():
    made = {m: make_kernel(m, 8, 2, 64) for m in LIGHTCONE}
    sectors = {m: k.sectors for m, k in made.items() if isinstance(k, PJBias)}
    assert sectors == {
        "fj": ("fj",),
        "lc": ("lc",),
        "lc_affine": ("affine", "lc"),
        "full": ("fj", "affine", "lc"),
    }
    assert {made[m].max_order for m in sectors} == {3}
    assert isinstance(made["pj_rotary"], PJRotary)
    assert [type(p) for p in made["alibi_lc"].parts] == [ALiBi, LightCone]


def test_methods_that_share_a_training_share_its_weights():
    for methods in TRAININGS:
        first = make_model(methods[0], SETTINGS, 16, seed=1)
        for other in methods[1:]:
            make_model(other, SETTINGS, 16, seed=2).load_state_dict(first.state_dict(), strict=True)


@pytest.fixture(scope="module")
def smoke():
    return run("byte_lm/baselines", only={"method": "rope"}, store=False, progress=False)


def test_smoke_trains_and_ntk_equals_rope_at_the_training_length(smoke):
    loss = {(r["method"], r["length"]): r["loss"] for r in smoke.rows}
    length = SETTINGS["length"]
    assert loss["rope", length] == pytest.approx(loss["rope_ntk", length], abs=1e-6)
    assert loss["rope", 4 * length] != pytest.approx(loss["rope_ntk", 4 * length], abs=1e-3)
    assert loss["rope", length] < 2.2, "uniform guessing costs 2.77 nats"
    assert smoke.card["data"][0]["name"] == "toy_language"


def test_long_trains_as_baselines_does_and_reads_further(smoke):
    result = run("byte_lm/long", only={"method": "rope"}, store=False, progress=False)
    many, far = (result.where(windows=name).rows for name in ("many", "far"))
    want = smoke.where(method="rope").rows
    assert [row["length"] for row in many] == [row["length"] for row in want]
    assert [row["segments"] for row in many] == [row["segments"] for row in want]
    chosen = get("byte_lm/long").presets["smoke"].settings["far"]
    assert [row["length"] for row in far] == list(chosen["lengths"])
    assert all(len(row["segments"]) == chosen["segments"] for row in far)
    assert max(chosen["lengths"]) > max(SETTINGS["lengths"])


def test_long_and_baselines_train_alike_in_the_book():
    settings = {
        name: {
            key: value
            for key, value in get(f"byte_lm/{name}").presets["book"].settings.items()
            if key != "far"
        }
        for name in ("long", "baselines")
    }
    assert settings["long"] == settings["baselines"]
    assert {m for cell in LONG_TRAININGS for m in cell} == {"none", "rope", "alibi", "rope_alibi"}
    assert max(get("byte_lm/long").presets["book"].settings["far"]["lengths"]) == 32_768


def test_order_toy_asks_what_it_says():
    generator = torch.Generator().manual_seed(0)
    x, y = order_batch(generator, 4, 9, lag=3)
    assert torch.equal(y[:, 3:], x[:, :-3]) and bool((y[:, :3] == -100).all())
    x, y = needle_batch(generator, 50, 9)
    marked = (x >= 16) & (x < 32)
    assert bool((marked.sum(1) == 1).all()) and bool((x[:, -1] == 32).all())
    assert torch.equal(x[marked] - 16, y[:, -1])
    # Of 1, 1, 2 before the only scored step, guessing 1 is right two times in three.
    assert bag_ceiling(torch.tensor([[1, 1, 2, 5]]), lag=3) == pytest.approx(2 / 3)


def _rows(losses: dict[str, tuple[float, ...]], lengths=(64, 128, 512), seeds=(0, 1, 2)):
    """Rows with a little noise that all methods of a seed share."""
    return [
        {"method": m, "seed": s, "length": n, "loss": loss + 0.001 * s}
        for m, values in losses.items()
        for n, loss in zip(lengths, values, strict=True)
        for s in seeds
    ]


FLAT_METHODS = {m: (2.0, 2.0, 2.0) for group in EXTRAPOLATION for m in group}
RISING = {"rope": (1.7, 2.4, 4.0), "rope_ntk": (1.7, 1.8, 3.0)}
BEST = {"rope_ntk_affine": (1.7, 1.7, 1.7)}
CARD = {"settings": {"length": 64, "lengths": [64, 512]}, "data": []}


def judged(name, rows):
    """Outcome and reason of each claim by its rule."""
    found = {c: rule(Result(rows, CARD)) for c, rule in get(name).verdicts.items()}
    return {claim: (verdict.outcome, verdict.because) for claim, verdict in found.items()}


def outcomes(name, rows):
    return tuple(outcome for outcome, _ in judged(name, rows).values())


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        (RISING | BEST, ("reproduced", "reproduced in part", "reproduced")),
        (RISING, ("not at this scale", "reproduced in part", "reproduced")),
        (
            RISING | BEST | {"alibi": (1.7, 1.7, 1.7), "rope_ntk": (1.7, 1.8, 4.0)},
            ("reproduced in part", "reproduced in part", "reproduced"),
        ),
        (
            BEST | {"affine": (2.0, 2.0, 2.3)},
            ("reproduced", "not at this scale", "not at this scale"),
        ),
        (
            RISING | {"affine": (2.0, 2.0, 1.9)},
            ("not at this scale", "reproduced in part", "reproduced in part"),
        ),
        (  # scaling is better than a RoPE that does not rise
            {"rope_ntk": (2.0, 1.9, 1.9)},
            ("not at this scale", "not at this scale", "reproduced"),
        ),
    ],
)
def test_extrapolation_is_judged_by_its_rules(losses, words):
    assert outcomes("byte_lm/extrapolation", _rows(FLAT_METHODS | losses)) == words


def test_what_no_seed_resolves_is_undecided():
    waver = {0: -0.5, 1: 0.1, 2: -0.9}
    rows = [
        r | {"loss": r["loss"] - waver[r["seed"]]}
        if (r["method"], r["length"]) in (("rope_affine", 512), ("affine", 512))
        else r
        for r in _rows(FLAT_METHODS | RISING | BEST)
    ]
    found = judged("byte_lm/extrapolation", rows)
    assert found["P-L3"][0] == "undecided" and "rope_affine" in found["P-L3"][1]
    assert found["P-L5"][0] == "undecided"


def test_the_record_of_extrapolation_keeps_its_verdicts():
    found = judged("byte_lm/extrapolation", load("byte_lm/extrapolation").rows)
    assert found["P-L3"][0] == "undecided" and "rope_affine" in found["P-L3"][1]
    assert found["P-L4"][0] == "reproduced in part" and "twice L only" in found["P-L4"][1]
    assert found["P-L5"][0] == "reproduced"
    beside = judged("byte_lm/lightcone", load("byte_lm/lightcone").rows)
    assert beside["P-L5"][0] == "reproduced in part" and "not as in the paper" in beside["P-L5"][1]
    assert beside["P-F1"][0] == "reproduced in part" and beside["P-M6"][0] == "reproduced"


def test_extrapolation_judges_nothing_from_one_seed_or_half_a_grid():
    name = "byte_lm/extrapolation"
    nothing = ("not tested",) * 3
    assert outcomes(name, _rows(FLAT_METHODS, seeds=(0,))) == nothing
    one_length = {m: losses[:1] for m, losses in FLAT_METHODS.items()}
    assert outcomes(name, _rows(one_length, lengths=(64,))) == nothing
    assert outcomes(name, _rows({"rope": (1.0, 1.0, 1.0)})) == nothing
    said = get(name).sentences(Result(_rows(FLAT_METHODS), CARD))
    assert "affine_spread - alibi at 64" in said[0]
    assert get(name).sentences(Result(_rows(FLAT_METHODS, seeds=(0,)), CARD)) == []


def test_a_diverged_seed_decides_nothing():
    rows = [
        r | {"loss": None} if (r["method"], r["length"], r["seed"]) == ("rope", 512, 1) else r
        for r in _rows(FLAT_METHODS | RISING)
    ]
    assert judged("byte_lm/extrapolation", rows)["P-L4"][0] == "undecided"


def test_extrapolation_differs_from_baselines_in_its_methods_alone():
    book = {n: get(f"byte_lm/{n}").presets["book"].settings for n in ("extrapolation", "baselines")}
    own = dict(book["extrapolation"])
    assert own.pop("own_training") == {"affine_fast": {"position_lr": 10.0}}
    assert own == book["baselines"]


def test_slopes_start_where_the_method_says_and_learn_at_its_rate():
    moved = {}
    for method in ("affine", "affine_fast", "affine_spread"):
        only = {"method": method}
        result = run("byte_lm/extrapolation", only=only, store=False, progress=False)
        moved[method] = torch.tensor(result.rows[0]["slopes"])
    spread = alibi_slopes(2).float() * 64
    assert (moved["affine_spread"] - spread).abs().max() < 0.6
    assert (moved["affine_fast"] - 2).abs().max() > 2 * (moved["affine"] - 2).abs().max() > 0


LENGTHS = (128, 8192)


def _lightcone_rows(losses=(), grown=()):
    """Rows of ``byte_lm/lightcone``: nothing changes with length but what is named."""
    losses, grown = dict(losses), dict(grown)
    rows = []
    for method in LIGHTCONE:
        for seed in (0, 1, 2):
            for n in LENGTHS:
                far = n == LENGTHS[-1]
                row = {"method": method, "seed": seed, "length": n}
                loss = 2.0 + (losses.get(method, 0.0) if far else 0.0) + 0.001 * seed
                loss = loss if math.isfinite(loss) else None
                places = [(64, 2.0), (128, 2.1), (8192, loss)]
                buckets = [{"from": 0, "to": to, "loss": found} for to, found in places]
                rows.append(row | {"kind": "loss", "loss": loss, "buckets": buckets})
                size = grown.get(method, 3.0 if method == "pj_rotary" else 1.0) if far else 1.0
                for layer in (0, 1):
                    at = size if layer else 1.0
                    at = at if math.isfinite(at) else None
                    sizes = {"placed_key_norm": at, "logit_max": at}
                    rows.append(row | {"kind": "attention", "layer": layer} | sizes)
    return rows


@pytest.mark.parametrize(
    ("losses", "word"),
    [
        ({}, "reproduced"),
        ({"full": -0.2}, "reproduced in part"),
        ({"lc_affine": 0.2}, "reproduced in part"),
        ({"affine": 0.2, "lc_affine": 0.2, "full": 0.2}, "not at this scale"),
        ({"alibi": 0.2}, "reproduced"),
        ({"full": math.inf}, "reproduced in part"),
    ],
)
def test_the_rule_of_flatness(losses, word):
    assert judged("byte_lm/lightcone", _lightcone_rows(losses))["P-L5"][0] == word


@pytest.mark.parametrize(
    ("grown", "word"),
    [
        ({"fj": 2.5}, "reproduced"),
        ({}, "reproduced in part"),
        ({"lc": 2.5, "fj": 2.5}, "not at this scale"),
        ({"pj_rotary": 1.5}, "not at this scale"),
        ({"lc": math.inf, "fj": 2.5}, "not at this scale"),
    ],
)
def test_the_rule_of_bounded_logits(grown, word):
    assert judged("byte_lm/lightcone", _lightcone_rows(grown=grown))["P-F1"][0] == word


@pytest.mark.parametrize(
    ("losses", "word"),
    [
        ({"pj_rotary": 2.0}, "reproduced"),
        ({"pj_rotary": 0.2}, "reproduced in part"),
        ({"pj_rotary": math.inf}, "undecided"),
    ],
)
def test_the_rule_of_the_collapse(losses, word):
    assert judged("byte_lm/lightcone", _lightcone_rows(losses))["P-M6"][0] == word


def test_light_cone_grid_says_who_helps_whom_and_nothing_of_one_seed():
    rows = _lightcone_rows({"alibi": 0.2})
    said = lightcone_sentences(rows)
    assert said[0].startswith("Change of the loss with length: alibi, from 128 to 8,192 +0.200")
    assert any(s.startswith("alibi_lc - alibi at 128 +0.000") for s in said)
    alone = [row for row in rows if row["seed"] == 0]
    fewer = [row for row in rows if row["method"] != "lc" or row["seed"] == 0]
    unseen = [row for row in rows if row["method"] != "lc"]
    for lacking in (alone, fewer, unseen):
        assert lightcone_sentences(lacking) == []
        found = judged("byte_lm/lightcone", lacking)
        assert {found[claim][0] for claim in ("P-L5", "P-F1")} == {"not tested"}


def test_light_cone_grid_says_the_loss_by_position():
    said = lightcone_sentences(_lightcone_rows({"lc": 0.5}))[-1]
    assert said.startswith("Loss by position inside 8,192 bytes, at 64 to 128 and 128 to 8,192")
    assert "; lc 2.100, 2.501;" in said


def test_light_cone_smoke_tells_losses_attention_and_sectors():
    result = run("byte_lm/lightcone", only={"method": "full"}, store=False, progress=False)
    settings = get("byte_lm/lightcone").presets["smoke"].settings
    kinds = {k: result.where(kind=k).rows for k in ("loss", "attention", "sectors")}
    assert [row["length"] for row in kinds["loss"]] == list(settings["lengths"])
    assert len(kinds["attention"]) == len(settings["lengths"]) * settings["layers"]
    assert {row["sector"] for row in kinds["sectors"]} == {"fj", "affine", "lc", "total"}
    assert all(0 < row["entropy_share"] <= 1 for row in kinds["attention"])
    with pytest.raises(ValueError, match="method 'x'"):
        make_kernel("x", 8, 2, 64)
