"""Folders of experiments import one way, found in the source itself."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import pjrope.experiments

ROOT = Path(pjrope.experiments.__file__).parent
ORDER = ["engine", "analysis", "functions", "codes", "sequences", "text", "music"]
FOLDERS = [name for name in ORDER if (ROOT / name).is_dir()]


def imported(path: Path) -> set[str]:
    """The other folders of experiments that a file imports, at any depth of its code."""
    package = ["pjrope", "experiments", *path.relative_to(ROOT).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            modules = [stem, *(f"{stem}.{alias.name}" for alias in node.names)]
        else:
            continue
        parts = [module.split(".") for module in modules]
        found |= {p[2] for p in parts if p[:2] == ["pjrope", "experiments"] and len(p) > 2}
    return found & set(ORDER) - {path.relative_to(ROOT).parts[0]}


def test_every_folder_has_its_place():
    there = {p.name for p in ROOT.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert there <= set(ORDER), "a new folder: give it its place in ORDER"


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_between_folders_point_one_way(folder):
    arrows = Counter(
        other for path in sorted((ROOT / folder).rglob("*.py")) for other in imported(path)
    )
    shown = ", ".join(f"{other} ({count} files)" for other, count in sorted(arrows.items()))
    print(f"{folder} -> {shown or 'none'}")
    wrong = [other for other in arrows if ORDER.index(other) > ORDER.index(folder)]
    assert not wrong, f"{folder} imports {wrong}: {', '.join(ORDER)} is the way"
