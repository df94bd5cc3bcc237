"""Chapters keep their caps; numbers in their prose follow from the records."""

from __future__ import annotations

import re
from pathlib import Path

import marks
import measure
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

CHAPTERS = Path(__file__).resolve().parents[2] / "book" / "chapters"
SIZES = measure.sizes()
LOSS = 'mean("byte_lm/baselines", "loss", method="rope", length=256)'


@pytest.mark.parametrize("name", SIZES)
def test_a_chapter_is_within_its_caps(name):
    assert not SIZES[name].too_much()


def test_only_existing_chapters_are_spared():
    assert SIZES.keys() >= marks.NOT_MARKED_YET


def test_folded_things_and_formulas_are_not_counted():
    prose = """(ch-x)=
# Two words

:::{admonition} Chapter card
:class: tip
- **Question** not counted
:::

Four words $a + b$ here<!--= mean("x", "y") -->.

| a table | none |

$$
a = b
$$ (eq-x)

:::{exercise} Title
:label: ex-x-1

Three more words.
:::

:::{solution} ex-x-1
:class: dropdown

Folded.
:::
"""
    shown = new_code_cell("a = 1\n\nb = 2", outputs=[new_output("stream", text="one two")])
    folded = new_code_cell("c = 3\nd = 4", metadata={"tags": ["hide-input"]})
    start, end = ":::{solution-start} ex-x-1\n:::", ":::{solution-end}\n:::"
    cells = [new_markdown_cell(prose), shown, folded]
    cells += [new_markdown_cell(start), new_code_cell("e = 5"), new_markdown_cell(end)]
    counted = measure.size(new_notebook(cells=cells))
    assert counted == measure.Size(prose=9, printed=2, code=2, exercises=1)


def test_every_cap_is_named():
    over = measure.Size(4001, 601, 251, 8).too_much()
    assert [re.sub(r", .*", "", text.replace("4,001", "4001")) for text in over] == [
        "4001 words of prose",
        "601 printed words",
        "251 visible lines of code",
    ]
    assert not measure.Size(4000, 600, 250, 8).too_much()


def test_a_changed_digit_turns_red():
    right = f"{marks.computed(LOSS):.3f}"
    wrong = right[:-1] + str((int(right[-1]) + 1) % 10)
    assert not list(marks.wrong_marks(f"A loss of {right}<!--= {LOSS} --> nats."))
    (fault,) = marks.wrong_marks(f"A loss of {wrong}<!--= {LOSS} --> nats.")
    assert wrong in fault and LOSS in fault


def test_a_changed_digit_of_a_chapter_turns_red(tmp_path):
    """The same on a real page: its first mark, with another last digit."""
    for md in sorted(CHAPTERS.glob("ch*.md")):
        text = md.read_text(encoding="utf8")
        if found := re.search(r"\.\d*(\d)<!--=", text):
            at, other = found.start(1), str((int(found[1]) + 1) % 10)
            (tmp_path / md.name).write_text(text[:at] + other + text[at + 1 :], encoding="utf8")
            assert len(marks.wrong_numbers(tmp_path)) == 1
            return
    assert set(SIZES) == marks.NOT_MARKED_YET, "no chapter has a mark"


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ('mean("byte_lm/baselines", "loss", method="nobody")', "no row"),
        ('value("byte_lm/baselines", "loss", method="rope")', "value() needs one"),
        ("open('x')", "not defined"),
    ],
)
def test_an_expression_that_fails_says_why(expression, error):
    (fault,) = marks.wrong_marks(f"1.0<!--= {expression} -->")
    assert error in fault


def test_a_mark_stands_behind_its_number():
    (fault,) = marks.wrong_marks(f"1.0 %<!--= {LOSS} -->")
    assert "right behind" in fault


def test_a_bare_decimal_is_refused_in_results_alone():
    head = f"Story 0.5.\n\n{marks.RESULTS}\n\n"
    tail = "\n\n## Exercises\n\nTake 0.1.\n"
    assert len(list(marks.unmarked(f"{head}It is 0.25 nats.{tail}"))) == 1
    for fine in ("0.25<!--= 1/4 -->", "0.25<!--given-->", "`0.25`", "[a](x0.25)", "| 0.25 |", "5"):
        assert not list(marks.unmarked(f"{head}{fine}{tail}")), fine


def test_differences_and_intervals_agree_with_each_other():
    where = "length=1024)"
    a, b = (f'mean("byte_lm/baselines", "loss", method="{m}", {where}' for m in ("alibi", "rope"))
    paired = f'"byte_lm/baselines", "loss", "alibi", "rope", {where}'
    assert marks.computed(f"diff({paired}") == pytest.approx(marks.computed(f"{a} - {b}"))
    low, high = (marks.computed(f"diff_{end}({paired}") for end in ("low", "high"))
    assert marks.computed(f"diff_half({paired}") == pytest.approx((high - low) / 2)
    assert low < marks.computed(f"diff({paired}") < high


@pytest.mark.parametrize(
    ("written", "number", "fine"),
    [("0.61", 0.6149, True), ("0.61", 0.6151, False), ("−2.5", -2.51, True), ("1,024", 1024, True),
     (".07", 0.065, True), ("12", 12.6, False)],
)  # fmt: skip
def test_what_is_written_is_rounded(written, number, fine):
    assert marks.agrees(written, number) is fine


def test_chapters_agree_with_the_records():
    assert marks.wrong_numbers() == []
