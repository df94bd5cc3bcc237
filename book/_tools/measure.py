"""How long a chapter is: words of prose, words printed, visible lines of code.

    python book/_tools/measure.py          a table of all chapters, with how many exercises each has

Not prose: code, formulas, tables, captions, comments, the chapter card, and solutions, which are
folded. Not printed: figures, what a hidden or folded cell shows, solutions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import nbformat

CHAPTERS = Path(__file__).resolve().parents[1] / "chapters"
MOST_PROSE, MOST_PRINTED, MOST_CODE = 4000, 600, 250
FOLDED_CODE = {"remove-cell", "hide-cell", "hide-input", "remove-input"}
FOLDED_OUTPUT = {"remove-cell", "hide-cell", "hide-output", "remove-output"}
NOT_PROSE = (
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"^:::+ *\{admonition\} Chapter card.*?^:::+ *$", re.S | re.M),
    re.compile(r"^(:::+|```+) *\{solution\}.*?^\1 *$", re.S | re.M),
    re.compile(r"^(```+).*?^\1 *$", re.S | re.M),
    re.compile(r"\$\$.*?\$\$( *\([\w-]+\))?", re.S),
    re.compile(r"^\|.*$", re.M),
    re.compile(r"^:[\w-]+:.*$|^:::+.*$|^\([\w-]+\)=$", re.M),
    re.compile(r"\{cite:\w+\}`[^`]*`"),
)
WORD = re.compile(r"\w[\w'’.,-]*")


@dataclass(frozen=True)
class Size:
    """What is counted of a chapter."""

    prose: int
    printed: int
    code: int
    exercises: int

    def too_much(self) -> list[str]:
        """What passes its limit, in words."""
        limits = (
            (self.prose, MOST_PROSE, "words of prose"),
            (self.printed, MOST_PRINTED, "printed words"),
            (self.code, MOST_CODE, "visible lines of code"),
        )
        return [f"{size:,} {what}, at most {most:,}" for size, most, what in limits if size > most]


def words(text: str) -> int:
    return len(WORD.findall(text))


def prose(markdown: str) -> str:
    """Markdown without what is not prose; a formula inside a line is one word."""
    for pattern in NOT_PROSE:
        markdown = pattern.sub("", markdown)
    markdown = re.sub(r"\$[^$]+\$", "x", markdown)
    return re.sub(r"\]\([^)]*\)", "]", markdown)


def outside_solutions(cells: list[nbformat.NotebookNode]) -> Iterator[nbformat.NotebookNode]:
    """Cells that are not between a solution's start and its end."""
    inside = False
    for cell in cells:
        if cell.cell_type == "markdown" and "{solution-start}" in cell.source:
            inside = True
        if not inside:
            yield cell
        if cell.cell_type == "markdown" and "{solution-end}" in cell.source:
            inside = False


def printed(cell: nbformat.NotebookNode) -> str:
    """The text that a cell shows: streams, and tables or values where there is no picture."""
    shown = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if output.output_type == "stream":
            shown.append(output.text)
        elif "text/markdown" in data:
            shown.append(data["text/markdown"])
        elif not {"image/png", "image/svg+xml", "text/html"} & set(data):
            shown.append(data.get("text/plain", ""))
    return "\n".join(shown)


def size(notebook: nbformat.NotebookNode) -> Size:
    """Count a chapter's notebook with its stored outputs."""
    told = out = lines = 0
    for cell in outside_solutions(notebook.cells):
        if cell.cell_type == "markdown":
            told += words(prose(cell.source))
            continue
        tags = set(cell.metadata.get("tags", []))
        if not tags & FOLDED_OUTPUT:
            out += words(printed(cell))
        if not tags & FOLDED_CODE:
            lines += sum(bool(line.strip()) for line in cell.source.splitlines())
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    exercises = len(re.findall(r"^(?::::+|```+) *\{exercise(?:-start)?\}", text, re.M))
    return Size(told, out, lines, exercises)


def sizes() -> dict[str, Size]:
    """Chapter to its size."""
    return {path.stem: size(nbformat.read(path, 4)) for path in sorted(CHAPTERS.glob("ch*.ipynb"))}


def main() -> int:
    print("| chapter | prose words | printed words | code lines | exercises |")
    print("| --- | --: | --: | --: | --: |")
    for name, counted in sizes().items():
        print(f"| {name} | " + " | ".join(f"{n:,}" for n in astuple(counted)) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
