"""Rooms import only from rooms to their left, found in the source itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pjrope

ROOT = Path(pjrope.__file__).parent
ORDER = [
    "extras",
    "conventions",
    "positions",
    "kernels",
    "attention",
    "models",
    "integrations",
    "data",
    "training",
    "diagnostics",
    "plotting",
    "interactive",
    "record",
    "experiments",
    "diagnosis",
    "bench",
    "cli",
]


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Rooms of pjrope that a file imports, absolute or relative, at any depth of its code."""
    package = ["pjrope", *path.relative_to(ROOT).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names = [stem, *(f"{stem}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if len(parts) == 2 and parts[1] in pjrope._ROOM_OF:  # a public name stands for its room
                parts[1] = pjrope._ROOM_OF[parts[1]]
            if parts[0] == "pjrope" and len(parts) > 1 and parts[1] in ORDER:
                found.add(parts[1])
    return found


FILES = [p for p in sorted(ROOT.rglob("*.py")) if p != ROOT / "__init__.py"]


def test_the_tree_is_not_empty():
    rooms = {"positions", "kernels", "attention", "models", "data", "training", "diagnostics"}
    assert rooms <= {room(p) for p in FILES}
    assert all(room(p) in ORDER for p in FILES), "a new room: give it its place in ORDER"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_left(path):
    here = ORDER.index(room(path))
    wrong = [name for name in imported_rooms(path) if ORDER.index(name) > here]
    assert not wrong, f"{path.name} of {ORDER[here]} imports {wrong}"


def test_the_finder_sees_imports(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_rooms.ROOT", tmp_path)
    file = tmp_path / "kernels" / "x.py"
    file.parent.mkdir()
    file.write_text(
        "from ..attention import attend\nfrom .. import models\nimport pjrope.training.loop\n"
        "def f():\n    from ..data.batches import x\nfrom pjrope import NTK\n"
    )
    assert imported_rooms(file) == {"attention", "models", "training", "data", "positions"}


def test_public_names():
    assert len(pjrope.__all__) <= 29  # few enough to know by heart; the rest lives in its room
    for name in pjrope.__all__:
        assert getattr(pjrope, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = pjrope.nonsense


def test_rooms_load_on_first_use():
    assert {*pjrope._MODULES, "cli", "extras"} == set(ORDER)
    assert set(pjrope._MODULES) <= set(dir(pjrope))
    ask = (
        "import sys, pjrope\n"
        "assert 'torch' not in sys.modules and 'pjrope.kernels' not in sys.modules\n"
        "assert pjrope.kernels.RoPE is pjrope.RoPE and pjrope.record.recorded()\n"
        "assert pjrope.experiments.names() and pjrope.training.train\n"
        "assert 'torch._dynamo' not in sys.modules\n"  # loading the compiler takes two seconds
    )
    subprocess.run([sys.executable, "-c", ask], check=True)
