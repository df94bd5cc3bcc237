"""The grids on music: their models, their cells, their samples and their rules."""

from __future__ import annotations

import pytest
import torch

from pjrope.data.music import EventTokens, motif_corpus
from pjrope.experiments import Result, get, run
from pjrope.experiments.music.claims import OURS, RULES
from pjrope.experiments.music.mass_claims import mass_ratio
from pjrope.experiments.music.models import (
    METHODS,
    TRAININGS,
    TimedDecoder,
    make_model,
    onset_steps,
    steps_of_tokens,
)
from pjrope.experiments.music.motif_claims import returns_help, rotary_collapses
from pjrope.experiments.music.music_lm import RIVALS
from pjrope.experiments.music.music_motif import FORM, lag_of_tokens
from pjrope.experiments.music.samples import notes_of
from pjrope.experiments.music.study import SMOKE, card_of
from pjrope.experiments.music.words import gain_table, gains, motif_words, music_words
from pjrope.kernels import PJBias

SETTINGS = {"width": 32, "layers": 1, "heads": 2, "length": 64}


def small_music(**more):
    return motif_corpus("motif_short", bars=60, **more)


# Models -----------------------------------------------------------------------------------------


def test_time_of_a_token_is_what_the_shifts_add_up_to():
    music = small_music()
    steps = onset_steps(music.test.tokens.long()[None])[0]
    assert torch.equal(steps, (music.test.seconds / 0.02).round().long())
    long = torch.tensor([[18 + 5, 49 + 2, 18 + 1]])  # 5, then 64, then 1 steps
    assert onset_steps(long).tolist() == [[5, 69, 70]]
    assert steps_of_tokens(music.train) == pytest.approx(60 / 14, rel=0.03)


def test_alibi_over_time_is_alibi_where_tokens_keep_an_even_pace():
    one = make_model("alibi", SETTINGS, 465, 0)
    other = make_model("alibi_time", SETTINGS, 465, 0, pace=7.0)
    assert isinstance(other, TimedDecoder)
    even = torch.full((1, 40), 18 + 7)  # each token a shift of 7 steps
    assert torch.allclose(one(even), other(even), atol=1e-5)
    uneven = even.clone()
    uneven[0, 10:20] = 300  # ten notes on at one time
    assert not torch.allclose(one(uneven), other(uneven), atol=1e-3)
    assert not any(p.requires_grad for p in other.attention_layers[0].kernel.parameters())
    with pytest.raises(ValueError, match="no cache"):
        other(even, cache=[])


def test_a_prediction_over_time_reads_no_later_token():
    model = make_model("alibi_time", SETTINGS, 465, 0, pace=4.0)
    tokens = small_music().test.tokens[:60].long()[None]
    changed = tokens.clone()
    changed[0, 50:] = 18 + 31
    assert torch.allclose(model(tokens)[:, :50], model(changed)[:, :50], atol=1e-6)


def test_methods_share_their_backbone_and_the_union_its_starts():
    models = {m: make_model(m, SETTINGS, 465, 3) for m in METHODS}
    weights = {m: model.embedding.weight for m, model in models.items()}
    assert all(torch.equal(w, weights["alibi"]) for w in weights.values())
    gate = {m: models[m].attention_layers[0].kernel for m in ("full", "full_uniform")}
    assert all(isinstance(kernel, PJBias) for kernel in gate.values())
    assert float(gate["full"].gate("affine").detach().min()) > 0.9
    assert float(gate["full_uniform"].gate("affine").detach().max()) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="method 'none'"):
        make_model("none", SETTINGS, 465, 0)
    named = {m for group in (*TRAININGS, *RIVALS) for m in group}
    assert named == set(METHODS)


# Samples and returns ----------------------------------------------------------------------------


def test_notes_of_tokens_are_those_that_were_encoded():
    score = small_music().test.tokens[:57]
    notes = notes_of(score)
    direct = EventTokens().decode(score.tolist()).notes()
    assert [n[:3] for n in notes] == [
        [round(s / 0.02), round(d / 0.02), p] for s, d, p, _ in direct
    ]
    assert len(notes) == 20 and notes[0][3] == 64
    assert notes_of(score[:0]) == []


def test_a_token_knows_the_distance_of_its_return():
    bars, music = 120, motif_corpus("motif_short", bars=120)
    tokens = music.test.tokens
    lags = lag_of_tokens(bars, len(tokens))
    assert len(lags) == len(tokens) and set(lags.tolist()) <= {0, *FORM.lags}
    back = torch.nonzero(lags == 4)[:, 0]
    assert len(back)
    assert torch.equal(tokens[back], tokens[back - 4 * FORM.tokens])


def test_generated_music_that_was_asked_for_stands_in_for_nothing():
    assert card_of(small_music())[0]["stand_in"] is False


# Cells ------------------------------------------------------------------------------------------


def test_a_cell_tells_losses_sectors_and_what_leaving_out_costs(tmp_path):
    result = run("music_lm", only={"method": "full"}, out=tmp_path, progress=False)
    loss = result.where(kind="loss").rows
    assert [(r["split"], r["length"]) for r in loss[:2]] == [("test", 64), ("test", 256)]
    assert {r["split"] for r in loss} == {"test", "validation"}
    assert all(len(r["segments"]) == SMOKE["segments"] for r in loss)
    (curve,) = result.where(kind="training").rows
    assert curve["steps"] == [15, 30] and len(curve["held_out_losses"]) == 2
    parts = {r["left_out"] for r in result.where(kind="left_out").rows}
    assert {"fj", "affine", "lc", "jets order 3"} <= parts
    assert mass_ratio(result.rows) > 0
    assert not result.where(kind="sample").rows


def test_two_readings_of_one_training_agree_at_its_length():
    result = run("music_lm", only={"method": "rope_affine"}, store=False, progress=False)
    near = {r["method"]: r["loss"] for r in result.where(kind="loss", split="test", length=64).rows}
    assert near["rope_affine"] == near["rope_ntk_affine"]
    assert len(result.where(kind="training").rows) == 1


def test_a_cell_plays_and_plays_the_same_again():
    runs = [run("music_lm", only={"method": "alibi"}, store=False, progress=False) for _ in "ab"]
    one, two = (r.where(kind="sample").rows for r in runs)
    assert one == two and [r["span"] for r in one] == [1, 4]
    assert [r["context"] for r in one] == [32, 224]
    assert all(len(note) == 4 and 0 <= note[2] < 128 for r in one for note in r["notes"])


def test_motif_cells_and_their_line_tell_returns():
    only = {"method": ["alibi", "bigram"], "corpus": "structured"}
    result = run("music_motif", only=only, store=False, progress=False)
    rows = result.where(kind="returns").rows
    assert {r["method"] for r in rows} == {"alibi", "bigram"}
    assert {r["lag"] for r in rows} == {0, 4, 8, 16}
    whole = result.where(kind="loss", method="alibi", split="test", length=256).rows[0]
    own = [r for r in rows if r["method"] == "alibi" and r["length"] == 256 and r["tokens"]]
    count = sum(r["tokens"] for r in own)
    mean = sum(r["tokens"] * r["loss"] for r in own) / count
    assert count == SMOKE["segments"] * SMOKE["scored"]
    assert mean == pytest.approx(whole["loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("name", "cells"), [("music_lm", 24), ("music_motif", 30), ("music_lm/rivals", 15)]
)
def test_sizes_of_the_grids(name, cells):
    experiment = get(name)
    book = experiment.preset("book")
    assert len(experiment.grid(book, book.seeds)) == cells
    first = [c.seed for c in experiment.grid(book, book.seeds)[: cells // 3]]
    assert set(first) == {0}  # seed by seed: what is cut short is whole


# Rules ------------------------------------------------------------------------------------------

LOSSES = dict.fromkeys(OURS, (2.0, 2.0)) | {"lc_affine": (1.9, 1.9)}


def rows_of(losses, corpora=("maestro", "musicnet_a"), seeds=(0, 1, 2), noise=0.0003):
    generator, rows = torch.Generator().manual_seed(0), []
    for method, ends in losses.items():
        for corpus in corpora:
            for seed in seeds:
                for split in ("test", "validation"):
                    for length, loss in zip((256, 8192), ends, strict=True):
                        own = noise * float(torch.randn((), generator=generator))
                        row = {"method": method, "corpus": corpus, "seed": seed, "split": split}
                        row |= {"kind": "loss", "length": length}
                        rows.append(row | {"loss": loss + 0.02 * seed + own})
    return rows


def judged(rule, rows):
    card = {"settings": {"length": 256, "lengths": [256, 8192]}, "data": []}
    return (RULES[rule] if isinstance(rule, str) else rule)(Result(rows, card))


@pytest.mark.parametrize(
    ("changed", "corpora", "outcome"),
    [
        ({}, ("maestro", "musicnet_a"), "reproduced"),
        ({}, ("maestro",), "reproduced in part"),
        ({"lc_affine": (2.0, 2.0)}, ("maestro",), "reproduced in part"),
        ({"alibi": (2.0, 1.7)}, ("maestro",), "not at this scale"),
        ({"full": (2.0, 1.7)}, ("maestro", "musicnet_a"), "not at this scale"),
    ],
)
def test_light_cone_must_be_best_far_out(changed, corpora, outcome):
    assert judged("P-M1", rows_of(LOSSES | changed, corpora)).outcome == outcome


def test_what_is_not_resolved_is_undecided():
    rows = rows_of(LOSSES | {"lc_affine": (2.0, 2.0)}, noise=0.05)
    assert judged("P-M1", rows).outcome == "undecided"


@pytest.mark.parametrize(
    ("ntk", "outcome"),
    [(2.0, "reproduced"), (1.95, "reproduced"), (1.8, "contradicted"), (1.9, "not at this scale")],
)
def test_ntk_scaling_must_be_beaten(ntk, outcome):
    rows = rows_of(LOSSES | {"rope_ntk_affine": (2.0, ntk)})
    assert judged("P-M2", rows).outcome == outcome


def test_ranking_holds_or_turns():
    spread = {m: (1.5 + 0.1 * n,) * 2 for n, m in enumerate(OURS)}
    rows = rows_of(spread, noise=1e-5)
    assert judged("P-M4", rows).outcome == "reproduced"
    one = [r for r in rows if r["corpus"] == "maestro"]
    assert judged("P-M4", one).outcome == "reproduced in part"
    turned = [r | {"loss": 5 - r["loss"]} if r["split"] == "validation" else r for r in one]
    assert judged("P-M4", turned).outcome == "contradicted"
    loose = rows_of(dict.fromkeys(OURS, (2.0, 2.0)), noise=0.05)
    assert judged("P-M4", loose).outcome == "undecided"


def test_one_seed_or_a_missing_method_is_not_tested():
    rows = rows_of(LOSSES)
    for claim in ("P-M1", "P-M2", "P-M4"):
        assert judged(claim, [r for r in rows if r["seed"] == 0]).outcome == "not tested"
        assert judged(claim, [r for r in rows if r["method"] != "full"]).outcome == "not tested"


def mass_rows(ratio, cost, seeds=(0, 1, 2)):
    rows = rows_of({"full": (2.0, 2.0)}, ("maestro",), seeds)
    for seed in seeds:
        own = {"method": "full", "seed": seed, "corpus": "maestro", "start": "affine"}
        own |= {"gate_rate": 1.0}
        for order in (2, 3):
            for sector in ("fj", "lc"):
                row = own | {"kind": "sectors", "sector": sector, "sector_order": order}
                rows.append(row | {"mass": ratio * 0.1 + 0.001 * seed, "mass_start": 0.1})
            part = own | {"kind": "left_out", "left_out": f"jets order {order}", "length": 256}
            rows.append(part | {"change": cost + 0.0001 * seed})
    return rows


@pytest.mark.parametrize(
    ("ratio", "cost", "outcome"),
    [
        (4.0, 0.05, "reproduced"),
        (4.0, 0.0, "reproduced in part"),
        (1.0, 0.05, "not at this scale"),
    ],
)
def test_high_orders_are_held_against_text(monkeypatch, ratio, cost, outcome):
    text = Result(mass_rows(1.5, 0.0), {})
    monkeypatch.setattr("pjrope.experiments.music.mass_claims.load", lambda name: text)
    assert judged("P-M3", mass_rows(ratio, cost)).outcome == outcome


def test_high_orders_need_a_record_on_text(monkeypatch):
    def missing(name):
        raise FileNotFoundError(name)

    monkeypatch.setattr("pjrope.experiments.music.mass_claims.load", missing)
    assert judged("P-M3", mass_rows(4.0, 0.05)).outcome == "not tested"


@pytest.mark.parametrize(
    ("gain", "outcome"),
    [
        ((0.1, 0.1), "reproduced"),
        ((0.1, -0.1), "reproduced in part"),
        ((-0.1, -0.1), "not at this scale"),
    ],
)
def test_returns_must_help_every_method(gain, outcome):
    rows = rows_of({"alibi": (2.0, 2.0), "full": (2.0, 2.0)}, ("structured", "shuffled"))
    for row in rows:
        if row["corpus"] == "structured":
            row["loss"] -= gain[row["method"] == "full"]
    assert judged(returns_help, rows).outcome == outcome
    assert judged(returns_help, [r for r in rows if r["seed"] == 0]).outcome == "not tested"


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        ((1.9, 4.0), "reproduced"),
        ((2.2, 4.0), "reproduced in part"),
        ((1.9, 1.9), "reproduced in part"),
        ((2.2, 2.2), "not at this scale"),
    ],
)
def test_rotary_is_good_near_and_collapses(ends, outcome):
    rows = rows_of({"rope": (2.0, 3.0), "pj_rotary": ends}, ("maestro",))
    assert judged(rotary_collapses, rows).outcome == outcome
    assert judged(rotary_collapses, rows_of({"rope": (2.0, 3.0)})).outcome == "not tested"


# Sentences --------------------------------------------------------------------------------------


def test_words_tell_each_method_beside_alibi():
    said = music_words(Result(rows_of(LOSSES | {"full": (2.0, 2.2)}, ("maestro",)), {}))
    assert said[1].startswith("maestro, lc_affine - alibi at 256 -0.100")
    assert "; flat: lc_affine, from 256 to 8,192" in said[1]
    assert "not flat: full" in said[2]


def test_a_return_is_seen_beyond_what_the_bars_alone_explain():
    rows = []
    for seed in range(3):
        for method, losses in {"alibi": (2.0, 1.7, 1.9), "bigram": (2.5, 2.4, 2.4)}.items():
            for lag, loss in zip((0, 4, 8), losses, strict=True):
                row = {"kind": "returns", "method": method, "seed": seed, "length": 256}
                rows.append(row | {"lag": lag, "loss": loss + 0.001 * seed * (lag + 1)})
    (said, _) = motif_words(Result(rows, {}))
    assert said.startswith("alibi at 256: sees of 4 bars 0.200"), said
    assert ", misses of 8 bars 0.000" in said
    own = [r for r in rows if r["method"] == "alibi"]
    assert gains(own, 4) == pytest.approx([0.3, 0.296, 0.292])
    assert motif_words(Result([r for r in rows if r["seed"] == 0], {})) == []
    told = gain_table(Result(rows, {}), 256).splitlines()
    assert told[0].split("|")[2].strip() == "4 bars"
    assert [cell.strip() for cell in told[2].split("|")[1:4]] == ["`alibi`", "0.200", "0.000"]
    assert gain_table(Result(own, {}), 256) == gain_table(Result([], {}), 256) == ""
