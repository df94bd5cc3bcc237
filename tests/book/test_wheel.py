"""A chapter opened alone, as on Colab: an empty folder, the built wheel, nothing of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "book" / "chapters").glob("ch*.ipynb"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Folder that holds the wheel's contents and nothing else."""
    work = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # Built from a copy: the sources of a reader's checkout may not even be writable.
    source = work / "source"
    keep = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pjrope", source / "pjrope", ignore=keep)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run([*pip, "wheel", "--no-deps", "-w", work / "wheels", source], check=True)
    (wheel,) = (work / "wheels").glob("pjrope-*.whl")
    target = work / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True)
    return target


def run_alone(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess:
    """Run Python where only the wheel provides pjrope."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PJROPE_")}
    env |= {"PYTHONPATH": str(installed), "IPYTHONDIR": str(folder / ".ipython")}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True
    )


def test_package_comes_from_the_wheel_with_its_data(installed, tmp_path):
    code = "import pjrope, pathlib; print(pathlib.Path(pjrope.__file__).parent)"
    done = run_alone(installed, tmp_path, "-c", code)
    assert done.stdout.strip() == str(installed / "pjrope"), done.stderr
    data = {p.relative_to(ROOT) for p in (ROOT / "pjrope").rglob("*") if p.is_file()}
    data = {p for p in data if p.suffix not in (".pyc",) and "__pycache__" not in p.parts}
    missing = [str(p) for p in sorted(data) if not (installed / p).is_file()]
    assert missing == []
    assert (installed / "pjrope" / "interactive" / "page.js").is_file()


def test_there_are_chapters():
    assert CHAPTERS


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_runs_from_an_empty_folder(installed, tmp_path, chapter):
    shutil.copy(chapter, tmp_path)
    name = chapter.name
    done = run_alone(
        installed, tmp_path, "-m", "nbconvert", "--to", "notebook", "--execute",
        "--ExecutePreprocessor.timeout=300", "--output", "done.ipynb", name,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    cells = nbformat.read(tmp_path / "done.ipynb", 4).cells
    counts = [c.execution_count for c in cells if c.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    left = {path.name for path in tmp_path.iterdir()} - {name, "done.ipynb", ".ipython"}
    assert left == set(), f"the chapter wrote files: {left}"
