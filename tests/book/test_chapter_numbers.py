"""Chapters carry the number of their file in prose, and notebooks keep up with their prose.

test_pages.py looks at the numbers on the built pages.
"""

from __future__ import annotations

import chapters
import jupytext
import nbformat
import pytest
from chapter_numbers import number_of, wrong_numbers


def test_the_number_is_that_of_the_file():
    assert number_of("chapters/ch06_phase_language") == 6
    assert number_of("chapters/ch12_speed.ipynb") == 12
    assert number_of("appendix/glossary") is None


@pytest.fixture
def book(tmp_path):
    pages = {
        "chapters/ch01_order.md": "(ch-order)=\n# Order\n\nSee [chapter 4](#ch-jordan).\n",
        "chapters/ch04_jordan.md": "(ch-jordan)=\n# Jordan\n\nAs the [clock of chapter\n1](#ch-order).\n",
        "index.md": "# Book\n\nChapter 4 follows chapter 1.\n",
    }
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_right_numbers_pass(book):
    assert list(wrong_numbers(book)) == []


@pytest.mark.parametrize(
    ("page", "before", "after", "says"),
    [
        ("chapters/ch01_order.md", "chapter 4", "chapter 1", "chapter 1 links to ch-jordan"),
        ("chapters/ch04_jordan.md", "\n1](", "\n4](", "chapter 4 links to ch-order, chapter 1"),
        ("index.md", "Chapter 4", "Chapter 3", "index.md: there is no chapter 3"),
    ],
)
def test_a_wrong_number_is_named(book, page, before, after, says):
    path = book / page
    path.write_text(path.read_text().replace(before, after))
    (fault,) = wrong_numbers(book)
    assert says in fault


@pytest.fixture
def pair(tmp_path):
    md = tmp_path / "ch01_small.md"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell("Old words."), nbformat.v4.new_code_cell("print(1)")]
    )
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    notebook.metadata["jupytext"] = {"formats": "ipynb,md:myst"}
    chapters.name_cells(notebook)
    notebook.cells[1]["execution_count"] = 1
    notebook.cells[1]["outputs"] = [nbformat.v4.new_output("stream", name="stdout", text="1\n")]
    nbformat.write(notebook, md.with_suffix(".ipynb"))
    jupytext.write(notebook, md, fmt="md:myst")
    return md


def test_new_prose_goes_into_the_notebook_and_its_outputs_stay(pair):
    pair.write_text(pair.read_text().replace("Old words.", "New words."))
    words, code = nbformat.read(chapters.sync(pair), 4).cells
    assert words.source == "New words."
    assert (code.execution_count, code.outputs[0].text) == (1, "1\n")


def test_outputs_are_not_kept_for_other_code(pair):
    pair.write_text(pair.read_text().replace("print(1)", "print(2)"))
    with pytest.raises(ValueError, match=r"chapters\.py run ch01_small"):
        chapters.sync(pair)
