"""The built pages against the table of contents: none missing, none left over, nothing from afar."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from chapter_numbers import number_of
from checks import toc_files

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
WANTED = {
    f"{re.sub(r'[.](ipynb|md)$', '', name)}.html" for name in toc_files(ROOT / "book" / "_toc.yml")
}
BY_SPHINX = {"genindex.html", "search.html", "py-modindex.html", "prf-prf.html", "index.html"}
BY_TOOLS = {"explorer.html", "404.html"}


def built() -> set[str]:
    pages = {path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")}
    return {name for name in pages if not name.startswith("_static/")}


def test_every_page_of_the_contents_is_built_and_no_other():
    assert len(WANTED) > 5
    assert built() >= BY_TOOLS
    assert built() - BY_SPHINX - BY_TOOLS == WANTED - BY_SPHINX
    assert "index.html" in built()


@pytest.mark.parametrize("name", sorted(WANTED))
def test_page_has_a_title_and_a_body(name):
    text = (SITE / name).read_text(encoding="utf8")
    assert re.search(r"<h1>", text)
    assert len(re.sub(r"<[^>]+>", "", text)) > 500


@pytest.mark.parametrize("name", sorted(n for n in WANTED if n.startswith("chapters/")))
def test_chapter_has_its_colab_button(name):
    text = (SITE / name).read_text(encoding="utf8")
    notebook = f"book/{name.removesuffix('.html')}.ipynb"
    assert re.search(rf"https://colab\.research\.google\.com/github/[^\"]+/{notebook}", text)
    assert (ROOT / notebook).is_file()


@pytest.mark.parametrize("name", sorted(n for n in WANTED if n.startswith("chapters/")))
def test_chapter_has_the_number_of_its_file(name):
    """Headings, figures, exercises and equations: jupyter-book itself would number by place."""
    text, number = (SITE / name).read_text(encoding="utf8"), str(number_of(name))
    body = text[text.index("<article") :]
    headings = re.findall(r'<h[12]><span class="section-number">(\d+)\.', body)
    others = re.findall(r'caption-number">[A-Za-z. ]*?(\d+)\.|eqno">\((\d+)\.', body)
    assert len(headings) > 1 and set(headings) == {number}
    assert others and {a or b for a, b in others} == {number}


def test_no_page_loads_anything_from_a_server():
    loads = re.compile(r"""<(?:script|img|iframe|audio|source)[^>]+src=["']https?:|<link[^>]+rel=["']?(?:stylesheet|preload)[^>]+href=["']https?:""")  # fmt: skip
    remote = {
        path.name: loads.search(path.read_text(encoding="utf8"))[0]
        for path in SITE.rglob("*.html")
        if loads.search(path.read_text(encoding="utf8"))
    }
    assert remote == {}


def test_mathjax_travels_with_the_site():
    mathjax = SITE / "_static" / "mathjax"
    assert (mathjax / "tex-mml-chtml.js").is_file()
    assert any((mathjax / "output" / "chtml" / "fonts").rglob("*.woff"))
    assert (mathjax / "input" / "tex" / "extensions").is_dir()
