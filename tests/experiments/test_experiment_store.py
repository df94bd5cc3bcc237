"""Files and cards: strict JSON, nothing half written, and a card that hides no difference."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from dataclasses import replace

import fake_experiments
import pytest

from pjrope import record
from pjrope.experiments import ExperimentError, load, read, run
from pjrope.experiments.analysis.report import card_line, report
from pjrope.experiments.engine import environment, system
from pjrope.experiments.engine.cells import agree
from pjrope.experiments.engine.result import check_row
from pjrope.experiments.engine.store import CannotWrite, write


@pytest.fixture
def result(tmp_path):
    return run("fake/quick", out=tmp_path, progress=False)


def test_the_card_tells_what_a_reader_must_know(result):
    card = result.card
    assert (card["experiment"], card["preset"], card["cells"]) == ("fake/quick", "smoke", 4)
    assert card["settings"] == {"scale": 0.5, "lengths": [8, 1024]} and card["seeds"] == [0, 1]
    assert card["data"] == [{"name": "toy", "sha256": "00", "stand_in": True}]
    assert card["threads"] == 1 and card["device"] == "cpu" and card["cpu"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", card["date"])
    assert card["wall_seconds"] > 0 and card["torch"].startswith("2.")


def test_floats_come_back_to_the_bit(tmp_path):
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0]
    write(tmp_path / "x.json", values)
    assert [v.hex() for v in json.loads((tmp_path / "x.json").read_text())] == [
        v.hex() for v in values
    ]


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    write(path, {"old": 1})

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CannotWrite, match=r"x\.json: no space"):
        write(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1} and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("rows"), "exactly 'card' and 'rows'"),
        (lambda v: v["card"].pop("spec_id"), "'spec_id' is missing"),
        (lambda v: v["card"].update(seeds="0"), "'seeds' is missing or of a wrong type"),
        (lambda v: v["rows"][1].pop("method"), "row 1 lacks"),
        (lambda v: v["rows"][0].update(more={"x": 1}), "'more' is a mapping"),
        (lambda v: v["rows"][0].update(loss=float("nan")), "NaN is not JSON"),
    ],
)
def test_a_file_that_breaks_the_rules_is_refused(tmp_path, result, change, message):
    value = {"card": dict(result.card), "rows": [dict(row) for row in result.rows]}
    change(value)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(value))
    with pytest.raises(ExperimentError, match=message):
        read(path)


def test_rows_must_be_flat_mappings():
    with pytest.raises(ExperimentError, match="row 0 is a list"):
        check_row([1], "row 0")
    with pytest.raises(ExperimentError, match=r"lacks \['seed'\]"):
        check_row({"method": "rope"}, "row 0")


def test_loading_what_is_not_recorded_lists_what_is(tmp_path, monkeypatch, result):
    monkeypatch.setattr(record, "home", lambda: tmp_path / "record")
    with pytest.raises(FileNotFoundError, match="recorded: none yet"):
        load("fake/quick")
    write(record.path("fake/quick", "smoke"), {"card": result.card, "rows": result.rows})
    with pytest.raises(FileNotFoundError, match=r"'book'; recorded: fake/quick \(smoke\)"):
        load("fake/quick")
    assert load("fake/quick", "smoke").rows == result.rows
    write(record.path("fake/slow", "smoke"), {"card": result.card, "rows": result.rows})
    with pytest.raises(ExperimentError, match="the record of fake/slow"):
        load("fake/slow", "smoke")


def test_every_committed_record_can_be_read():
    assert record.home().is_dir()
    for name, preset in record.recorded():
        assert load(name, preset).card["experiment"] == name


def test_cells_from_different_machines_show_on_the_card():
    assert agree(["a", "a"]) == "a" and agree([None, None]) is None
    assert agree(["2.13", "2.6", "2.13"]) == "2.13 + 2.6"
    assert agree([False, True], any) is True and agree([False, False], any) is False


def test_the_commit_is_told_in_a_checkout_only(tmp_path, monkeypatch):
    revision, dirty = environment.commit()
    assert (revision is None) == (dirty is None)
    assert revision is None or re.fullmatch(r"[0-9a-f]{40,64}", revision)
    monkeypatch.setattr(environment, "PACKAGE", tmp_path / "pjrope")
    assert environment.commit() == (None, None)


def test_a_report_shows_tables_differences_and_the_card(result):
    text = report(fake_experiments.QUICK, result)
    assert text.startswith("# fake/quick: Does the runner keep order?")
    assert "| none " in text and "length 1,024" in text
    assert "smallest effect of interest 0.01" in text and "+1.000 ± 0.000: worse" in text
    assert "toy (stand-in, not the real corpus)" in text and "seeds 0-1" in text
    assert "other settings" not in text
    older = replace(fake_experiments.QUICK, revision=2)
    assert "other settings" in report(older, result)


def test_a_report_ends_with_the_sentences_of_the_experiment(result):
    def said(shown):
        return [f"Rows: {len(shown.rows)}."]

    assert "What the numbers say" not in report(fake_experiments.QUICK, result)
    text = report(replace(fake_experiments.QUICK, sentences=said), result)
    assert "## What the numbers say\n\n- Rows: 12.\n\nRun card: " in text


def test_a_report_on_a_deterministic_experiment_says_so_and_speaks_of_no_interval(tmp_path):
    one = run("fake/quick", seeds=[0], out=tmp_path, progress=False)
    assert "interval" in report(fake_experiments.QUICK, one)
    text = report(replace(fake_experiments.QUICK, deterministic=True), one)
    assert "Deterministic: nothing is random" in text and "interval" not in text


def test_the_card_line_tells_local_changes_and_long_runs(result):
    card = {**result.card, "commit": "0123456789abcdef", "dirty": True, "seeds": [0, 1, 2, 5, 7, 8]}
    line = card_line({**card, "cpu_seconds": 9000.0})
    assert "commit 0123456789 with local changes" in line
    assert "seeds 0-2, 5, 7-8" in line and "2.5 h of processor time" in line


def test_a_record_is_of_this_checkout():
    revision, changed = environment.commit()
    if (environment.PACKAGE.parent / ".git").exists():
        assert re.fullmatch("[0-9a-f]{40}", revision) and changed in (True, False)
    assert environment.PACKAGE.name == "pjrope"


def test_a_frame_has_a_column_for_each_field(result):
    pandas = pytest.importorskip("pandas")
    frame = result.frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == len(result.rows)
    assert frame["loss"].tolist() == [row["loss"] for row in result.rows]


def test_a_frame_without_pandas_names_the_command(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install .pjrope\[book\]"):
        result.frame()


def test_a_file_of_a_newer_format_is_refused(result, tmp_path):
    assert result.card["format"] == 1
    newer = {"card": {**result.card, "format": 2}, "rows": result.rows}
    write(tmp_path / "x.json", newer)
    with pytest.raises(ExperimentError, match="has format 2, this version reads 1; update pjrope"):
        read(tmp_path / "x.json")
    del newer["card"]["format"]  # as the first records have it
    write(tmp_path / "x.json", newer)
    assert read(tmp_path / "x.json").rows == result.rows


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "x.json: the disk is full (ENOSPC)"),
        (errno.EFBIG, "x.json: the file would pass the size limit (ulimit -f) (EFBIG)"),
        (errno.EROFS, "x.json: the file system is read-only (EROFS)"),
        (errno.EINTR, "x.json: Interrupted system call (EINTR)"),
    ],
)
def test_what_the_system_refuses_is_told_by_its_number(number, said):
    assert system.explain(OSError(number, os.strerror(number)), "x.json") == said
    assert system.explain(OSError(number, os.strerror(number), "x.json")) == said
    assert system.explain(OSError("odd")) == "odd"


def test_a_folder_is_locked_for_one(tmp_path):
    with (
        system.locked(tmp_path),
        pytest.raises(system.FolderInUse, match="another run is writing"),
        system.locked(tmp_path),
    ):
        pass
    with system.locked(tmp_path):
        pass


def test_a_file_system_without_locks_is_not_called_another_run(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def none_left(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none_left)
    with pytest.raises(OSError) as caught, system.locked(tmp_path):
        pass
    assert not isinstance(caught.value, system.FolderInUse) and caught.value.errno == errno.ENOLCK
    with pytest.raises(ExperimentError, match=r"the file system gives no lock \(ENOLCK\)"):
        run("fake/quick", out=tmp_path, progress=False)
