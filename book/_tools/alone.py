"""Run chapters as a reader on Colab does: an empty folder, the built wheel, nothing of the checkout.

    python book/_tools/alone.py [CHAPTER.ipynb ...]     all chapters, or the named ones

Builds the wheel, copies each notebook into a folder of its own, and has nbval run it there by this
interpreter and compare the outputs with the stored ones. Fails where an output differs, where a
cell raises, and where a chapter leaves a file behind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS_PER_CELL = 300
NBVAL = (
    *("-n", "auto", "--dist", "loadfile", "--nbval", "--nbval-current-env"),
    f"--nbval-cell-timeout={SECONDS_PER_CELL}",
)


def install(work: Path) -> Path:
    """Folder below ``work`` that holds the contents of a freshly built wheel and nothing else."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    shutil.rmtree(work, ignore_errors=True)
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


def environment(installed: Path, work: Path) -> dict[str, str]:
    """Variables with which Python finds pjrope in the wheel only, and no setting of the user's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PJROPE_")}
    return kept | {"PYTHONPATH": str(installed), "IPYTHONDIR": str(work / "ipython")}


def run(chapters: list[Path], installed: Path, work: Path) -> list[str]:
    """Run copies of ``chapters`` and give their faults, one line each; nbval prints the details."""
    copies = []
    for chapter in chapters:
        folder = work / "run" / chapter.stem
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        copies.append(Path(shutil.copy(chapter, folder)))
    sanitize = f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval_sanitize.cfg'}"
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", *NBVAL, sanitize]
    done = subprocess.run(
        [*command, f"--rootdir={work}", *copies], cwd=work, env=environment(installed, work)
    )
    faults = [f"nbval ended with status {done.returncode}"] if done.returncode else []
    for copy in copies:
        left = sorted(p.name for p in copy.parent.iterdir() if p != copy)
        faults += [f"{copy.name} leaves files behind: {', '.join(left)}"] if left else []
    return faults


def main(arguments: list[str], work: Path = ROOT / "_build" / "alone") -> int:
    chapters = [Path(name).resolve() for name in arguments]
    chapters = chapters or sorted((ROOT / "book" / "chapters").glob("ch*.ipynb"))
    missing = [path for path in chapters if not path.is_file()]
    if missing or not chapters:
        print(f"no such chapter: {missing[0]}" if missing else "no chapter in book/chapters")
        return 2
    faults = run(chapters, install(work), work)
    print(
        "\n".join(faults) or f"{len(chapters)} chapters run alone, with the outputs stored in them"
    )
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
