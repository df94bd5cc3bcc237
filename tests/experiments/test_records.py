"""Every committed record still loads, belongs to this version's settings, and can be judged."""

from __future__ import annotations

import pytest

from pjrope import record
from pjrope.experiments import get, load
from pjrope.experiments.analysis.claims import CLAIMS, Verdict
from pjrope.experiments.engine.registry import names

RECORDS = [(name, preset) for name, preset in record.recorded() if name in names()]


def test_there_are_records_of_every_room():
    assert len(RECORDS) >= 25


@pytest.mark.parametrize(("name", "preset"), RECORDS)
def test_a_record_has_the_spec_id_of_its_experiment_and_verdicts_on_its_claims(name, preset):
    experiment, result = get(name), load(name, preset)
    assert result.rows
    assert result.card["spec_id"] == experiment.spec_id(experiment.presets[preset])
    for id, rule in experiment.verdicts.items():
        verdict = rule(result)
        assert isinstance(verdict, Verdict) and verdict.claim == id and id in CLAIMS
