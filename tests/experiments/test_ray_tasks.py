"""Cells as tasks of Ray give the rows of the local run, and an interrupted run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_experiment_run import _midway, _steps, _wait_for, _wait_until_still

from pjrope.cli import main
from pjrope.experiments import CellsFailed, ExperimentError, run
from pjrope.experiments.engine import ray_tasks

QUIET = {"progress": False}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Where the steps of fake/slow are written; the workers of a cluster inherit it at its start."""
    return tmp_path_factory.mktemp("steps") / "log"


@pytest.fixture(scope="module")
def two_workers(log):
    """One Ray with two cores for all tests of this file: starting it costs seconds."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ray_tasks.ADDRESS, raising=False)
        patch.setenv("FAKE_LOG", str(log))
        patch.setenv("FAKE_SLEEP", "0.2")
        cluster = _started(ray)
    yield ray
    cluster.__exit__(None, None, None)


def _started(ray):
    """Ray gives its own processes half a minute; on a busy machine that is not always enough."""
    for _ in range(2):
        cluster = ray_tasks._cluster(ray, 2)
        try:
            cluster.__enter__()
        except ExperimentError as error:
            assert "\n" not in str(error) and "use the launcher local" in str(error)
            ray.shutdown()
        else:
            return cluster
    return pytest.skip("Ray did not start in time on this machine, twice")


def test_two_ray_workers_give_the_rows_of_the_local_run(tmp_path, two_workers):
    local = run("fake/quick", out=tmp_path / "local", **QUIET)
    far = run("fake/quick", out=tmp_path / "ray", launcher="ray", jobs=2, **QUIET)
    assert len(far.rows) == 12 and far.rows == local.rows
    assert {row["threads"] for row in far.rows} == {1}
    same = set(local.card) - {"date", "wall_seconds", "cpu_seconds"}
    assert {key: far.card[key] for key in same} == {key: local.card[key] for key in same}
    assert two_workers.is_initialized()  # a connection that the caller made stays open


def test_cells_of_a_machine_with_its_own_disk_are_stored_here(tmp_path, two_workers, monkeypatch):
    """The worker's folder is another one, as on a machine that shares no disk with this one."""
    start = ray_tasks._Work.__init__

    def elsewhere(self, *words):
        start(self, *words)
        self.words["out"] = tmp_path / "there"

    monkeypatch.setattr(ray_tasks._Work, "__init__", elsewhere)
    result = run("fake/quick", out=tmp_path / "here", launcher="ray", jobs=2, **QUIET)
    assert len(list((tmp_path / "here/fake/quick/smoke/cells").glob("*.json"))) == 4
    assert result.rows == run("fake/quick", out=tmp_path / "local", **QUIET).rows


@pytest.mark.weekly
def test_a_task_that_fails_or_dies_takes_no_other_along(tmp_path, two_workers):
    with pytest.raises(CellsFailed, match="2 of 3 cells failed") as caught:
        run("fake/broken", seeds=[2, 1, 0], out=tmp_path, launcher="ray", jobs=2, **QUIET)
    told = {cell.seed: text for cell, text in caught.value.failures}
    assert "the loss exploded" in told[1] and told[2].startswith("the Ray worker died: ")
    assert [row["seed"] for row in caught.value.result.rows] == [0]


@pytest.mark.weekly
def test_a_machine_with_another_version_is_told(tmp_path, two_workers, monkeypatch):
    def other(words, key):
        return "ended", {"fingerprint": "another", "environment": {"version": "0.0.9"}}

    monkeypatch.setattr(ray_tasks, "_compute", other)
    with pytest.raises(CellsFailed, match=r"has pjrope 0\.0\.9 .* install the same version"):
        run("fake/slow", seeds=[0], out=tmp_path, launcher="ray", **QUIET)
    assert not list((tmp_path / "fake/slow/smoke").glob("cells/*.json"))


@pytest.mark.weekly
def test_a_result_that_cannot_be_stored_ends_the_run(tmp_path, two_workers):
    folder = tmp_path / "fake" / "quick" / "smoke"
    folder.mkdir(parents=True)
    (folder / "cells").write_text("a file where a folder must be")
    with pytest.raises(ExperimentError, match=r"cannot write .*a file where a folder must be"):
        run("fake/quick", out=tmp_path, launcher="ray", jobs=2, **QUIET)


@pytest.mark.weekly
def test_a_gpu_that_the_cluster_lacks_is_refused(tmp_path, two_workers):
    if two_workers.cluster_resources().get("GPU"):
        pytest.skip("this cluster has a GPU")
    with pytest.raises(ExperimentError, match="the Ray cluster has no GPU; use --device cpu"):
        run("fake/quick", out=tmp_path, launcher="ray", device="cuda", **QUIET)


INTERRUPTED = """
import fake_experiments, sys
from pathlib import Path
from pjrope.experiments import register, run
for name, place in fake_experiments.PLACES.items():
    register(name, place)
run("fake/slow", out=Path(sys.argv[1]), launcher="ray", jobs=2, progress=False)
"""


@pytest.mark.weekly
def test_an_interrupted_run_on_a_cluster_goes_on_where_it_was(tmp_path, two_workers, log):
    whole = run("fake/slow", out=tmp_path / "whole", **QUIET)
    out, script = tmp_path / "out", tmp_path / "interrupted.py"
    cells = out / "fake/slow/smoke/cells"
    script.write_text(INTERRUPTED)
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    address = two_workers.get_runtime_context().gcs_address
    env = {**os.environ, "PYTHONPATH": paths, ray_tasks.ADDRESS: address}
    process = subprocess.Popen([sys.executable, script, out], env=env, stderr=subprocess.DEVNULL)
    try:
        _wait_for(lambda: list(cells.glob("*.json")) and _midway(log, 6), process, 120)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    _wait_until_still(log)
    assert process.returncode != 0 and 1 <= len(list(cells.glob("*.json"))) < 4
    before = _steps(log)
    assert sum(before.values()) < 4 * 12

    result = run("fake/slow", out=out, launcher="ray", jobs=2, **QUIET)
    assert result.rows == whole.rows
    steps = _steps(log)
    # No step was done twice; one is unlogged if the end fell just after its checkpoint.
    assert len(steps) >= 4 * 12 - 2 and max(steps.values()) == 1
    assert json.loads((out / "fake/slow/smoke.json").read_text())["rows"] == whole.rows


def test_without_ray_one_line_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)  # an import of it then fails as if it were absent
    code = main(["run", "fake/quick", "--launcher", "ray", "--out", str(tmp_path)])
    told = capsys.readouterr().err
    assert code == 2 and told.count("\n") == 1 and 'pip install "pjrope[ray]"' in told
    assert not list(tmp_path.iterdir())


def test_an_unknown_launcher_names_those_there_are(tmp_path):
    with pytest.raises(ExperimentError, match="launcher 'slurm': choose from local, ray"):
        run("fake/quick", out=tmp_path, launcher="slurm", **QUIET)
