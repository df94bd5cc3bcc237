"""The command line, called as a user calls it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pjrope import cli, record


@pytest.fixture(autouse=True)
def fakes(monkeypatch, tmp_path):
    """Register the fake experiments, and run in an empty folder with an empty record."""
    from pjrope.experiments.engine import registry

    monkeypatch.syspath_prepend(str(Path(__file__).parent / "experiments"))
    for name in ("quick", "slow", "broken"):
        place = f"fake_experiments:{name.upper()}"
        monkeypatch.setitem(registry._PLACES, f"fake/{name}", place)
    monkeypatch.setattr(record, "home", lambda: tmp_path / "record")
    monkeypatch.setattr(record, "in_checkout", lambda: True)
    monkeypatch.chdir(tmp_path)


def _refused(words: list[str]) -> int:
    """Return the exit code, whether argparse or the command refuses."""
    try:
        return cli.main(words)
    except SystemExit as stop:
        return stop.code


def test_run_writes_and_show_finds_it(tmp_path, capsys):
    assert cli.main(["run", "fake/quick", "--seeds", "0-2", "--only", "method=none"]) == 0
    ran = capsys.readouterr().out
    assert "seeds 0-2" in ran and "Written to pjrope-results/fake/quick/smoke.json" in ran
    assert cli.main(["show", "fake/quick"]) == 0
    assert "Shown: pjrope-results/fake/quick/smoke.json" in capsys.readouterr().out


def test_show_prefers_the_record_and_says_which_it_shows(capsys):
    assert cli.main(["run", "fake/quick", "--preset", "book", "--out", "here", "--record"]) == 0
    assert "Recorded as pjrope/record/fake/quick/book.json" in capsys.readouterr().out
    assert cli.main(["run", "fake/quick"]) == 0
    for words, source in (
        ([], "the package's record, pjrope/record/fake/quick/book.json"),
        (["--preset", "smoke"], "pjrope-results/fake/quick/smoke.json"),
        (["--out", "here"], "here/fake/quick/book.json"),
        (["--out", "record"], "the package's record"),
    ):
        capsys.readouterr()
        assert cli.main(["show", "fake/quick", *words]) == 0
        assert f"Shown: {source}" in capsys.readouterr().out


def test_show_takes_several_names_and_prints_all_or_none(capsys):
    assert cli.main(["run", "fake/quick"]) == 0 and cli.main(["run", "fake/slow"]) == 0
    capsys.readouterr()
    assert cli.main(["show", "fake/slow", "fake/quick"]) == 0
    told = capsys.readouterr().out
    assert told.index("# fake/slow: ") < told.index("# fake/quick: ") and told.count("Shown: ") == 2
    assert cli.main(["show", "fake/quick", "fake/broken"]) == 2
    told = capsys.readouterr()
    assert told.out == "" and "no results of fake/broken" in told.err


def test_list_names_experiments_presets_and_costs(capsys):
    assert cli.main(["list"]) == 0
    told = capsys.readouterr().out
    assert "fake/quick\n    Does the runner keep order?\n    claims: T-1" in told
    assert "--preset book   3 seeds, two blinks" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "fake/quik"], "no experiment 'fake/quik'; choose from: "),
        (["run", "fake/quick", "--preset", "night"], "no preset 'night'; choose from: smoke, book"),
        (["run", "fake/quick", "--seeds", "4-0"], "'4-0' is no list of seeds"),
        (["run", "fake/quick", "--seeds", "0-99999999"], "is no list of seeds"),
        (["run", "fake/quick", "--seeds", "1,x"], "'1,x' is no list of seeds"),
        (["run", "fake/quick", "--seeds", "0,0-1"], "none twice"),
        (["run", "fake/quick", "--only", "rope"], "write KEY=VALUE"),
        (["run", "fake/quick", "--only", "method=alibi"], "no cell matches"),
        (["run", "fake/quick", "--jobs", "0"], "jobs 0: give an integer >= 1"),
        (["run", "fake/quick", "--device", "tpu"], "invalid choice"),
        (["show", "fake/quick"], "in the record or pjrope-results; make them with: pjrope run"),
        (["show", "fake/quick", "--out", "record"], "in the record; make"),
        (["show", "fake/quick", "--preset", "night"], "no preset 'night'"),
        (["data", "no_such_corpus"], "no_such_corpus"),
        (["fly"], "invalid choice"),
        ([], "required"),
    ],
)
def test_bad_input_exits_2_with_one_line(capsys, words, message):
    assert _refused(words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_damaged_results_file_is_told_in_one_line(tmp_path, capsys):
    path = tmp_path / "pjrope-results/fake/quick/smoke.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"rows": [')
    assert cli.main(["show", "fake/quick"]) == 2
    assert "is not valid JSON" in capsys.readouterr().err


def test_failing_cells_exit_1_with_their_key_and_traceback(capsys):
    assert cli.main(["run", "fake/broken"]) == 1
    error = capsys.readouterr().err
    assert "seed=1: ValueError: the loss exploded" in error and "Traceback" in error


def test_ctrl_c_exits_130_and_says_how_to_go_on(capsys, monkeypatch):
    import fake_experiments

    def stopped(cell, context):
        if cell.seed == 1:
            raise KeyboardInterrupt
        return [{"method": "sum", "seed": cell.seed}]

    slow = replace(fake_experiments.SLOW, run_cell=stopped)
    monkeypatch.setattr(fake_experiments, "SLOW", slow)
    words = ["run", "fake/slow", "--out", "here"]
    assert cli.main(words) == 130
    assert "pjrope run fake/slow --out here" in capsys.readouterr().err
    assert len(list(Path("here/fake/slow/smoke/cells").iterdir())) == 1


def test_seeds_and_pairs_are_read():
    assert cli._seeds("0-2,7,9-9") == [0, 1, 2, 7, 9]
    assert cli._pair("length=256") == ("length", 256)
    assert cli._pair("method=rope+alibi") == ("method", "rope+alibi")
    assert cli._pair("note=a=b") == ("note", "a=b")


def test_help_comes_without_importing_torch():
    # The package itself may import torch; the command line must add nothing to that.
    code = (
        "import sys, pjrope; loaded = 'torch' in sys.modules\n"
        "from pjrope import cli\n"
        "try: cli.main(['run', '--help'])\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "assert loaded or 'torch' not in sys.modules, 'the command line imported torch'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--keep-work" in done.stdout


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "pjrope.cli", "run", "x", "--seeds", "?"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("pjrope run: argument --seeds: '?' is no list of seeds")


def test_a_results_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert _refused(["run", "fake/quick", "--out", str(tmp_path / "file")]) == 2
    error = capsys.readouterr().err
    assert "cannot write" in error and error.count("\n") == 1
    assert "a part of the path is a file, not a folder (ENOTDIR)" in error


def test_a_run_on_a_stand_in_says_so_first_and_is_not_recorded(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PJROPE_DATA", str(tmp_path / "empty"))
    words = ["run", "byte_lm/baselines", "--preset", "book", "--record"]
    assert _refused([*words, "--only", "method=none", "--seeds", "0"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert "this run reads pydoc_topics (stand-in for tiny_shakespeare)" in told[0]
    assert "a record needs the real corpus" in told[-1]


def test_the_version_goes_to_standard_output(capsys):
    assert _refused(["--version"]) in (0, None)
    out, err = capsys.readouterr()
    assert out.startswith("pjrope ") and not err
