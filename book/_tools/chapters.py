"""Run chapters, check them, start a new one.

    python book/_tools/chapters.py run [NAME ...]        execute, store the outputs in the .ipynb
    python book/_tools/chapters.py sync [NAME ...]       take new prose into the .ipynb, run nothing
    python book/_tools/chapters.py try NAME PRESET       execute with another preset, store nothing
    python book/_tools/chapters.py check [NAME ...]      fail on any rule of checks.py
    python book/_tools/chapters.py new NAME "Title"      write chapters/NAME.md from the template

The .md is the truth: edit it, ``run``, commit both files. A NAME is a stem such as ch02_rope.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import sys
from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from chapter_numbers import wrong_numbers
from checks import (
    PRESET,
    check_chapter,
    check_colab_links,
    check_toc,
    check_urls,
    published_ref,
    published_url,
    toc_files,
)
from nbclient import NotebookClient
from own_kernel import own_kernel
from PIL import Image

BOOK = Path(__file__).resolve().parents[1]
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
SECONDS_PER_CELL = 300


def find(book: Path, names: list[str]) -> list[Path]:
    """The chapters' .md files, all or the named ones.

    Raises:
        FileNotFoundError: a name that is no chapter, or no chapter at all.
    """
    found = {path.stem: path for path in sorted((book / "chapters").glob("ch*.md"))}
    if unknown := [name for name in names if name not in found]:
        raise FileNotFoundError(f"no chapter {unknown[0]}, there are: {', '.join(found) or 'none'}")
    if not found:
        raise FileNotFoundError("no chapter in book/chapters: write one with `chapters.py new`")
    return [found[name] for name in names or found]


def name_cells(notebook: nbformat.NotebookNode) -> None:
    """Give cells ids that follow from their source, so that a re-run changes no line."""
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
        cell["id"] = f"{digest}-{seen[digest]}" if seen[digest] else digest
        seen[digest] += 1


def join_streams(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Merge pieces of printed text, whose cuts depend on timing."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output.output_type == "stream" and last.get("name") == output.name:
            last["text"] += output.text
        else:
            joined.append(output)
    return joined


def lighten(png: str) -> str:
    """A base64 picture in 256 colours of its own: less than half the size, to the eye the same."""
    picture, smaller = Image.open(io.BytesIO(base64.b64decode(png))), io.BytesIO()
    if picture.mode == "P":
        return png
    colours = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    colours.save(smaller, "PNG", optimize=True, dpi=picture.info.get("dpi"))
    return base64.b64encode(smaller.getvalue()).decode()


def strip_machine(notebook: nbformat.NotebookNode, root: Path) -> None:
    """Drop what differs between machines or runs and means nothing: widget state, paths, times."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata["jupytext"] = {"formats": "ipynb,md:myst"}
    places = re.compile(rf"{re.escape(str(root))}/|\S*/site-packages/|\S*/lib/python3\.\d+/")
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        cell["outputs"] = join_streams(cell.outputs)
        for output in cell.outputs:
            data = output.get("data", {})
            if {"text/html", "image/png"} & set(data):
                data.pop(WIDGET_VIEW, None)
            if "image/png" in data:
                data["image/png"] = lighten(data["image/png"])
            if "traceback" in output:
                output["traceback"] = [places.sub("", line) for line in output["traceback"]]


def execute(md: Path, preset: str | None = None) -> nbformat.NotebookNode:
    """Run a chapter in a fresh kernel whose working directory is the chapter's folder."""
    notebook = jupytext.read(md)
    name_cells(notebook)
    if preset is not None:
        for cell in notebook.cells:
            if cell.source == PRESET:
                cell["source"] = PRESET.replace('"smoke"', f'"{preset}"', 1)
    client = NotebookClient(
        notebook,
        km=own_kernel(),
        timeout=SECONDS_PER_CELL if preset is None else None,
        record_timing=False,
        resources={"metadata": {"path": str(md.parent)}},
    )
    client.execute()
    return notebook


def run(md: Path, root: Path) -> Path:
    """Execute ``md`` and store its outputs in the .ipynb beside it."""
    notebook = execute(md)
    strip_machine(notebook, root)
    ipynb = md.with_suffix(".ipynb")
    nbformat.write(notebook, ipynb)
    return ipynb


def sync(md: Path) -> Path:
    """Take the prose of ``md`` into the .ipynb beside it and keep the stored outputs.

    Raises:
        ValueError: a code cell has changed, so that its outputs would no longer be its own.
    """
    ipynb = md.with_suffix(".ipynb")
    notebook, stored = jupytext.read(md), nbformat.read(ipynb, 4)
    name_cells(notebook)
    fresh = [cell for cell in notebook.cells if cell.cell_type == "code"]
    old = [cell for cell in stored.cells if cell.cell_type == "code"]
    if [cell.source for cell in fresh] != [cell.source for cell in old]:
        raise ValueError(f"{md.name} has other code than its notebook: `chapters.py run {md.stem}`")
    for new_cell, old_cell in zip(fresh, old, strict=True):
        new_cell["outputs"] = old_cell.outputs
        new_cell["execution_count"] = old_cell.execution_count
    stored["cells"] = notebook.cells
    nbformat.write(stored, ipynb)
    return ipynb


def new(book: Path, name: str, title: str) -> Path:
    """Write the skeleton of a chapter; its name is chNN_slug."""
    if not re.fullmatch(r"ch\d\d_[a-z0-9_]+", name):
        raise ValueError(f"{name!r} is no chapter name: write chNN_slug, as in ch02_rope")
    target = book / "chapters" / f"{name}.md"
    if target.exists():
        raise ValueError(f"{target.name} exists: edit it, or choose another name")
    text = (Path(__file__).parent / "new_chapter.md").read_text(encoding="utf8")
    slug = name[5:].replace("_", "-")
    url = published_url(book.parent)
    for mark, value in {"@SLUG@": slug, "@TITLE@": title, "@URL@": url}.items():
        text = text.replace(mark, value)
    target.parent.mkdir(exist_ok=True)
    target.write_text(text, encoding="utf8")
    return target


def check(book: Path, names: list[str]) -> list[str]:
    """Every fault of the named chapters, or of all and of the table of contents around them."""
    root = book.parent
    url, ref = published_url(root), published_ref(root)
    wrong = [fault for md in find(book, names) for fault in check_chapter(md, url, ref)]
    if not names:
        wrong += [*check_toc(book), *check_urls(root), *check_colab_links(root)]
        wrong += wrong_numbers(book)
    return wrong


def main(arguments: list[str], book: Path = BOOK) -> int:
    match arguments:
        case ["run", *names]:
            for md in find(book, names):
                print("ran", run(md, book.parent).relative_to(book.parent), flush=True)
        case ["sync", *names]:
            for md in find(book, names):
                print("in step", sync(md).relative_to(book.parent), flush=True)
        case ["try", name, preset]:
            notebook = execute(find(book, [name])[0], preset)
            for cell in notebook.cells:
                for output in cell.get("outputs", []):
                    print(output.get("text") or output.get("data", {}).get("text/plain", ""))
        case ["new", name, title]:
            target = new(book, name, title)
            print(f"wrote {target.relative_to(book.parent)}; name it in book/_toc.yml, then run it")
        case ["check", *names]:
            wrong = check(book, names)
            pages = len(toc_files(book / "_toc.yml"))
            print("\n".join(wrong) or f"chapters in step, {pages} pages in the table of contents")
            return bool(wrong)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
