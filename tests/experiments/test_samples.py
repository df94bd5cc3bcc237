"""Samples and attention of trained heads: what the rows hold."""

from __future__ import annotations

import pytest

from pjrope.experiments import run
from pjrope.experiments.text.samples import MAPPED


@pytest.fixture(scope="module")
def rows():
    return run("near_lags/samples", store=False, progress=False).rows


def test_a_model_writes_from_each_length_of_context(rows):
    found = [r for r in rows if r["kind"] == "sample"]
    assert [(r["method"], r["length"]) for r in found] == [
        ("rope_alibi", 64), ("rope_alibi", 256), ("alibi_t5", 64), ("alibi_t5", 256),
    ]  # fmt: skip
    # The text goes on from the same place whatever the context.
    assert len({r["prompt_end"] for r in found}) == 1
    assert all(len(r["text"]) == 16 for r in found)
    again = run("near_lags/samples", only={"method": "alibi_t5"}, store=False, progress=False).rows
    assert again == [r for r in rows if r["method"] == "alibi_t5"]


def test_each_head_has_a_map_and_a_profile(rows):
    found = [r for r in rows if r["kind"] == "attention"]
    assert len(found) == 2 * 2
    for row in found:
        assert [len(line) for line in row["map"]] == list(range(1, MAPPED + 1))
        assert sum(row["map"][-1]) == pytest.approx(1.0, abs=0.02)
        assert 0 < row["near"] <= sum(row["by_lag"]) + 0.02 <= 1.03
        assert row["near"] == pytest.approx(sum(row["by_lag"][:4]), abs=0.003)
