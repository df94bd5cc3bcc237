"""Pages made from the package, and docstrings on their way to the API pages."""

from __future__ import annotations

from dataclasses import dataclass

import offline_site
import pages
import plain_docstrings
import pytest

from pjrope import record
from pjrope.experiments import get, load, names
from pjrope.experiments.analysis import ledger
from pjrope.experiments.analysis.report import report

PAGE = f"# Title\n\n{pages.BEGIN}\nold\n{pages.END}\n\nThe rest.\n"


@dataclass(frozen=True)
class Row:
    symbol: str
    meaning: str
    unit: str
    code: str
    shape: str


def test_notation_table_has_a_line_per_row():
    text = pages.notation([Row("$|d|$", "distance,\nno sign", "tokens", "lags", "(n,)")])
    assert text.splitlines() == [
        "| symbol | meaning | unit | code | shape |",
        "| --- | --- | --- | --- | --- |",
        r"| $\|d\|$ | distance, no sign | tokens | `lags` | `(n,)` |",
    ]


def test_an_empty_table_is_refused():
    with pytest.raises(ValueError, match="TABLE is empty"):
        pages.notation([])


def test_run_cards_show_every_field():
    card = {
        "seeds": [0, 1],
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False,
        "gpu": None,
        "wall_seconds": 12.345,
        "settings": {"width": 64, "rates": [0.1]},
        "data": [],
    }
    text = pages.run_cards([("toy/one", "smoke", card)])
    assert "## toy/one, preset smoke" in text
    assert "`pjrope run toy/one --preset smoke --record`" in text
    for line in [
        "| seeds | `0`, `1` |",
        "| commit | `0123456789ab…` |",
        "| dirty | no |",
        "| gpu | not known |",
        "| wall seconds | 12.345 |",
        "| settings | rates = 0.1, width = `64` |",
        "| data | none |",
    ]:
        assert line in text.splitlines()


def test_no_record_is_said():
    for empty in (
        pages.run_cards([]),
        pages.results([]),
        pages.results_index([]),
    ):
        assert empty == "No result has been recorded yet."


def test_results_show_the_first_table_and_where_the_rest_is_printed():
    experiment, result = get("byte_lm/baselines"), load("byte_lm/baselines", "book")
    text, printed = pages.results([(experiment, result)]), report(experiment, result)
    first, second = experiment.tables[:2]
    assert text.startswith(f"## {experiment.name}: {experiment.question}\n\n### {first.title}")
    assert second.title not in text and second.title in printed
    assert "`pjrope show byte_lm/baselines` prints 1 more table." in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) > 10 and set(lines) <= set(printed.splitlines())
    assert "Difference to rope" in text and "Judges" not in text


def test_results_without_seeds_have_no_differences():
    experiment, result = get("kernel_probes"), load("kernel_probes", "book")
    text = pages.results([(experiment, result)])
    assert "Difference to" not in text
    assert f"Judges {', '.join(experiment.verdicts)}: see {{doc}}`ledger`." in text


def test_each_record_is_on_the_page_of_its_folder():
    recorded = {name for name, _ in record.recorded() if name in names()}
    assert {pages.result_page(name) for name in recorded} == set(pages.pages_of_results())
    assert pages.result_page("byte_lm/long") == "text"
    assert pages.result_page("teacher_sequences/grape") == "sequences"
    with pytest.raises(ValueError, match="no experiment 'other'"):
        pages.result_page("other")


def test_the_index_of_results_links_to_the_page_of_each():
    experiment, result = get("byte_lm/baselines"), load("byte_lm/baselines", "book")
    line = f"- [byte_lm/baselines](results_text.md): {experiment.question}"
    assert pages.results_index([(experiment, result)]) == line


def test_the_ledger_page_has_a_section_a_claim(monkeypatch):
    few = ledger.rows(["J-K8", "P-F2"])
    monkeypatch.setattr(ledger, "rows", lambda: few)
    page = pages.ledger()
    assert page.startswith("2 claims: 1 reproduced")
    assert page.count("\n## ") == 2 and "- Here: **reproduced**." in page


def test_only_the_part_between_the_markers_changes():
    text = pages.put(PAGE, "new")
    assert text == f"# Title\n\n{pages.BEGIN}\n\nnew\n\n{pages.END}\n\nThe rest.\n"
    assert pages.put(text, "new") == text


@pytest.mark.parametrize(
    "page", ["no markers", f"{pages.END}\n{pages.BEGIN}", PAGE + PAGE, pages.BEGIN]
)
def test_a_page_with_broken_markers_is_refused(page):
    with pytest.raises(ValueError, match="needs one line"):
        pages.put(page, "new")


def test_a_stale_page_is_found_and_a_fresh_one_is_not(tmp_path):
    page = tmp_path / "a.md"
    page.write_text(PAGE)
    makers = {"a.md": lambda: "new"}
    stale = pages.differing(tmp_path, makers)
    assert list(stale) == [page]
    page.write_text(stale[page])
    assert pages.differing(tmp_path, makers) == {}


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("bias at |d| is a*b", r"bias at \|d\| is a\*b"),
        ("keeps ``|d|``; :func:`~a.f` and", "keeps ``|d|``; ``a.f`` and"),
        ("weights w_ and a_b", r"weights w\_ and a_b"),
        ("the `code` of Markdown", "the ``code`` of Markdown"),
    ],
)
def test_formulas_of_a_docstring_are_no_markup(text, plain):
    assert plain_docstrings.plain(text) == plain


def rewritten(*lines: str) -> list[str]:
    lines = list(lines)
    plain_docstrings.rewrite(None, "function", "f", None, None, lines)
    return lines


def test_an_indented_formula_becomes_a_literal_block():
    said = rewritten("One sentence.", "", "    b(d) = |d| * m", "", "Then more |d|.")
    assert said == [
        "One sentence.", "", "", "::", "", "    b(d) = |d| * m", "", "", r"Then more \|d\|.",
    ]  # fmt: skip


def test_sections_keep_their_indentation():
    lines = ["One sentence.", "", "Args:", "    x: the |lag|.", "        more of it.", ""]
    assert rewritten(*lines) == [line.replace("|lag|", r"\|lag\|") for line in lines]


def test_a_literal_wrapped_at_the_margin_is_joined():
    assert rewritten("where ``a +", "b`` is") == ["where ``a + b`` is"]


def test_the_withdrawn_role_is_replaced():
    context = {"body": '<div role="doc-biblioentry">x</div>'}
    offline_site.mend_roles(None, "bibliography", "page.html", context, None)
    assert context["body"] == '<div role="listitem">x</div>'
