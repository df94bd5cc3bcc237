"""Commands where the terminal, the home folder or the disk give less than usual."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path

import pytest

import pjrope
from pjrope import Decoder, DecoderConfig, cli, experiments
from pjrope.cli.console import plain
from pjrope.diagnosis import InputError, read_files
from pjrope.diagnosis.planted import run_planted
from pjrope.experiments import ExperimentError
from pjrope.experiments.engine.system import explain
from pjrope.training import CheckpointError, load_model, save_model

ROOT = Path(__file__).resolve().parents[1]
# One process says all of it, as each start costs seconds: exit codes follow one another.
COMMANDS = [
    ["list"],
    ["show", "kernel_probes", "order_toy"],
    ["ledger", "J-K1", "P-F2"],
    ["ledger", "P-Q9"],
    ["data", "--list"],
]
CODES = [0, 0, 0, 2, 0]
# Run where the fewest characters can be printed.
LONGER = [
    ["ledger", "--json", "P-F2"],
    *(["run", name, "--out", "{out}"] for name in ("kernel_probes", "ntk_flow")),
]
ALL = """
import json, sys
from pjrope.cli import main
print(json.dumps([main(words) for words in json.loads(sys.argv[1])]), file=sys.stderr)
"""


def told(
    words: list[list[str]], out: Path | str, limit: int = 0, **options: object
) -> tuple[list[int], bytes, list[str]]:
    """Exit codes of some commands, what they print, and their lines of errors."""
    words = [[w.format(out=out) for w in line] for line in words]
    code = ALL
    if limit:
        code = (
            f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n{ALL}"
        )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(words)], capture_output=True, **options
    )
    *errors, last = done.stderr.decode("ascii").splitlines()
    assert last.startswith("["), done.stderr.decode()
    return json.loads(last), done.stdout, errors


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment with changes; None takes a variable away."""
    merged = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **changes}
    return {name: value for name, value in merged.items() if value is not None}


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_every_command_prints_in_every_encoding(encoding, tmp_path):
    env = environment(PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    longer = LONGER if encoding == "ascii" else []
    codes, printed, errors = told(COMMANDS + longer, tmp_path / "out", env=env, cwd=tmp_path)
    assert codes == CODES + [0] * len(longer)
    text = printed.decode(encoding)
    assert ("ω" in text) == (encoding == "utf-8")
    assert ("omega" in text) == (encoding != "utf-8") and "?d" not in text
    assert ("±" in text) == (encoding != "ascii")
    assert len(errors) == 1 and errors[0].startswith("pjrope: no claim 'P-Q9'; choose from: J-K1")


@pytest.mark.parametrize(
    ("character", "spelled"),
    [
        ("ω", "omega"),
        ("Δ", "Delta"),
        ("±", "+-"),
        ("é", "e"),
        ("²", "^2"),
        ("≤", "<="),
        ("漢", "?"),
    ],
)
def test_a_character_is_spelled(character, spelled):
    assert plain(character) == spelled


@pytest.fixture
def readable(tmp_path: Path) -> Iterator[Path]:
    """A folder in which this user may write nothing; rights do not bind root, the kernel's own do."""
    if os.geteuid() == 0:
        if not Path("/sys/kernel").is_dir():
            pytest.skip("no folder that root may not write")
        yield Path("/sys/kernel")
        return
    tmp_path.chmod(0o555)
    yield tmp_path
    tmp_path.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="users and rights of POSIX")
def test_from_a_folder_that_cannot_be_written_and_without_a_home(readable, tmp_path_factory):
    env = environment(HOME=None, XDG_DATA_HOME=None, PJROPE_DATA=None)
    words = [
        ["list"],
        ["show", "kernel_probes"],
        ["ledger", "P-F2"],
        ["data", "--list"],
        ["run", "kernel_probes"],
        ["ledger", "--out", "ledger.md", "P-F2"],
        ["bench", "--json", "bench/quick.json"],  # says so before it measures for minutes
        ["diagnose", "{out}/long.txt"],
        ["diagnose", "{out}/short.txt"],
    ]
    (tmp_path_factory.getbasetemp() / "long.txt").write_text("text " * 5_000)
    (tmp_path_factory.getbasetemp() / "short.txt").write_text("text " * 50)
    codes, _, errors = told(words, tmp_path_factory.getbasetemp(), env=env, cwd=readable)
    assert codes == [0, 0, 0, 0, 2, 2, 2, 2, 2]
    assert len(errors) == 5
    assert all(error.startswith("pjrope: cannot write ") for error in errors[3:])
    assert all("pjrope-diagnosis" in error for error in errors[3:])
    assert errors[2].startswith("pjrope bench: cannot write ")
    assert errors[0].startswith("pjrope: cannot write ") and "pjrope-results" in errors[0]
    assert errors[1].startswith("pjrope: ledger.md: ")
    for error in errors:
        assert re.search(r"\((EACCES|EPERM|EROFS)\)", error)


def test_an_error_without_a_path_is_told_in_the_words_of_its_library():
    found = explain(FileNotFoundError(errno.ENOENT, "No usable temporary directory found in [...]"))
    assert found == "No usable temporary directory found in [...] (ENOENT)"
    assert explain(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) == "the disk is full (ENOSPC)"


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_limit_on_the_size_of_files_is_one_line(tmp_path):
    words = [["run", "kernel_probes", "--out", "{out}", "--jobs", jobs] for jobs in ("1", "2")]
    codes, printed, errors = told(words, tmp_path / "out", limit=512, cwd=tmp_path)
    assert codes == [2, 2] and not printed and len(errors) == 2
    for error in errors:
        assert "the file would pass the size limit (ulimit -f) (EFBIG)" in error
    assert not list((tmp_path / "out").rglob("*.json"))


def test_a_home_in_a_path_is_that_of_the_user(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    words = [
        ["ledger", "--out=~/ledger.md", "P-F2"],
        ["run", "kernel_probes", "--out=~/results"],
        ["show", "kernel_probes", "--out=~/results"],
    ]
    assert [cli.main(line) for line in words] == [0, 0, 0] and not capsys.readouterr().err
    assert (tmp_path / "results/kernel_probes/smoke.json").is_file()
    assert "d² + L²" in (tmp_path / "ledger.md").read_text(encoding="utf-8")
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("command", ["data", "run", "show", "ledger", "diagnose", "bench"])
def test_every_path_of_every_command_knows_the_home_folder(command, tmp_path, monkeypatch):
    """Found by what its help calls it, so that a path argument of tomorrow is tried too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (commands,) = cli._parser([command])._subparsers._group_actions
    actions = commands.choices[command]._actions
    paths = [
        action
        for action in actions
        if action.dest in ("out", "json", "mirror", "files") and action.nargs != 0
    ]
    named = [a for a in actions if re.search("FILE|DIR|PATH|FOLDER", str(a.metavar))]
    assert paths and set(named) <= set(paths)
    for action in paths:
        assert str(action.type("~/x")) == str(tmp_path / "x")
        with pytest.raises(ArgumentTypeError, match="write the whole path"):
            action.type("~nobody-of-that-name/x")


def test_paths_of_functions_know_the_home_folder(tmp_path, monkeypatch):
    """Where a path is given to Python, no shell has seen it; an unknown home is the room's error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    model = Decoder(DecoderConfig(3, 8, 1, 1, 4))
    save_model("~/model.safetensors", model)
    assert load_model("~/model.safetensors").config == model.config
    report = pjrope.diagnose("short " * 50, out="~/diagnosis")
    report.save("~/diagnosis")
    assert (tmp_path / "diagnosis" / "report.html").is_file()
    for call, error in [
        (lambda p: save_model(p, model), CheckpointError),
        (load_model, CheckpointError),
        (report.save, InputError),
        (lambda p: read_files([p]), InputError),
        (lambda p: pjrope.diagnose("text " * 5_000, out=p), InputError),
        (lambda p: run_planted(p, steps=2), InputError),
        (lambda p: experiments.run("kernel_probes", out=p), ExperimentError),
    ]:
        with pytest.raises(
            error, match="'~nobody-of-that-name/x', and that home folder is unknown"
        ):
            call("~nobody-of-that-name/x")


def test_the_version_is_told():
    done = subprocess.run(
        [sys.executable, "-m", "pjrope.cli", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.startswith("pjrope 0.")
