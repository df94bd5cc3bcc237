"""The six light-cone experiments run small, and show both protocols side by side."""

from __future__ import annotations

import time

import pytest

from pjrope.experiments import run
from pjrope.experiments.analysis.report import report
from pjrope.experiments.engine import registry

NAMES = ("lightcone_stability", "cache_quantization", "retrieval_resolution")
NAMES += ("pair_resolution", "attention_retrieval", "rotary_precision")


@pytest.mark.parametrize("name", NAMES)
def test_a_smoke_run_shows_both_protocols_in_one_table(name, tmp_path):
    start = time.process_time()
    result = run(name, out=tmp_path, progress=False)
    assert time.process_time() - start < 12  # meant for 6 s; room for a slow machine
    shown = report(registry.get(name), result)
    heads = [line for line in shown.splitlines() if line.startswith("| method")]
    assert any("paper" in head and "fair" in head for head in heads)
    assert "## Claims" in shown


@pytest.mark.parametrize("name", NAMES)
def test_the_paper_preset_has_the_paper_size(name):
    presets = registry.get(name).presets
    book, paper = (dict(presets[p].settings) for p in ("book", "paper"))
    if name == "attention_retrieval":
        assert paper.pop("times") == (4, 8, 16, 32) and book.pop("times") == (4, 32)
    assert paper == book
