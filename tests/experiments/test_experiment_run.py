"""Runs: order, reuse, failures, filters, and that a kill costs only what was not finished."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import fake_experiments
import pytest
import torch

from pjrope import record
from pjrope.experiments import CellsFailed, ExperimentError, Preset, load, read, run
from pjrope.experiments.engine import workers

QUIET = {"progress": False}


def test_rows_come_in_the_order_of_the_grid_and_the_file_holds_them(tmp_path):
    result = run("fake/quick", out=tmp_path, **QUIET)
    methods = ["none", "none", "rope", "rope", "ntk", "ntk"]
    assert [(row["seed"], row["method"]) for row in result.rows] == [
        (seed, method) for seed in (0, 1) for method in methods
    ]
    stored = read(tmp_path / "fake" / "quick" / "smoke.json")
    assert stored.rows == result.rows and stored.card == result.card


def test_a_run_leaves_threads_and_random_streams_as_they_were(tmp_path):
    before = torch.get_num_threads(), torch.get_rng_state(), random.getstate()
    torch.set_num_threads(2)
    try:
        run("fake/quick", out=tmp_path, **QUIET)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before[0])
    assert torch.equal(torch.get_rng_state(), before[1]) and random.getstate() == before[2]


def test_stray_draws_do_not_depend_on_the_cells_before(tmp_path):
    full = run("fake/quick", out=tmp_path / "a", **QUIET)
    alone = run("fake/quick", out=tmp_path / "b", only={"method": "ntk", "seed": 1}, **QUIET)
    assert alone.rows == full.where(seed=1, method=["rope", "ntk"]).rows


def test_store_false_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert run("fake/quick", store=False, **QUIET).rows
    assert not list(tmp_path.rglob("*.json")) and not (tmp_path / "pjrope-results").exists()
    with pytest.raises(ExperimentError, match="store=False"):
        run("fake/quick", store=False, out=tmp_path, **QUIET)


def test_finished_cells_are_skipped_and_the_file_is_the_same_to_the_byte(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    run("fake/slow", out=tmp_path, **QUIET)
    before = (tmp_path / "fake/slow/smoke.json").read_bytes()
    lines = (tmp_path / "log").read_text()
    run("fake/slow", out=tmp_path, **QUIET)
    assert (tmp_path / "log").read_text() == lines
    assert (tmp_path / "fake/slow/smoke.json").read_bytes() == before


def test_the_file_gathers_all_seeds_and_the_result_those_asked_for(tmp_path):
    run("fake/slow", seeds=[5], out=tmp_path, **QUIET)
    result = run("fake/slow", seeds=[2, 3], out=tmp_path, **QUIET)
    assert [row["seed"] for row in result.rows] == [2, 3]
    stored = read(tmp_path / "fake/slow/smoke.json")
    assert [row["seed"] for row in stored.rows] == stored.card["seeds"] == [2, 3, 5]


def _with_steps(steps: int):
    preset = Preset("smoke", (0,), {"steps": steps}, "")
    return replace(fake_experiments.SLOW, presets={"smoke": preset})


def test_changed_settings_are_run_again_and_take_no_old_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    run(_with_steps(3), out=tmp_path, keep_work=True, **QUIET)
    run(_with_steps(5), out=tmp_path, **QUIET)
    steps = [line.split()[1] for line in (tmp_path / "log").read_text().splitlines()]
    assert steps == list("123") + list("12345")


def test_other_corpora_are_run_again(tmp_path):
    names = iter(["stand_in", "real", "real"])
    ran = []

    def cell(cell, context):
        ran.append(cell.seed)
        return [{"method": "sum", "seed": cell.seed}]

    experiment = replace(
        _with_steps(1),
        run_cell=cell,
        data=lambda preset: [{"name": next(names), "sha256": "00", "stand_in": False}],
    )
    cards = [run(experiment, out=tmp_path, **QUIET).card for _ in range(3)]
    assert [card["data"][0]["name"] for card in cards] == ["stand_in", "real", "real"]
    assert ran == [0, 0]


def test_work_folders_go_unless_kept(tmp_path):
    run("fake/slow", seeds=[0], out=tmp_path, **QUIET)
    assert not list(tmp_path.rglob("state.json"))
    run("fake/slow", seeds=[1], out=tmp_path, keep_work=True, **QUIET)
    assert len(list(tmp_path.rglob("state.json"))) == 1


def test_a_damaged_cell_file_is_run_again(tmp_path):
    rows = run("fake/slow", seeds=[0], out=tmp_path, **QUIET).rows
    (file,) = (tmp_path / "fake/slow/smoke/cells").iterdir()
    file.write_text(file.read_text()[:40])
    assert run("fake/slow", seeds=[0], out=tmp_path, **QUIET).rows == rows


def test_a_failing_cell_is_named_and_the_others_finish(tmp_path):
    with pytest.raises(CellsFailed, match="1 of 3 cells failed") as caught:
        run("fake/broken", out=tmp_path, **QUIET)
    assert [cell.seed for cell, _ in caught.value.failures] == [1]
    assert "seed=1: ValueError: the loss exploded" in str(caught.value)
    assert [row["seed"] for row in caught.value.result.rows] == [0, 3]
    assert [row["seed"] for row in read(tmp_path / "fake/broken/smoke.json").rows] == [0, 3]


def test_a_worker_that_dies_or_fails_takes_no_other_along(tmp_path):
    with pytest.raises(CellsFailed) as caught:
        run("fake/broken", seeds=[2, 1, 0], out=tmp_path, jobs=2, **QUIET)
    told = {cell.seed: text for cell, text in caught.value.failures}
    assert "exit code 7" in told[2] and "the loss exploded" in told[1]
    assert [row["seed"] for row in caught.value.result.rows] == [0]


def test_numbers_that_are_not_finite_are_named(tmp_path):
    (row,) = run("fake/broken", seeds=[0], out=tmp_path, **QUIET).rows
    assert row["loss"] is None and row["not_finite"] == ["loss"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "night"}, "no preset 'night'"),
        ({"seeds": [1, 1]}, "none twice"),
        ({"only": {"size": 1}}, "no cell has 'size'; filter by: method, seed"),
        ({"only": {"method": "alibi"}}, "no cell matches method=alibi; there are method: none"),
        ({"jobs": 0}, "jobs 0"),
        ({"device": "tpu"}, "choose from auto, cpu, cuda"),
    ],
)
def test_bad_requests_name_the_way_out(tmp_path, options, message):
    with pytest.raises(ExperimentError, match=message):
        run("fake/quick", out=tmp_path, **options, **QUIET)
    assert not list(tmp_path.rglob("*.json"))


def test_a_second_run_in_the_same_folder_is_refused(tmp_path):
    def nested(cell, context):
        return run("fake/slow", out=tmp_path, **QUIET).rows

    with pytest.raises(CellsFailed, match="another run is writing"):
        run(replace(_with_steps(1), run_cell=nested), out=tmp_path, **QUIET)


def test_a_record_is_whole_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "home", lambda: tmp_path / "record")
    monkeypatch.setattr(record, "in_checkout", lambda: True)
    options = {"out": tmp_path / "out", "record": True, **QUIET}
    with pytest.raises(ExperimentError, match="2 of 4 cells of fake/quick"):
        run("fake/quick", only={"method": "none"}, **options)
    assert record.recorded() == []
    result = run("fake/quick", **options)
    assert record.recorded() == [("fake/quick", "smoke")]
    assert load("fake/quick", "smoke") == result
    monkeypatch.setattr(record, "in_checkout", lambda: False)
    with pytest.raises(ExperimentError, match="checkout"):
        run("fake/quick", **options)


UNGUARDED = """
import sys
from pathlib import Path
import fake_experiments
from pjrope.experiments import ExperimentError, register, run
for name, place in fake_experiments.PLACES.items():
    register(name, place)
try:
    run("fake/quick", seeds=[0], only={"method": "none"}, out=Path(sys.argv[1]), jobs=2, progress=False)
except ExperimentError as error:
    print(error)
"""


def test_jobs_in_a_script_without_a_main_guard_are_told_once(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(UNGUARDED)
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, script, tmp_path / "out"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.stderr == "" and done.stdout.count("\n") == 1
    assert 'put the call under `if __name__ == "__main__":`, or use jobs=1' in done.stdout


def test_cells_side_by_side_give_the_same_rows_as_one_by_one(tmp_path, monkeypatch):
    started = []
    begin = workers._Worker.__init__

    def counted(self, *words):
        started.append(self)
        begin(self, *words)

    monkeypatch.setattr(workers._Worker, "__init__", counted)
    one = run("fake/quick", seeds=range(6), out=tmp_path / "one", **QUIET)
    monkeypatch.chdir(tmp_path)  # workers start elsewhere, and must still find a relative folder
    two = run("fake/quick", seeds=range(6), out="two", jobs=2, **QUIET)
    assert len(started) == 2  # for twelve cells: starting one costs seconds
    assert len(one.rows) == 36 and one.rows == two.rows
    assert {row["threads"] for row in two.rows} == {1}


def test_a_result_that_cannot_be_stored_ends_the_run(tmp_path):
    """In workers too: tests/test_cli_surroundings.py has a size limit of files stop two of them."""
    folder = tmp_path / "fake" / "quick" / "smoke"
    folder.mkdir(parents=True)
    (folder / "cells").write_text("a file where a folder must be")
    with pytest.raises(
        ExperimentError, match=r"cannot write .*a file where a folder must be"
    ) as caught:
        run("fake/quick", out=tmp_path, **QUIET)
    assert "\n" not in str(caught.value)


KILLED = """
import fake_experiments, sys
from pathlib import Path
from pjrope.experiments import register, run
if __name__ == "__main__":
    for name, place in fake_experiments.PLACES.items():
        register(name, place)
    run("fake/slow", out=Path(sys.argv[1]), jobs=int(sys.argv[2]), progress=False)
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_run_goes_on_and_ends_with_equal_rows(tmp_path, monkeypatch, jobs):
    whole = run("fake/slow", out=tmp_path / "whole", **QUIET)
    log, out, script = tmp_path / "log", tmp_path / "out", tmp_path / "killed.py"
    cells = out / "fake/slow/smoke/cells"
    script.write_text(KILLED)
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths, "FAKE_LOG": str(log), "FAKE_SLEEP": "0.2"}
    process = subprocess.Popen([sys.executable, script, out, str(jobs)], env=env)
    try:
        _wait_for(lambda: list(cells.glob("*.json")) and _midway(log, 5), process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    _wait_until_still(log)
    assert 1 <= len(list(cells.glob("*.json"))) < 4 and _midway(log)
    assert not (out / "fake/slow/smoke.json").exists()

    monkeypatch.setenv("FAKE_LOG", str(log))
    assert run("fake/slow", out=out, **QUIET).rows == whole.rows
    steps = _steps(log)
    # No step was done twice; one is unlogged if the kill fell just after its checkpoint.
    assert len(steps) >= 4 * 12 - jobs and max(steps.values()) == 1
    assert json.loads((out / "fake/slow/smoke.json").read_text())["rows"] == whole.rows


def _steps(log: Path) -> Counter:
    return Counter(log.read_text().splitlines()) if log.exists() else Counter()


def _midway(log: Path, most: int = 10) -> bool:
    """Say whether a cell has begun and not ended: it has done 2 to ``most`` of its 12 steps."""
    begun = Counter(line.split()[0] for line in _steps(log))
    return any(2 <= steps <= most for steps in begun.values())


def _wait_for(condition, process, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < end, "the run made no progress"
        time.sleep(0.01)


def _wait_until_still(log: Path) -> None:
    """See that orphaned workers leave by themselves: a living one writes every 0.05 seconds."""
    time.sleep(0.3)
    size = log.stat().st_size
    time.sleep(0.3)
    assert log.stat().st_size == size, "a worker outlived the run that was killed"
