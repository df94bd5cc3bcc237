"""A chapter opened alone, as on Colab: an empty folder, the built wheel, nothing of the repository.

`make book` and `make test` run every chapter so; here the tool that does it meets small ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import alone
import chapters
import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("alone") / "work"


@pytest.fixture(scope="module")
def installed(work):
    return alone.install(work)


def test_package_comes_from_the_wheel_with_its_data(installed, work, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import pjrope; print(pjrope.__file__)"],
        cwd=tmp_path, env=alone.environment(installed, work), capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(installed / "pjrope" / "__init__.py"), done.stderr
    data = {p.relative_to(ROOT) for p in (ROOT / "pjrope").rglob("*") if p.is_file()}
    data = {p for p in data if p.suffix not in (".pyc",) and "__pycache__" not in p.parts}
    missing = [str(p) for p in sorted(data) if not (installed / p).is_file()]
    assert missing == []
    assert (installed / "pjrope" / "interactive" / "page.js").is_file()


def test_there_are_chapters():
    assert sorted((ROOT / "book" / "chapters").glob("ch*.ipynb"))


def notebook(path: Path, source: str, printed: str) -> Path:
    cell = new_code_cell(source, execution_count=1)
    cell["outputs"] = [new_output("stream", name="stdout", text=printed)]
    made = new_notebook(cells=[cell])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    chapters.name_cells(made)
    write(made, path)
    return path


WHERE = "import os, sys, pjrope\nprint(os.environ.get('PJROPE_X'), sys.executable, pjrope.__file__)"


def test_chapters_run_whatever_kernels_the_user_has_and_faults_are_told(
    installed, work, tmp_path, monkeypatch, capfd
):
    """One run of nbval: a good chapter, and one that prints something else and leaves a file."""
    planted = tmp_path / "jupyter" / "kernels" / "python3"
    planted.mkdir(parents=True)
    spec = {"argv": ["false"], "display_name": "Python 3", "language": "python"}
    (planted / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("PJROPE_X", "of the user")
    # In one process: `make test` runs the chapters themselves side by side.
    side_by_side, alike = alone.NBVAL[:4], alone.NBVAL[4:]
    assert side_by_side == ("-n", "auto", "--dist", "loadfile")
    monkeypatch.setattr(alone, "NBVAL", alike)
    printed = f"None {sys.executable} {installed / 'pjrope' / '__init__.py'}\n"
    good = notebook(tmp_path / "ch01_where.ipynb", WHERE, printed)
    writes = "open('left.txt', 'w').close()\nprint(2)"
    bad = notebook(tmp_path / "ch02_bad.ipynb", writes, "1\n")
    assert alone.run([good, bad], installed, work) == [
        "nbval ended with status 1",
        "ch02_bad.ipynb leaves files behind: left.txt",
    ]
    told = capfd.readouterr().out
    assert "1 failed, 1 passed" in told and "ch02_bad.ipynb" in told


def test_a_chapter_that_is_not_there_is_named(tmp_path, capsys):
    assert alone.main([str(tmp_path / "ch09_none.ipynb")], tmp_path / "work") == 2
    assert "ch09_none.ipynb" in capsys.readouterr().out
