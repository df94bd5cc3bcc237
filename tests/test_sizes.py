"""Nothing in the package is too long to read in one sitting."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pjrope

ROOT = Path(pjrope.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FILE, FUNCTION, CLASS = 250, 40, 200
WHY = "# Long because "  # a comment at the top of a file that says why it may be
MOST_EXCEPTIONS = 5


def length(node: ast.AST) -> int:
    """Lines of a function or a class from its name to its end, without its docstring."""
    first, last = node.lineno, node.end_lineno
    body = node.body
    documented = ast.get_docstring(node, clean=False) is not None
    return last - first + 1 - (body[0].end_lineno - body[0].lineno + 1 if documented else 0)


def too_long(path: Path) -> list[str]:
    """What in a file passes the limits: the file itself, functions, classes."""
    text = path.read_text(encoding="utf8")
    lines = len(text.splitlines())
    found = [f"{lines} lines"] if lines > FILE else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length(node) > FUNCTION:
            found.append(f"{node.name}() has {length(node)} lines")
        if isinstance(node, ast.ClassDef) and node.end_lineno - node.lineno + 1 > CLASS:
            found.append(f"class {node.name} has {node.end_lineno - node.lineno + 1} lines")
    return found


def excused(path: Path) -> bool:
    head = path.read_text(encoding="utf8").split('"""', 3)
    return len(head) > 2 and WHY in "".join((head[0], head[2][:400]))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_functions_and_classes_are_short(path):
    found = too_long(path)
    assert not found or excused(path), f"{path.relative_to(ROOT)}: {'; '.join(found)}"


def test_few_files_are_excused():
    chosen = [str(path.relative_to(ROOT)) for path in FILES if excused(path)]
    assert len(chosen) <= MOST_EXCEPTIONS, chosen
    assert all(too_long(ROOT / name) for name in chosen), "an excuse that is not needed"


def test_the_measure_counts_without_docstrings(tmp_path):
    file = tmp_path / "x.py"
    code = ["def f():", '    """One.', "", "    Two.", '    """', *["    pass"] * 40]
    file.write_text("\n".join(code))
    assert too_long(file) == ["f() has 41 lines"]
    file.write_text("\n".join(code[:-1]))
    assert too_long(file) == []
