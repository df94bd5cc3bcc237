"""A record that grows: what is finished is written down, and a later run goes on from it."""

from __future__ import annotations

import json

import fake_experiments  # noqa: F401
import pytest

from pjrope import record
from pjrope.experiments import ExperimentError, load, run
from pjrope.experiments.analysis.report import card_line

QUIET = {"progress": False}


@pytest.fixture(autouse=True)
def own_record(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "home", lambda: tmp_path / "record")
    monkeypatch.setattr(record, "in_checkout", lambda: True)


def written(seeds, tmp_path, **only):
    run("fake/quick", "book", seeds=seeds, out=tmp_path / "a", only=only or None, **QUIET)
    return run("fake/quick", "book", out=tmp_path / "a", record=True, partial=True, **QUIET)


def test_what_is_finished_is_recorded_and_says_of_how_many(tmp_path):
    result = written([0], tmp_path, method="rope")
    stored = load("fake/quick", "book")
    assert stored.rows == result.rows and {r["method"] for r in stored.rows} == {"rope", "ntk"}
    assert (stored.card["cells"], stored.card["of_cells"]) == (1, 6)
    assert "1 cells of 6" in card_line(stored.card)
    whole = run("fake/quick", "book", out=tmp_path / "a", record=True, **QUIET)
    assert load("fake/quick", "book").rows == whole.rows
    assert "of_cells" not in load("fake/quick", "book").card


def test_a_later_run_goes_on_from_the_record_with_equal_rows(tmp_path):
    written([0], tmp_path)
    whole = run("fake/quick", "book", out=tmp_path / "b", **QUIET)
    resumed = run("fake/quick", "book", out=tmp_path / "c", resume_record=True, **QUIET)
    assert resumed.rows == whole.rows
    files = list((tmp_path / "c" / "fake" / "quick" / "book" / "cells").glob("*.json"))
    times = {json.loads(f.read_text())["key"]["seed"]: f.stat().st_size for f in files}
    assert set(times) == {0, 1, 2} and len(files) == 6
    assert resumed.card["commit"] == whole.card["commit"]


def test_a_record_of_other_settings_or_none_is_not_taken_up(tmp_path):
    with pytest.raises(FileNotFoundError, match="fake/quick"):
        run("fake/quick", "book", out=tmp_path, resume_record=True, **QUIET)
    with pytest.raises(ExperimentError, match="no cell of fake/quick"):
        run("fake/quick", "book", out=tmp_path, record=True, partial=True, **QUIET)
    written([0], tmp_path)
    path = record.path("fake/quick", "book")
    value = json.loads(path.read_text())
    value["card"]["spec_id"] = "0" * 12
    path.write_text(json.dumps(value))
    with pytest.raises(ExperimentError, match="other settings"):
        run("fake/quick", "book", out=tmp_path / "d", resume_record=True, **QUIET)
