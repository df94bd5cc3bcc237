"""The rules a chapter keeps, one small function each; ``chapters.py check`` runs them all.

Every rule takes a :class:`Chapter` and yields one clear line per fault, so that a test can hand it
a bad chapter in a temporary folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import jupytext
import nbformat
import yaml
from jupytext.compare import NotebookDifference, compare_notebooks

COLUMNS = 76  # wider code scrolls inside the site's text column
LINES = 20
NOTEBOOK_BYTES = 500_000
PRESET = 'preset = "smoke"  # @param ["smoke", "book", "paper"]'
HIDDEN = {"remove-cell", "hide-cell"}

# A picture or sound that lies beside the chapter: Colab opens the notebook alone and has it not.
FILES = re.compile(
    r"""!\[[^\]]*\]\((?!https?:|data:)[^)]*\)|<(?:img|audio|source)[^>]+src=["'](?!data:|https?:)"""
)
MACHINE_PATH = re.compile(r"(?:/(?:home|root|tmp|Users|work|mnt)/|[A-Z]:\\\\Users\\)[\w./\\-]+")
PICTURE_BYTES = re.compile(r"[A-Za-z0-9+/=]{200,}")  # base64 may spell a path by chance


@dataclass(frozen=True)
class Chapter:
    """A chapter's two files, the address the book is published under and what Colab installs of it."""

    md: Path
    url: str
    ref: str = "main"

    @property
    def ipynb(self) -> Path:
        return self.md.with_suffix(".ipynb")

    @cached_property
    def notebook(self) -> nbformat.NotebookNode:
        notebook = nbformat.read(self.ipynb, 4)
        nbformat.validate(notebook)
        return notebook

    @property
    def code(self) -> list[nbformat.NotebookNode]:
        return [c for c in self.notebook.cells if c.cell_type == "code"]


def tags(cell: nbformat.NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", []))


def where(cell: nbformat.NotebookNode) -> str:
    """How a message names a cell: by its first line of source."""
    first = next((line for line in cell.source.splitlines() if line.strip()), "(empty cell)")
    return f"cell {first.strip()[:50]!r}"


def colab_source(url: str, ref: str = "main") -> str:
    """The line of a Colab cell that says what it installs: main, or a release's own tag."""
    return f'source = "git+{url}.git' + ("" if ref == "main" else f"@{ref}") + '"'


def colab_cell(url: str, ref: str = "main") -> str:
    """Source of the first code cell of every chapter: it installs what chapters import."""
    lines = (colab_source(url, ref), '!pip install -q "pjrope[book] @ {source}"')
    return "\n    ".join(('import sys\n\nif "google.colab" in sys.modules:', *lines))


def twins_agree(chapter: Chapter) -> Iterator[str]:
    """Compares contents: file times mean nothing in a fresh clone."""
    try:
        compare_notebooks(
            jupytext.read(chapter.ipynb),
            jupytext.read(chapter.md),
            "md:myst",
            compare_outputs=False,
        )
    except NotebookDifference as difference:
        told = " ".join(str(difference).split())[:300]
        yield f"differs from {chapter.md.name} (run `chapters.py run {chapter.md.stem}`): {told}"


def was_run(chapter: Chapter) -> Iterator[str]:
    """nbval does not compare a cell without a count, so a stripped notebook would pass it."""
    counts = [c.execution_count for c in chapter.code]
    if counts != list(range(1, len(counts) + 1)):
        yield f"its cells were not run once from top to bottom: counts {counts}"


def kernel_is_portable(chapter: Chapter) -> Iterator[str]:
    name = chapter.notebook.metadata.get("kernelspec", {}).get("name")
    if name != "python3":
        yield f"its kernel is {name!r}, only 'python3' exists on every machine"


def no_machine_path(chapter: Chapter) -> Iterator[str]:
    for path in (chapter.ipynb, chapter.md):
        text = PICTURE_BYTES.sub("", path.read_text(encoding="utf8"))
        if found := MACHINE_PATH.search(text):
            yield f"{path.name} holds a path of one machine: {found[0]}"


def is_small(chapter: Chapter) -> Iterator[str]:
    size = chapter.ipynb.stat().st_size
    if size > NOTEBOOK_BYTES:
        yield f"{size // 1000} kB, at most {NOTEBOOK_BYTES // 1000}: draw fewer or smaller figures"


def starts_on_colab(chapter: Chapter) -> Iterator[str]:
    wanted = colab_cell(chapter.url, chapter.ref)
    if not chapter.code or chapter.code[0].source != wanted:
        yield f"its first code cell must be exactly:\n{wanted}"
    elif "remove-cell" not in tags(chapter.code[0]):
        yield "its Colab cell needs the tag remove-cell: it is noise on the site"


def nothing_runs_unseen(chapter: Chapter) -> Iterator[str]:
    """What runs is what a reader can open: the Colab cell alone is not on the page."""
    for cell in chapter.code[1:]:
        if found := {"remove-cell", "remove-input"} & tags(cell):
            yield f"{where(cell)} has the tag {min(found)}: fold it with hide-input, or delete it"


def needs_no_files(chapter: Chapter) -> Iterator[str]:
    for cell in chapter.notebook.cells:
        if cell.cell_type == "markdown" and (found := FILES.search(cell.source)):
            yield f"{found[0]} points at a file that Colab has not: draw it in a cell"


def preset_is_literal(chapter: Chapter) -> Iterator[str]:
    """A chapter that runs an experiment lets the reader choose the preset, in one place."""
    switches = [c.source for c in chapter.code if "parameters" in tags(c)]
    runs = any(re.search(r"(?<!def )\brun\(", c.source) for c in chapter.code)
    strays = [
        where(c)
        for c in chapter.code
        if "parameters" not in tags(c) and re.search(r"^preset\s*=", c.source, re.M)
    ]
    if switches != ([PRESET] if runs else []) or strays:
        wanted = f"exactly one cell tagged 'parameters' holding {PRESET!r}" if runs else "none"
        yield f"its preset cells are {switches + strays}, wanted: {wanted}"


def draws(cell: nbformat.NotebookNode) -> bool:
    """True for an output that is a picture and carries no words of its own in HTML."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if {"image/png", "image/svg+xml", "image/jpeg"} & set(data):
            html = "".join(data.get("text/html", ""))
            if not re.search(r"""(?:alt|aria-label)=["'][^"']+""", html):
                return True
    return False


def figures_have_words(chapter: Chapter) -> Iterator[str]:
    for cell in chapter.code:
        if draws(cell) and not HIDDEN & tags(cell):
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            if not str(alt).strip():
                yield f"{where(cell)} draws a figure without alt text (mystnb: image: alt)"
    for cell in chapter.notebook.cells:
        if cell.cell_type == "markdown" and re.search(r"!\[\s*\]\(", cell.source):
            yield f"{where(cell)} shows a picture without alt text"


def code_is_narrow(chapter: Chapter) -> Iterator[str]:
    for cell in chapter.code[1:]:  # the Colab cell is given
        for line in cell.source.splitlines():
            if len(line) > COLUMNS:
                yield f"a code line of {len(line)} columns, at most {COLUMNS}: {line.strip()[:50]}…"


def cells_are_short(chapter: Chapter) -> Iterator[str]:
    for cell in chapter.code:
        if (length := len(cell.source.splitlines())) > LINES:
            yield f"{where(cell)} has {length} lines, at most {LINES}"


def code_is_explained(chapter: Chapter) -> Iterator[str]:
    """No two code cells without a sentence between; cells the page hides do not count."""
    shown = [c for c in chapter.notebook.cells if not HIDDEN & tags(c)]
    for before, after in pairwise(shown):
        if before.cell_type == after.cell_type == "code":
            yield f"{where(after)} follows {where(before)} with no prose between"


RULES: tuple[Callable[[Chapter], Iterator[str]], ...] = (
    twins_agree,
    was_run,
    kernel_is_portable,
    no_machine_path,
    is_small,
    starts_on_colab,
    nothing_runs_unseen,
    needs_no_files,
    preset_is_literal,
    figures_have_words,
    code_is_narrow,
    cells_are_short,
    code_is_explained,
)


def check_chapter(md: Path, url: str, ref: str = "main") -> list[str]:
    """All faults of one chapter, each a line that starts with its file name."""
    chapter = Chapter(md, url, ref)
    if not chapter.ipynb.exists():
        return [f"{chapter.ipynb.name}: missing, run `chapters.py run {md.stem}`"]
    return [f"{chapter.ipynb.name}: {fault}" for rule in RULES for fault in rule(chapter)]


def toc_files(toc: Path) -> list[str]:
    """Every page that the table of contents names, as written there."""

    def walk(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("file", "root"):
                    yield value
                else:
                    yield from walk(value)
        elif isinstance(node, list):
            for item in node:
                yield from walk(item)

    return list(walk(yaml.safe_load(toc.read_text(encoding="utf8"))))


def check_toc(book: Path) -> list[str]:
    """Pages named and absent, and chapters present and unnamed."""
    named = toc_files(book / "_toc.yml")
    wrong = []
    for name in named:
        places = [book / name, book / f"{name}.md", book / f"{name}.ipynb"]
        if not any(place.is_file() for place in places):
            wrong.append(f"_toc.yml names {name}, which does not exist")
    for md in sorted((book / "chapters").glob("*.md")):
        if f"chapters/{md.stem}.ipynb" not in named:
            wrong.append(f"_toc.yml does not name chapters/{md.stem}.ipynb")
    for ipynb in sorted((book / "chapters").glob("*.ipynb")):
        if not ipynb.with_suffix(".md").is_file():
            wrong.append(f"chapters/{ipynb.name} has no .md twin")
    return wrong


def published_url(root: Path) -> str:
    """The repository's address, from the one place that decides it: ``_config.yml``."""
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf8"))["repository"]["url"]


def published_ref(root: Path) -> str:
    """The branch or tag that Colab opens and chapters install; also from ``_config.yml``."""
    repository = yaml.safe_load((root / "_config.yml").read_text(encoding="utf8"))["repository"]
    return repository.get("branch", "main")


def check_colab_links(root: Path) -> list[str]:
    """Chapters that README.md does not offer on Colab, in the order of the contents."""
    text = (root / "README.md").read_text(encoding="utf8")
    offered = re.findall(r"colab\.research\.google\.com/github/[\w.-]+/[\w.-]+/blob/([^)]+)", text)
    named = toc_files(root / "book" / "_toc.yml")
    # A link beside an answer stands ahead of the table that offers every chapter.
    offered = [*dict.fromkeys(reversed(offered))][::-1]
    ref = published_ref(root)
    wanted = [f"{ref}/book/{name}" for name in named if name.startswith("chapters/")]
    if offered == wanted:
        return []
    odd = sorted(set(offered) ^ set(wanted)) or ["their order"]
    return [f"README.md: its Colab links differ from _toc.yml: {odd[0]}"]


def check_urls(root: Path) -> list[str]:
    """Files that must repeat the address (packaging, citation, Colab links) and do it wrongly."""
    url = published_url(root)
    places = {
        "pyproject.toml": r'^Repository = "([^"]+)"',
        "CITATION.cff": r'^repository-code: "?([^"\s]+)"?',
        "README.md": r"colab\.research\.google\.com/github/([\w.-]+/[\w.-]+)/blob",
    }
    wrong = []
    for name, pattern in places.items():
        found = re.findall(pattern, (root / name).read_text(encoding="utf8"), re.M)
        if not found:
            wrong.append(f"{name}: names no repository, wanted {url}")
        for text in found:
            if text != url and f"https://github.com/{text}" != url:
                wrong.append(f"{name}: says {text}, _config.yml says {url}")
    return wrong
