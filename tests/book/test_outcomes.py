"""Outcomes of the papers' claims that the prose of a chapter names are those of the ledger."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pjrope.experiments.analysis.claims import CLAIMS, OUTCOMES
from pjrope.experiments.analysis.ledger import rows

CHAPTERS = Path(__file__).resolve().parents[2] / "book" / "chapters"
OUTCOME = re.compile("|".join(sorted(OUTCOMES, key=len, reverse=True)))
CLAIM = re.compile(r"\b[JP]-[A-Z]\d+[a-z]?\b")
NOT_PROSE = re.compile(r"^(`{3,}|~{3,})\{code-cell\}.*?^\1|<!--.*?-->", re.S | re.M)


def named(text: str) -> list[tuple[str, set[str], set[str]]]:
    """Sentences that name claims and outcomes, with both."""
    prose = re.sub(r"\s*\n(?!\n)\s*", " ", NOT_PROSE.sub("", text))
    found = []
    for sentence in re.split(r"(?<=[.?!:;])\s|\n", prose):
        claims = set(CLAIM.findall(sentence)) & set(CLAIMS)
        if claims and (outcomes := set(OUTCOME.findall(sentence))):
            found.append((sentence, claims, outcomes))
    return found


SENTENCES = [
    pytest.param(*found, id=f"{path.stem}-{n}")
    for path in sorted(CHAPTERS.glob("ch*.md"))
    for n, found in enumerate(named(path.read_text(encoding="utf-8")))
]


def test_a_sentence_with_a_claim_and_an_outcome_is_found():
    text = "One. J-K4 is *not\ntested* here, and P-F1 is not.\n\n```{code-cell}\nJ-K5 reproduced\n```\n"
    ((_, claims, outcomes),) = named(text)
    assert claims == {"J-K4", "P-F1"} and outcomes == {"not tested"}
    assert SENTENCES, "no chapter names an outcome: this test reads nothing"


@pytest.mark.parametrize(("sentence", "claims", "outcomes"), SENTENCES)
def test_outcomes_of_the_prose_are_those_of_the_ledger(sentence, claims, outcomes):
    said = set()
    for row in rows(sorted(claims)):
        said |= {row.verdict.outcome, *(part.outcome for part in row.parts.values())}
    assert outcomes <= said, sentence
