"""The near-lag study: its methods, its cells, its counted lines and its rule."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from pjrope.data import load
from pjrope.experiments import CellsFailed, Result, get, run
from pjrope.experiments.text import study
from pjrope.experiments.text.lines import bigram_losses, unigram_losses
from pjrope.experiments.text.methods import METHODS, make_kernel, mixers
from pjrope.experiments.text.near_claims import (
    confirmed,
    near_lag_claims,
    rivals_words,
    segment_error,
)
from pjrope.experiments.text.near_lags import METHODS as CORE
from pjrope.experiments.text.near_lags import RIVALS
from pjrope.experiments.text.tuned import TRIED, best_rates, choices
from pjrope.kernels import Affine, ALiBi, FourierJet, LightCone, NearTable, RoPE, T5Bias


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ("alibi_table8", [ALiBi, NearTable]),
        ("alibi_t5", [ALiBi, T5Bias]),
        ("alibi_cosines", [ALiBi, FourierJet]),
        ("alibi_straight", [ALiBi, LightCone]),
        ("rope_alibi_table8", [RoPE, ALiBi, NearTable]),
        ("affine_spread_table8", [Affine, NearTable]),
    ],
)
def test_what_stands_beside_recency(method, parts):
    kernel = make_kernel(method, 24, 4, 128)
    assert [type(part) for part in kernel.parts] == parts
    sizes = [part.size for part in kernel.parts if isinstance(part, NearTable)]
    assert all(size == int(method[-1]) for size in sizes)
    assert not mixers(method)


def test_what_stands_ahead_of_attention():
    assert isinstance(make_kernel("alibi_conv", 24, 4, 128), ALiBi)
    assert mixers("alibi_conv") == {"short_conv": 4} and mixers("alibi_shift") == {
        "token_shift": True
    }
    assert make_kernel("alibi_straight", 24, 4, 128).parts[1].parts == "amplitude"
    assert {*CORE, *RIVALS} <= set(METHODS)


def test_counted_lines_by_hand():
    train, text = torch.tensor([0, 0, 1, 0]), torch.tensor([1, 0, 0])
    one = unigram_losses(train, text, torch.tensor([0, 1]), vocab=2)
    assert one.tolist() == pytest.approx([-math.log(2 / 6), -math.log(4 / 6)])
    two = bigram_losses(train, text, torch.tensor([1, 2]), vocab=2)  # 1 -> 0 and 0 -> 0
    assert two.tolist() == pytest.approx([-math.log(1.5 / 2), -math.log(1.5 / 3)])


def test_a_cell_keeps_its_curve_its_segments_and_its_bias(tmp_path):
    only = {"method": "alibi_table8"}
    result = run("near_lags", only=only, out=tmp_path / "a", progress=False)
    settings = get("near_lags").presets["smoke"].settings
    loss, training, bias = (result.where(kind=k).rows for k in ("loss", "training", "bias"))
    assert [row["length"] for row in loss] == list(settings["lengths"])
    assert all(len(row["segments"]) == settings["segments"] for row in loss)
    assert loss[0]["loss"] == pytest.approx(sum(loss[0]["segments"]) / 8, rel=1e-4)
    (curve,) = training
    assert curve["steps"] == [20, 40] and len(curve["held_out_losses"]) == 2
    assert curve["tokens"] == 40 * 8 * 64
    assert [(row["layer"], row["head"]) for row in bias] == [(0, 0), (0, 1)]
    moved = [b for d, b in zip(bias[0]["lags"], bias[0]["bias"], strict=True) if d < 8]
    slopes = ALiBi(2).lag_bias(torch.arange(8))[0].tolist()
    assert moved != pytest.approx(slopes, abs=1e-3)
    again = run("near_lags", only=only, out=tmp_path / "b", progress=False)
    assert again.rows == result.rows


def test_counted_lines_stand_beside_the_models():
    rows = run("near_lags", only={"method": "bigram"}, store=False, progress=False).rows
    by = {(r["method"], r["length"]): r["loss"] for r in rows}
    assert by["unigram", 64] == by["unigram", 256] > by["bigram", 64]


LOSSES = {
    "alibi": (1.60, 1.60),
    "alibi_t5": (1.50, 1.51),
    "alibi_table8": (1.52, 1.52),
    "rope_alibi": (1.52, 2.20),
    "alibi_lc": (1.56, 1.56),
}


def rows_of(losses, seeds=(0, 1, 2), noise=0.0005, segments=8):
    """Rows in which seeds and segments move all methods alike, but for a little noise."""
    rows, generator = [], torch.Generator().manual_seed(0)
    for method, ends in losses.items():
        for seed in seeds:
            for length, loss in zip((128, 8192), ends, strict=True):
                own = noise * torch.randn(segments, generator=generator)
                each = [loss + 0.01 * seed + 0.1 * k + float(x) for k, x in enumerate(own)]
                row = {"method": method, "seed": seed, "kind": "loss", "length": length}
                rows.append(row | {"loss": sum(each) / segments, "segments": each})
    return rows


@pytest.mark.parametrize(
    ("changed", "last"),
    [
        ({}, "all four lines hold for alibi_t5 and alibi_table8."),
        ({"alibi_t5": (1.60, 1.60)}, "all four lines hold for alibi_table8."),
        ({"alibi_t5": (1.50, 1.56)}, "all four lines hold for alibi_table8."),  # not flat
        ({"rope_alibi": (1.45, 2.0)}, "no near-lag bias holds all four lines."),
        ({"alibi_lc": (1.515, 1.525)}, "all four lines hold for alibi_t5."),
        ({"alibi": (1.505, 1.515)}, "no near-lag bias holds all four lines."),
    ],
)
def test_the_rule_of_the_study(changed, last):
    said = near_lag_claims(rows_of(LOSSES | changed))
    assert said[-1].endswith(last), said
    assert len(said) == 9


def test_the_rule_says_which_line_fails():
    said = near_lag_claims(rows_of(LOSSES | {"alibi_t5": (1.50, 1.56), "rope_alibi": (1.45, 2.0)}))
    assert said[0].startswith("alibi_t5 against alibi, better: alibi_t5 - alibi at 128 -0.100")
    assert said[2].startswith(
        "alibi_t5 against rope_alibi, does not reach it: alibi_t5 - rope_alibi at 128 +0.050"
    )
    assert said[3].startswith("alibi_t5, not flat: alibi_t5, from 128 to 8,192 +0.06")


def test_the_rule_claims_nothing_from_one_seed_or_without_a_method():
    assert "claims nothing yet" in near_lag_claims(rows_of(LOSSES, seeds=(0,)))[0]
    assert near_lag_claims(rows_of({"alibi": (1.6, 1.6)})) == []
    uneven = [r for r in rows_of(LOSSES) if r["method"] != "rope_alibi" or r["seed"] == 0]
    assert "claims nothing yet" in near_lag_claims(uneven)[0]


def test_a_difference_that_one_segment_makes_is_not_clear():
    rows = rows_of(LOSSES | {"alibi_t5": (1.60, 1.60)})
    for row in rows:
        if row["method"] == "alibi_t5":
            row["segments"][0] -= 0.8
            row["loss"] -= 0.1
    assert segment_error(rows, "alibi_t5", "alibi", 128) == pytest.approx(0.1, rel=0.05)
    assert near_lag_claims(rows)[0].startswith(
        "alibi_t5 against alibi, not better: alibi_t5 - alibi at 128 -0.100"
    )


def test_a_study_is_confirmed_by_what_holds_on_both_corpora():
    def on(corpus, losses):
        return [row | {"corpus": corpus} for row in rows_of(losses)]

    both = Result(on("a", LOSSES) + on("b", LOSSES | {"alibi_t5": (1.60, 1.60)}), {})
    assert confirmed(both)[-1] == "Confirmed on every corpus: alibi_table8."
    neither = Result(on("a", LOSSES) + on("b", dict.fromkeys(LOSSES, (1.6, 1.6))), {})
    assert confirmed(neither)[-1] == "Confirmed on every corpus: nothing."
    alone = Result([r for r in on("a", LOSSES) if r["seed"] == 0], {})
    assert "claims nothing yet" in confirmed(alone)[0]


def test_the_rate_of_least_held_out_loss_is_chosen():
    rows = [
        {"kind": "training", "method": m, "rate": rate, "held_out": loss}
        for m, losses in {"rope": (1.6, 1.5, 1.7), "alibi": (1.6, 1.5, None)}.items()
        for rate, loss in zip(TRIED, losses, strict=True)
    ] + [{"kind": "training", "method": "affine", "rate": 3e-2, "held_out": 1.0}]
    assert best_rates(rows) == {"rope": 1e-2, "alibi": 1e-2, "affine": 3e-2}
    assert "affine 0.03 (the end of what was tried)" in choices(Result(rows, {}))[0]


@pytest.mark.parametrize("name", ["near_lags/confirm", "near_lags/wide", "byte_lm/tuned"])
def test_grids_of_the_study_run(name):
    first = get(name).presets["smoke"].seeds[0]
    result = run(name, only={"method": ["alibi_t5", "bigram"]}, store=False, progress=False)
    assert {row["seed"] for row in result.rows} == {first}
    assert {row["kind"] for row in result.rows} == {"loss", "training", "bias"}
    assert all(row.get("corpus", "toy_language") == "toy_language" for row in result.rows)


def test_a_grid_of_rates_tries_each_method_at_each():
    grid = get("byte_lm/rates").grid(get("byte_lm/rates").preset("book"), (100,))
    assert len(grid) == 3 * 8 and {cell.key["rate"] for cell in grid} == set(TRIED)


def test_rivals_are_told_against_rope():
    losses = {"unigram": (3.2, 3.2), "rope": (1.5, 3.0), "alibi_conv": (1.45, 1.45)}
    said = rivals_words(Result(rows_of(losses), {}))
    assert len(said) == 1 and said[0].startswith("alibi_conv - rope at 128 -0.050")
    assert rivals_words(Result(rows_of(losses, seeds=(0,)), {})) == []


def test_an_interrupted_cell_goes_on_to_the_same_rows(tmp_path, monkeypatch):
    only = {"method": "alibi_t5"}
    whole = run("near_lags", only=only, out=tmp_path / "whole", progress=False)
    watch, calls = study.token_losses, []

    def stops(model, windows):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return watch(model, windows)

    monkeypatch.setattr(study, "token_losses", stops)
    monkeypatch.setattr(study, "TrainConfig", partial(study.TrainConfig, checkpoint_every=20))
    with pytest.raises(KeyboardInterrupt):
        run("near_lags", only=only, out=tmp_path / "cut", progress=False)
    monkeypatch.undo()
    monkeypatch.setattr(study, "TrainConfig", partial(study.TrainConfig, checkpoint_every=20))
    assert list((tmp_path / "cut").rglob("checkpoint.safetensors"))
    assert run("near_lags", only=only, out=tmp_path / "cut", progress=False).rows == whole.rows


def test_a_corpus_that_is_too_short_or_lacks_a_split_says_so(monkeypatch):
    text = torch.zeros(50, dtype=torch.uint8)
    short = replace(load("toy_language"), validation=text)
    for corpus, message in (
        (short, "the text has 50 tokens"),
        (replace(short, validation=text[:0]), "toy_language has no validation split"),
    ):
        monkeypatch.setattr(study, "load_or_stand_in", lambda name, found=corpus: found)
        with pytest.raises(CellsFailed, match=message):
            run("near_lags", only={"method": "alibi"}, store=False, progress=False)
