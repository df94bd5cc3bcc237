"""Sphinx extension: the site numbers a chapter as its file does, gaps included.

``chapters/ch06_phase_language`` is chapter 6 whichever chapters stand before it, so a chapter that
comes later renames nothing and renumbers no sentence. ``chapters.py check`` uses the same numbers
to prove what the prose says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors.toctree import TocTreeCollector

FILE = re.compile(r"chapters/ch(\d\d)_")
LABEL = re.compile(r"^\((ch-[a-z0-9-]+)\)=$", re.M)
LINK = re.compile(r"\[[^\]]*?\b[Cc]hapter\s+(\d+)[^\]]*\]\(#(ch-[a-z0-9-]+)\)")
MENTION = re.compile(r"\b[Cc]hapter\s+(\d+)\b")


def number_of(name: str) -> int | None:
    """The number in a page's name: 6 for ``chapters/ch06_phase_language``, None for other pages."""
    found = FILE.match(name)
    return int(found[1]) if found else None


def wrong_numbers(book: Path) -> Iterator[str]:
    """Sentences that give a chapter a number which its file has not."""
    pages = [*sorted((book / "chapters").glob("ch*.md")), *sorted(book.glob("*.md"))]
    texts = {page: page.read_text(encoding="utf8") for page in pages}
    numbers = {}
    for page, text in texts.items():
        number = number_of(f"chapters/{page.name}")
        if number is not None and (label := LABEL.search(text)):
            numbers[label[1]] = number
    for page, text in texts.items():
        for said, label in LINK.findall(text):
            if label in numbers and int(said) != numbers[label]:
                yield f"{page.name}: chapter {said} links to {label}, chapter {numbers[label]}"
        for said in MENTION.findall(text):
            if int(said) not in numbers.values():
                yield f"{page.name}: there is no chapter {said}"


def renumber(env: BuildEnvironment) -> None:
    """Give every heading of a chapter the number of its file, instead of its place in the order."""
    for page, numbers in env.toc_secnumbers.items():
        chapter = number_of(page)
        if chapter is None:
            continue
        for anchor, number in numbers.items():
            numbers[anchor] = number and (chapter, *number[1:])
        for node in (env.titles[page], *env.tocs[page].findall(nodes.reference)):
            if node.get("secnumber"):
                node["secnumber"] = [chapter, *node["secnumber"][1:]]


def setup(app: Sphinx) -> dict[str, bool]:
    """Renumber between sections and figures; two extensions number the sections, each its own way."""
    number_figures = TocTreeCollector.assign_figure_numbers

    def by_file(self: TocTreeCollector, env: BuildEnvironment) -> list[str]:
        renumber(env)
        return number_figures(self, env)

    if number_figures.__name__ != "by_file":
        TocTreeCollector.assign_figure_numbers = by_file
    return {"parallel_read_safe": True, "parallel_write_safe": True}
