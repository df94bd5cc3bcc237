"""The ledger: one row for each claim, none without a verdict or the reason why there is none."""

from __future__ import annotations

import json

import pytest

from pjrope import cli
from pjrope.experiments import ExperimentError
from pjrope.experiments.analysis.claims import CLAIMS, OUTCOMES
from pjrope.experiments.analysis.ledger import as_json, as_markdown, as_sections, counts, rows


@pytest.fixture(scope="module")
def found():
    return rows()


def test_each_claim_has_one_row_and_a_verdict_or_a_reason(found):
    assert [row.claim.id for row in found] == list(CLAIMS)
    for row in found:
        assert row.verdict.claim == row.claim.id and row.verdict.outcome in OUTCOMES
        assert row.verdict.because
        if row.verdict.outcome in OUTCOMES[:4]:
            assert row.verdict.evidence.findings and row.parts
    assert counts(found).startswith(f"{len(CLAIMS)} claims: ")


def test_every_recorded_claim_is_judged(found):
    unjudged = [row.claim.id for row in found if row.silent and not row.parts]
    assert not unjudged, f"recorded, and no rule: {unjudged}"


def test_markdown_has_a_line_a_claim(found):
    head, _, *lines = as_markdown(found).split("\n\n", 1)[1].splitlines()
    assert len(lines) == len(CLAIMS) and {line.count(" | ") for line in (head, *lines)} == {7}
    assert as_sections(found).count("\n## ") == len(CLAIMS)


def test_json_holds_every_interval(found):
    told = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert [one["claim"]["id"] for one in told] == list(CLAIMS)
    (k4,) = [one for one in told if one["claim"]["id"] == "J-K4"]
    assert k4["claim"]["scale"]["longest"] == 8192 and "phase_lm" in k4["experiments"]
    findings = [f for one in told for part in one["experiments"].values() for f in part["findings"]]
    compared = [f for f in findings if f["word"] in ("better", "worse", "unresolved", "equal")]
    assert compared and all(f["low"] <= f["mean"] <= f["high"] for f in compared)


def test_the_command_prints_and_writes(tmp_path, capsys):
    assert cli.main(["ledger", "P-F2", "J-K8"]) == 0
    assert capsys.readouterr().out.startswith("2 claims: 1 reproduced, 1 not tested.")
    assert cli.main(["ledger", "--json", "--out", str(tmp_path / "x.json"), "J-K8"]) == 0
    assert capsys.readouterr().out == f"Written to {tmp_path / 'x.json'}\n"
    (row,) = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert row["outcome"] == "not tested" and row["because"] and row["command"] == ""
    with pytest.raises(ExperimentError, match="no claim 'K4'"):
        rows(["K4"])
