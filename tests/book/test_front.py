"""The first page, README.md, chapter 16 and the course: one source, and no word beyond the records."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import advice
import contents
import front_answers
import front_pages
import pages
import pytest
import space_picture
from checks import toc_files
from found import as_sections, found, status
from offline_site import show_card

from pjrope import experiments
from pjrope.experiments.analysis.ledger import rows

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"


@pytest.fixture(scope="module")
def ledger():
    return rows()


@pytest.fixture(scope="module")
def records():
    return front_answers.Records()


@pytest.fixture(scope="module")
def parts():
    return contents.chapters(BOOK)


def test_pages_agree_by_construction(ledger):
    lines = front_answers.ten_lines(ledger)
    for page in ("index.md", "../README.md", "chapters/ch16_ledger.md"):
        assert lines in (BOOK / page).read_text(encoding="utf8"), page


def test_ten_lines_are_ten_and_every_outcome_has_its_group(ledger):
    lines = front_answers.ten_lines(ledger)
    assert lines.count("\n- ") == 10
    counted = [int(n) for n in re.findall(r"\((\d+) of", lines)]
    assert sum(counted) == len(ledger)


def test_the_tally_counts_every_claim(ledger):
    told = front_answers.tally(ledger)
    total, *groups = map(int, re.findall(r"\d+", told))
    assert total == len(ledger) == sum(groups) and len(groups) == 3
    assert f"<summary>{told}</summary>" in (ROOT / "README.md").read_text(encoding="utf8")


def test_a_group_without_a_line_says_so(ledger):
    few = [row for row in ledger if row.claim.id in front_answers.HEADLINES]
    (only,) = [row for row in few if row.claim.id == "J-K8"] or [None]
    assert only is None
    told = front_answers.ten_lines(
        [replace(r, verdict=replace(r.verdict, outcome="undecided")) for r in few]
    )
    assert told.count("None of the ten") == 2


def test_reasons_are_short():
    assert front_answers.short("phase_lm (not tested): too few; more") == "too few"
    assert front_answers.short("x" * 200) == ""


def test_a_row_a_claim_and_none_without_a_reason(ledger):
    page = front_pages.ledger_chapter(ROOT, ledger, pages.table)
    for row in ledger:
        (line,) = [x for x in page.splitlines() if x.startswith(f"| **{row.claim.id}**")]
        assert f"**{row.verdict.outcome}**: " in line
    assert page.count("### ") == len(front_pages.LEDGER_GROUPS) + 5


def test_a_claim_without_a_group_is_named(ledger):
    odd = replace(ledger[0], claim=replace(ledger[0].claim, id="Q-1"))
    with pytest.raises(ValueError, match="Q-1 has no group"):
        front_pages.ledger_chapter(ROOT, [odd], pages.table)


def test_advice_that_the_records_do_not_carry_is_not_given(ledger, records):
    given = advice.decisions(ledger, records)
    assert any(a.holds for a in given)
    told = advice.decision_table(
        [replace(given[0], use="magic", holds=False)], lambda slug: slug, pages.table
    )
    assert front_answers.OPEN in told and "magic" not in told


def test_nothing_recorded_is_said(ledger):
    nothing = front_answers.Records()
    nothing.names = set()
    assert not any(a.holds for a in advice.decisions(ledger, nothing) if "claim" not in a.evidence)
    told = as_sections(found(nothing), nothing, lambda slug: "")
    assert told.count("not recorded yet") > 10 and "±" not in told.replace("teacher", "")


def test_numbers_are_those_of_the_records(records):
    base = experiments.load("byte_lm/baselines", "book")
    losses = [r["loss"] for r in base.rows if r["method"] == "rope" and r["length"] == 8192]
    shown = records.mean("byte_lm/baselines", "loss", method="rope", length=8192)
    assert shown.startswith(f"{sum(losses) / len(losses):.3f} ±")
    gap = records.gap("byte_lm/baselines", "loss", "alibi", "rope", length=8192)
    assert front_answers.difference(gap).endswith("(better, 5 seeds)")
    assert front_answers.difference(None) == "not recorded yet"


def test_the_answer_on_extrapolation_follows_the_record(records):
    assert front_answers.extrapolates(records).startswith("No, not by itself")
    flat = front_answers.Records()
    flat.rise = lambda *_: SimpleNamespace(low=-0.1)
    assert front_answers.extrapolates(flat).startswith("In this test it does")
    flat.names = set()
    flat.rise = front_answers.Records.rise.__get__(flat)
    assert front_answers.extrapolates(flat) == "Not decided by the records."


def test_a_rise_is_taken_seed_by_seed(records):
    rows = experiments.load("byte_lm/baselines", "book").where(method="rope").rows
    at = {n: [r["loss"] for r in rows if r["length"] == n] for n in (256, 8192)}
    rise = records.rise("byte_lm/baselines", "loss", "rope", 256, 8192)
    assert rise.mean == pytest.approx((sum(at[8192]) - sum(at[256])) / rise.n)


@pytest.mark.parametrize("readme", [False, True])
def test_questions_lead_on_at_once(ledger, records, readme):
    told = front_pages.questions(ROOT, ledger, records, readme)
    lines = told.splitlines()
    assert len(lines) == 4 and all(line.startswith("- **") for line in lines)
    extrapolate, headline, llama, gpu = lines
    assert re.search(r"ch0[23]_|#ch-(rope|stretch)", extrapolate)
    assert "ledger" in headline
    assert "usage.md#6-add-recency-to-a-llama" in llama and "your" in llama
    assert "colab.research.google.com" in gpu and "ch06_phase_language.ipynb" in gpu
    assert "# 6. Add recency to a Llama" in (BOOK / "appendix" / "usage.md").read_text()


def test_what_is_found_rests_on_experiments_that_exist(records):
    for item in found(records):
        for name in (*item.records, item.confirm):
            experiments.get(name)
        assert item.numbers
    assert status("byte_lm/baselines", records.names).startswith("recorded")


def test_chapters_are_those_of_the_contents(parts):
    named = [n for n in toc_files(BOOK / "_toc.yml") if n.startswith("chapters/")]
    assert [part.file for part in parts] == [f"book/{name}" for name in named]
    for part in parts:
        assert part.question.endswith("?") and part.cpu and len(part.exercises) > 1
        assert contents.colab(ROOT, part).endswith(f"/blob/main/{part.file}")


def test_a_chapter_without_a_card_is_named(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "_toc.yml").write_text("root: index\nchapters:\n- file: chapters/ch01_x.ipynb\n")
    (tmp_path / "chapters" / "ch01_x.md").write_text("(ch-x)=\n# X\n")
    with pytest.raises(ValueError, match=r"ch01_x.md has no line \*\*Cost"):
        contents.chapters(tmp_path)


def test_links_to_chapters_that_are_not_there(parts):
    link = contents.linker([p for p in parts if p.label in ("rope", "jordan")], front_pages.myst)
    assert link("jordan") == "[4](#ch-jordan)" and link("forms") == link("jordan")
    assert link("music") == ""


def test_the_course_has_ten_weeks_with_a_run_each():
    page = front_pages.course(ROOT, pages.table)
    lines = [x for x in page.splitlines() if re.match(r"\| \d+\. ", x)]
    assert len(lines) == 10
    for line in lines:
        (name,) = re.findall(r"`pjrope run (\S+) --preset book", line)
        experiments.get(name)


def test_readme_takes_two_minutes():
    text = (ROOT / "README.md").read_text(encoding="utf8")
    text = re.sub(r"<details>.*?</details>|```.*?```|\]\([^)]*\)|!\[.*?\]", "", text, flags=re.S)
    assert len(re.findall(r"[A-Za-z]{2,}", text)) < 620


def test_the_picture_is_the_package_s(tmp_path):
    space_picture.main(tmp_path)
    drawn = (tmp_path / "space.svg").read_bytes()
    assert drawn == (BOOK / "_assets" / "space.svg").read_bytes()
    assert (tmp_path / "social.png").read_bytes()[:4] == b"\x89PNG"


def test_links_elsewhere_show_a_card():
    options = {"repository_url": "https://github.com/pjrope/pjrope"}
    app = SimpleNamespace(config=SimpleNamespace(html_theme_options=options, project="pjrope"))
    context = {"title": 'A <em>"gate"</em>'}
    show_card(app, "x", "page.html", context, None)
    assert 'content="A &quot;gate&quot;"' in context["metatags"]
    assert "https://pjrope.github.io/pjrope/_static/social.png" in context["metatags"]
