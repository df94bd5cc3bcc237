"""A diagnosis from tokens to a page, with trainings of a few steps."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
import torch

import pjrope
from pjrope import cli
from pjrope.diagnosis import InputError, Shape, api
from pjrope.diagnosis import plan as plan_module
from pjrope.diagnosis.arms import cells_of, match_rates, starting_frequencies
from pjrope.diagnosis.plan import FEWEST_STEPS, Plan, make_plan, split
from pjrope.diagnosis.planted import PLANTED, planted_series
from pjrope.diagnosis.source import source_of
from pjrope.experiments import ExperimentError, read
from pjrope.experiments.engine.store import held

TINY = Shape(length=16, width=16, layers=1, heads=2, max_order=1, batch=4, scored=16, segments=16)
QUICK = {"steps": 8, "seeds": (0,), "starts": ("uniform", "fj"), "shape": TINY, "progress": False}


@pytest.fixture(scope="module")
def tokens():
    return torch.randint(5, (20_000,), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def whole(tokens, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    report = pjrope.diagnose(tokens, out=out, name="dice & <co>", **QUICK)
    report.save(out)
    return out, report


def test_json_holds_what_the_page_shows(whole):
    out, report = whole
    found = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert found == json.loads(json.dumps(report.to_json()))
    assert set(found) == {"format", "source", "decision", "plan", "losses", "cells"}
    assert found["format"] == 1 and found["source"]["tokens"] == 20_000
    assert found["decision"]["verdict"] == report.verdict
    assert set(found["losses"]) == set(pjrope.diagnosis.ARMS)
    assert set(found["losses"]["rope"]) == {"16", "32", "64"}
    assert set(found["losses"]["rope"]["16"]) == {"mean", "low", "high", "n"}
    assert len(found["cells"]) == 9
    union = found["cells"][-1]
    assert (union["arm"], union["start"]) == ("union", "fj")
    assert {row["sector"] for row in union["left_out"]} == {"affine", "near", "fj", "lc"}
    assert len(union["kernel"][0]["total"][0]) == 32 and union["curve"][-1]["step"] == 8


def test_dice_are_not_found_to_have_structure(whole):
    decision = whole[1].decision
    assert decision.verdict in ("no structure", "cannot tell") and decision.kernel is None


def test_a_copy_from_three_back_is_found_by_the_near_table():
    generator = torch.Generator().manual_seed(0)
    fresh = torch.randint(5, (20_000,), generator=generator).tolist()
    copies = (torch.rand(20_000, generator=generator) < 0.9).tolist()
    made = fresh[:3]
    for t in range(3, 20_000):
        made.append(made[t - 3] if copies[t] else fresh[t])
    report = pjrope.diagnose(made, **(QUICK | {"steps": 60, "starts": ("uniform",)}))
    assert report.verdict in ("found", "cannot tell") and report.decision.kernel != "none"
    gain = report.evidence.gap("none", "near")
    assert gain.low > 0.1 and gain.mean > report.evidence.gap("none", "affine").mean
    bias = torch.tensor(next(c for c in report.cells if c["arm"] == "near")["kernel"][0]["total"])
    assert 2 in bias.argmax(1).tolist()  # the query stands one before the token it predicts


class Seen(HTMLParser):
    VOID = ("meta", "circle", "path", "br")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.words = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def test_the_page_stands_alone(whole):
    out, _ = whole
    text = (out / "report.html").read_text(encoding="utf-8")
    seen = Seen()
    seen.feed(text)
    assert not seen.open and "dice & <co>" in seen.words
    assert not {tag for tag, _ in seen.tags} & {"script", "link", "img", "iframe"}
    assert not re.search(r"https?:|url\(|@import", text)
    charts = [a for tag, a in seen.tags if tag == "svg" and a.get("role") == "img"]
    assert len(charts) == 5 and all(len(a["aria-label"]) > 40 for a in charts)
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert "prefers-color-scheme:dark" in text


def test_the_same_command_goes_on_where_it_was_stopped(tokens, whole, tmp_path, monkeypatch):
    done, stopped_in = [], []
    train = api.run_cell.__globals__["train"]

    def stopping(model, data, config, **options):
        if len(done) == 3 and not stopped_in:  # stop in the middle of the fourth training
            stopped_in.append(options["out"])
            watch = options["watch"]
            seen = []

            def interrupt(of):
                seen.append(of)
                if len(seen) == 6:
                    raise KeyboardInterrupt
                return watch(of)

            options["watch"] = interrupt
        done.append(1)
        return train(model, data, config, **options)

    monkeypatch.setitem(api.run_cell.__globals__, "train", stopping)
    with pytest.raises(KeyboardInterrupt):
        pjrope.diagnose(tokens, out=tmp_path, name="dice & <co>", **QUICK)
    assert len(list((tmp_path / "cells").iterdir())) == 3 and stopped_in[0].is_dir()
    done.clear()
    again = pjrope.diagnose(tokens, out=tmp_path, name="dice & <co>", **QUICK)
    assert len(done) == 6  # three of nine were finished
    assert again.to_json() == whole[1].to_json()
    assert not list((tmp_path / "training").iterdir())  # checkpoints go when findings are written
    with pytest.raises(InputError, match="other steps: add --fresh"):
        pjrope.diagnose(tokens, out=tmp_path, **(QUICK | {"steps": 9}))


def test_a_folder_takes_one_diagnosis_at_a_time(tokens, tmp_path):
    (tmp_path / "plan.json").write_text("of the other one")
    with held(tmp_path), pytest.raises(ExperimentError, match="another run is writing to"):
        pjrope.diagnose(tokens, out=tmp_path, fresh=True, **QUICK)
    assert (tmp_path / "plan.json").exists()


def test_a_training_goes_on_from_its_checkpoint(tokens, tmp_path):
    """The same bits as one that was never stopped, in the middle of a cell too."""
    from pjrope.diagnosis.arms import build
    from pjrope.diagnosis.plan import split, training_config
    from pjrope.training import train

    source = source_of(tokens, name="x")
    data, omega = split(source, TINY), starting_frequencies(source.tokens, TINY)
    cell, config = cells_of([0], ["fj"])[-1], training_config(TINY, 60)
    straight, broken = (build(cell, TINY, source.vocab, omega) for _ in range(2))
    train(straight, data.train, config, seed=0, progress=False)

    def interrupt(_):
        raise KeyboardInterrupt

    calls = iter([lambda m: 0.0] * 4 + [interrupt])
    with pytest.raises(KeyboardInterrupt):
        train(
            broken,
            data.train,
            config,
            seed=0,
            out=tmp_path,
            progress=False,
            watch=lambda m: next(calls)(m),
        )
    broken = build(cell, TINY, source.vocab, omega)
    resumed = train(
        broken, data.train, config, seed=0, out=tmp_path, progress=False, watch=lambda m: 0.0
    )
    assert resumed.resumed_from > 0
    assert all(
        torch.equal(a, b) for a, b in zip(straight.parameters(), broken.parameters(), strict=True)
    )


def test_frequencies_start_at_the_periods_of_the_data():
    t = torch.arange(4000)
    shape = Shape(length=64, heads=2)
    found = starting_frequencies(t % 8, shape)["fj"] * 64 / (2 * torch.pi)
    assert found.min() >= 1 and (found - 8).abs().min() < 1e-9
    assert match_rates(t % 8, 16).tolist() == [0.0] * 7 + [1.0] + [0.0] * 7 + [1.0]


def test_little_data_needs_no_training():
    report = pjrope.diagnose("to be or not to be " * 160, progress=False)
    assert report.verdict == "too little data" and report.plan is None
    assert "too little data" in report.text() and report.to_json()["losses"] == {}
    assert "Too little data" in report._repr_html_()


def test_the_budget_decides_the_steps(tokens, monkeypatch):
    source = source_of(tokens, name="x")
    monkeypatch.setattr("pjrope.diagnosis.plan._seconds_per_step", lambda *_: 0.01)
    monkeypatch.setattr("pjrope.diagnosis.plan._seconds_of_reading", lambda *_: 0.1)
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)
    asked = {"seeds": (0,), "starts": ("uniform", "fj"), "device": "cpu"}
    plan = make_plan(source, TINY, minutes=1.0, **asked)
    assert plan.steps == int((60 * 0.9 - 9 * 0.1) / (9 * 0.01))
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert make_plan(source, None, minutes=0.5, **asked).shape.length == 64
    assert make_plan(source, None, minutes=5, **asked).shape.length == 128
    with pytest.raises(InputError, match=rf"at least {FEWEST_STEPS} are needed: give --minutes"):
        make_plan(source, TINY, minutes=0.01, **asked)


def test_measuring_is_cheap_and_counts_against_the_budget(tokens, monkeypatch):
    source, now, read = source_of(tokens, name="x"), [0.0], []
    asked = {"seeds": (0,), "starts": ("uniform", "fj"), "device": "cpu"}
    real = plan_module.evaluate

    def seen(model, windows, *, lengths):
        read.append(len(windows.ends))
        return real(model, windows, lengths=lengths)

    monkeypatch.setattr(plan_module, "evaluate", seen)
    make_plan(source, TINY, minutes=5.0, **asked)
    segments = len(split(source, TINY).windows.ends)
    assert segments == 16 and set(read) == {2}  # one of eight, and scaled up

    def slow(*_):
        now[0] += 2.0  # by arm
        return 0.1

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr(plan_module, "_seconds_per_step", lambda *_: 0.01)
    monkeypatch.setattr(plan_module, "_seconds_of_reading", slow)
    plan = make_plan(source, TINY, minutes=1.0, **asked)
    assert plan.steps == int((60 * 0.9 - 9 * 0.1 - 8 * 2.0) / (9 * 0.01))
    # Where not even the fastest arm would get far, the longer window is not measured whole.
    now[0] = 0.0
    assert make_plan(source, None, minutes=1.0, **asked).shape.length == 64
    assert now[0] == 8 * 2.0


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"device": "tpu"}, "choose from auto"),
        ({"starts": ("near", "moon")}, "starts from uniform"),
        ({"seeds": ()}, "at least one of each"),
    ],
)
def test_options_that_are_refused(tokens, bad, told):
    with pytest.raises(InputError, match=told):
        pjrope.diagnose(tokens, **(QUICK | bad))


def test_planted_biases_are_what_they_say():
    assert len(PLANTED) == 10 and len({p.name for p in PLANTED}) == 10
    for truth in PLANTED:
        assert torch.isfinite(truth.bias(64)).all()
    near = planted_series(PLANTED[2], 5000, seed=1)
    again = planted_series(PLANTED[2], 5000, seed=1)
    assert torch.equal(near.tokens, again.tokens)
    rates = match_rates(near.tokens, 8)  # the table's largest entries are lags 1, 3, 5 back from t
    assert set(rates.argsort(descending=True)[:3].tolist()) >= {1}


def test_planted_series_are_diagnosed_one_after_the_other(tmp_path, monkeypatch, capsys):
    from pjrope.diagnosis import planted

    monkeypatch.setattr(planted, "PLANTED", PLANTED[:2])
    monkeypatch.setattr(planted, "SHAPE", TINY)
    monkeypatch.setattr(
        planted, "planted_series", lambda t, seed: planted_series(t, 20_000, seed=seed)
    )
    words = ["diagnose", "--planted", "--steps", "3", "--out", str(tmp_path), "--device", "cpu"]
    assert cli.main(words) == 0
    told = capsys.readouterr().out
    assert "affine-24" in told and " of 2; reports in" in told
    found = read(tmp_path / "planted.json")  # as strict as for a record
    assert found.card["seeds"] == [3000, 3001] and found.card["experiment"] == "diagnosis/planted"
    rows = found.rows
    assert [row["sector"] for row in rows] == ["affine", "affine"]
    assert all(row["found"] == (row["leading"] == row["sector"]) for row in rows)
    assert (tmp_path / "affine-8" / "report.html").is_file()


def test_command_line(tmp_path, tokens, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "die.bin"
    path.write_bytes(bytes(range(60)) * 20)
    assert cli.main(["diagnose", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert cli.main(["diagnose", str(path), "--dtype", "uint16"]) == 0
    told = capsys.readouterr().out
    assert "Verdict: too little data" in told and "report.html" in told
    assert (tmp_path / "pjrope-diagnosis" / "die.bin" / "report.html").is_file()
    for words in (
        [],
        ["no.txt"],
        [str(path), "--kind", "bytes", "--length", "65"],
        [str(path), "--kind", "bytes", "--seeds", "0"],
    ):
        assert cli.main(["diagnose", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit) as stop:
        cli.main(["diagnose", str(path), "--minutes", "soon"])
    assert stop.value.code == 2
    with pytest.raises(SystemExit):
        cli.main(["diagnose", "--help"])
    assert "quantile bins" in capsys.readouterr().out


def test_ctrl_c_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("abc " * 20_000)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "run_cell", stop)
    words = ["diagnose", str(path), "--steps", "5", "--out", str(tmp_path / "out")]
    assert cli.main(words) == 130
    assert "to go on, repeat: pjrope diagnose" in capsys.readouterr().err
    assert (tmp_path / "out" / "plan.json").is_file()
