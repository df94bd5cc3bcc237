"""Every committed record still loads under the id it was made with, and can be judged."""

from __future__ import annotations

import pytest

from pjrope import record
from pjrope.experiments import get, load, names
from pjrope.experiments.analysis.claims import CLAIMS, Verdict

# A spec id hashes name, revision and settings. One that changes makes a record of hours stale: a
# new setting goes into a new named grid, and this table only grows.
SPEC_IDS = {
    ("adaptive_spectrum", "book"): "8f76f52b5fcc",
    ("adaptive_spectrum/frequencies", "book"): "af727aefead7",
    ("attention_retrieval", "book"): "7ca4a4378639",
    ("byte_lm/baselines", "book"): "640175beaf78",
    ("byte_lm/extrapolation", "book"): "3112095faac4",
    ("byte_lm/lightcone", "book"): "9aebf121f981",
    ("byte_lm/long", "book"): "14e7b88cdcc0",
    ("cache_quantization", "book"): "2e7841cb29bb",
    ("cache_survival", "book"): "cdc4b6c77b51",
    ("fixed_kernel", "book"): "dac5f7e659a8",
    ("fixed_kernel/grape", "book"): "d6d46d834d0a",
    ("jet_lm", "book"): "e7913fcf6fb6",
    ("jet_probes", "book"): "ac2ec59db436",
    ("kernel_probes", "book"): "48adfb4b00f9",
    ("lightcone_stability", "book"): "64025cf8ff82",
    ("music_lm", "book"): "070ac66fd6a9",
    ("music_motif", "book"): "2c2e6f2f71e5",
    ("near_lags", "book"): "0230b1b2c0ed",
    ("byte_lm/stretched", "book"): "010183fc5889",
    ("your_model/extension", "book"): "38dab79a97ff",
    ("near_lags/samples", "book"): "ef896f802bea",
    ("needle_retrieval", "book"): "9cf6cf872996",
    ("ntk_flow", "book"): "015369e1cb2d",
    ("order_toy", "book"): "e725c5a50215",
    ("pair_resolution", "book"): "49ce5fb155ba",
    ("phase_lm", "book"): "e1bd13c3f19d",
    ("phase_lm/mid", "book"): "733db67af5cb",
    ("retrieval_resolution", "book"): "8a050012fb52",
    ("rotary_precision", "book"): "124ee20d6d99",
    ("rotary_precision/lightcone", "book"): "3eeda834abca",
    ("signal_regression", "book"): "43414691ea96",
    ("structured_probes", "book"): "e0a89f53d152",
    ("teacher_sequences", "book"): "0d83b6cd92f4",
    ("teacher_sequences/grape", "book"): "f6cab5ec3f07",
    ("teacher_sequences/inits", "book"): "2eaa0d7cc5cd",
    ("teacher_sequences/support", "book"): "4eb693d3eadd",
}


def test_the_table_holds_every_record():
    assert set(SPEC_IDS) == {one for one in record.recorded() if one[0] in names()}


@pytest.mark.parametrize(("name", "preset"), SPEC_IDS)
def test_a_record_loads_by_the_id_it_was_made_with(name, preset):
    result, experiment = load(name, preset), get(name)
    assert result.card["spec_id"] == SPEC_IDS[name, preset]
    assert experiment.spec_id(experiment.preset(preset)) == SPEC_IDS[name, preset]
    assert result.card["revision"] == experiment.revision and result.rows
    for id, rule in experiment.verdicts.items():
        verdict = rule(result)
        assert isinstance(verdict, Verdict) and verdict.claim == id and id in CLAIMS
