"""What is changed for the printed book, on small pages; the TeX itself is run by `make pdf`."""

from __future__ import annotations

from types import SimpleNamespace

import printed
import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx import addnodes
from sphinx_proof.nodes import proof_node


def cell(text: str, formula: str = "") -> nodes.entry:
    paragraph = nodes.paragraph("", text)
    if formula:
        paragraph += nodes.math(formula, formula)
    return nodes.entry("", paragraph)


def page(*parts: nodes.Node) -> nodes.document:
    document = new_document("page")
    document += nodes.section("", nodes.title("", "Title"), *parts, ids=["title"])
    return document


def table(*texts: tuple[str, ...]) -> nodes.table:
    group = nodes.tgroup(cols=len(texts[0]))
    group.extend(nodes.colspec(colwidth=1) for _ in texts[0])
    group += nodes.tbody("", *(nodes.row("", *map(cell, row)) for row in texts))
    return nodes.table("", group, classes=["colwidths-auto"])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("chapters/ch06_phase_language", r"\setcounter{secnumdepth}{1}\setcounter{chapter}{5}"),
        ("appendix/glossary", r"\setcounter{secnumdepth}{-2}"),
    ],
)
def test_a_chapter_has_the_number_of_its_file(name, told):
    assert printed.before(name) == told


def test_a_formula_is_as_long_as_it_prints():
    assert printed.shown(cell("size ", r"\operatorname{Re}\,\omega_k")) == "size Re,k"
    assert printed.shown(cell("", r"\omega")) == "x"


def test_columns_have_room_for_their_longest_word_and_more_for_longer_texts():
    short, long, code = printed.widths([[(4, 4), (200, 9), (20, 20)], [(3, 3), (10, 5), (4, 4)]])
    assert short >= 50 and code >= 210
    assert long > short and long > code


def test_tables_are_fitted_and_long_ones_may_break():
    small, big = table(("a", "b" * 30)), table(*[("a", "b")] * 12)
    printed.fit_tables(page(small, big))
    first, second = (column["colwidth"] for column in small.findall(nodes.colspec))
    assert second > first
    assert small["classes"] == ["colwidths-given"]
    assert big["classes"] == ["colwidths-given", "longtable"]


def test_a_proof_loses_its_box_and_ends_in_a_square():
    box = proof_node("", nodes.admonition("", nodes.paragraph("", "Proof. Clear.")))
    document = page(box)
    printed.plain_proofs(document)
    assert not list(document.findall(nodes.admonition))
    assert [n.astext() for n in document[0][1:]] == [
        "Proof. Clear.",
        r"\hspace*{\fill}$\square$",
    ]


def test_folded_code_is_left_out_and_its_figure_stays():
    def code(*tags: str) -> nodes.container:
        source = nodes.container("", nodes.literal_block("", "plot()"), classes=["cell_input"])
        shown = nodes.container("", nodes.paragraph("", "figure"), classes=["cell_output"])
        return nodes.container("", source, shown, classes=["cell", *tags])

    document = page(code("tag_hide-input"), code())
    printed.drop_folded_code(document)
    assert document.astext().count("plot()") == 1 and document.astext().count("figure") == 2


def test_the_first_page_is_one_chapter_and_records_stay_online():
    files = ["chapters/ch01_order", "appendix/results_text", "appendix/run_cards"]
    tree = addnodes.toctree(
        entries=[(None, name) for name in files], includefiles=files, caption="Chapters"
    )
    contents = nodes.compound("", tree, classes=["toctree-wrapper"])
    sections = [nodes.section("", nodes.title("", name), ids=[name]) for name in ("A", "B")]
    sections[1] += contents
    document = page(nodes.paragraph("", "Hello."), *sections)
    printed.gather(document)
    assert tree["includefiles"] == files[:1]
    chapter, *rest = document[0].findall(nodes.section, include_self=False, descend=True)
    assert chapter[0].astext() == printed.FIRST_PAGE
    assert [section.parent for section in rest] == [chapter, chapter]
    assert r"\part{Chapters}" in document.astext() and "space.pdf" in chapter.astext()
    assert contents.parent is document[0]


def test_other_builders_get_the_page_as_it_is():
    document = page(table(("a", "b")))
    before = document.pformat()
    printed.prepare(SimpleNamespace(builder=SimpleNamespace(format="html")), document)
    assert document.pformat() == before
