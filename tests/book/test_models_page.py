"""The appendix page of real models: what its cells say, and what it marks as not verified."""

from __future__ import annotations

from pathlib import Path

import pages
import pytest
from models_page import cells, models_page

from pjrope.data import facts_about, model_facts

ROOT = Path(__file__).resolve().parents[2]


def row(**changes):
    (found,) = [r for r in model_facts() if r["key"] == "llama-2-7b"]
    return found | changes


def test_a_row_says_what_its_file_says():
    assert cells(row()) == [
        *("llama-2-7b", "2023", "rope", "10,000", "128 of 128", "–", "4,096, 4,096"),
        *("54,410", "18 of 64", "litgpt, llama"),
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"verified": False}, "**not verified**"),
        ({"unverified_fields": ["head_dim"]}, "litgpt, llama; **not verified:** head_dim"),
        ({"unverified_fields": None}, "litgpt, llama"),
    ],
)
def test_what_was_not_read_is_marked(changes, says):
    assert cells(row(**changes))[-1] == says


def test_scaling_and_missing_numbers():
    scaled = cells(row(scaling={"type": "yarn", "factor": 4.0}, rope_theta=None, rotary_dim=None))
    assert scaled[5] == "yarn × 4" and scaled[3] == scaled[4] == "–"


def test_the_page_counts_its_rows_and_names_its_sources():
    text = models_page([row(), row(verified=False)], facts_about(), pages.table)
    assert (
        text.startswith("2 models, collected") and "; 1 were read in a public file, 1 were" in text
    )
    assert "**litgpt**" in text and "**not verified** " not in text.split("### Sources")[1]
    with pytest.raises(ValueError, match="is empty"):
        models_page([], facts_about(), pages.table)


def test_every_model_is_on_the_page():
    text = (ROOT / "book" / "appendix" / "models.md").read_text(encoding="utf8")
    assert all(f"\n| {r['key']} |" in text for r in model_facts())
