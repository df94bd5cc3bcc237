"""Rounding a cache of keys: the protocol's printed digits, what a query sees, and the rule."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from pjrope.experiments import Result
from pjrope.experiments.codes.cache_quantization import attention_error, keys_and_queries, spread
from pjrope.experiments.codes.lag_codes import CYCLES
from pjrope.experiments.codes.rounding import quantize
from pjrope.experiments.codes.rounding_claims import cache_claim
from pjrope.experiments.engine import registry
from tests.experiments.printed import as_printed

# C7 of the same protocol: seed 0, 32,768 positions. Two of its eight norms (8.06, 7.72) are a unit
# of the last digit above what every other number of the table confirms (8.055, 7.715).
CACHE = {
    "raw": "2.4e13 1.6e24 .0246 .348 .0255",
    "scaled": "923 4109 .0155 .253 .0165",
    "clipped": "5.8 .452 .0092 .166 .0052",
    "log": "42 7.38 .0134 .239 .0143",
    "lc_amp_only": "8.06 .694 .0086 .157 .0057",
    "lc_phase_only": "2.2e4 2.1e6 .0236 .334 .0164",
    "lc": "7.51 .824 .0087 .158 .0051",
    "lc_wrong_scale": "7.72 .071 .0065 .114 .0272",
}


@pytest.mark.parametrize("name", CACHE)
def test_the_cache_protocol_comes_out_to_the_printed_digits(name):
    settings = {"positions": 32768, "length": 1024, "queries": 1, "cycles": CYCLES}
    keys, queries, _ = keys_and_queries(name, settings, "paper", 0)
    logits = queries.double() @ keys.double().T / math.sqrt(128)
    errors = [(quantize(keys, bits) - keys).norm() / keys.norm() for bits in (8, 4)]
    changed = queries.double() @ quantize(keys, 8).double().T / math.sqrt(128)
    numbers = [keys[-1].norm(), logits.std(), *errors, (changed - logits).norm() / logits.norm()]
    units = [1.0, *[0.5] * 4]
    triples = zip(CACHE[name].split(), numbers, units, strict=True)
    wrong = [(text, float(n)) for text, n, unit in triples if not as_printed(text, float(n), unit)]
    assert wrong == []


@pytest.fixture(scope="module")
def asked():
    """Logits of 5 queries in the middle of 40 keys, the same rounded, and where they stand."""
    settings = {"positions": 40, "length": 8, "queries": 5, "cycles": CYCLES}
    keys, queries, at = keys_and_queries("scaled", settings, "fair", 0)
    logits, rounded = (queries @ k.T / math.sqrt(128) for k in (keys, quantize(keys, 4)))
    assert int(at.min()) < 30
    return logits, rounded, at


def test_what_enters_the_softmax_has_a_spread_of_1_over_visible_keys(asked, monkeypatch):
    logits, rounded, at = asked
    entered = []
    softmax = torch.Tensor.softmax

    def spy(self, *args):
        entered.append(self)
        return softmax(self, *args)

    monkeypatch.setattr(torch.Tensor, "softmax", spy)
    attention_error(logits, rounded, at)
    spreads = [[float(row[torch.isfinite(row)].std()) for row in side] for side in entered]
    assert spreads[0] == pytest.approx([1.0] * 5)
    assert [int(torch.isfinite(row).sum()) for row in entered[0]] == [int(p) + 1 for p in at]
    # The rounded side keeps the scale of the clean one: its own spread is not 1.
    assert max(abs(s - 1) for s in spreads[1]) > 1e-3


def test_keys_after_a_query_change_nothing(asked):
    logits, rounded, at = asked
    hidden = torch.arange(40) > at[:, None]
    found = attention_error(logits, rounded, at)
    assert 0 < found < 1
    for other in (1e3, -1e3):
        shown = attention_error(
            logits.masked_fill(hidden, other), rounded.masked_fill(hidden, -other), at
        )
        assert shown == pytest.approx(found, abs=1e-12)


def test_an_error_of_scale_alone_moves_attention(asked):
    logits, _, at = asked
    assert attention_error(logits, logits, at) == 0
    assert attention_error(logits, 2 * logits, at) > 0.05


def test_attention_error_is_that_of_each_querys_own_softmax(asked):
    logits, rounded, at = asked
    moved = []
    for clean, other, p in zip(logits, rounded, at.tolist(), strict=True):
        unit = clean[: p + 1].std()
        a, b = ((x[: p + 1] / unit).softmax(0) for x in (clean, other))
        moved.append(float((a - b).abs().sum() / 2))
    assert attention_error(logits, rounded, at) == pytest.approx(sum(moved) / len(moved))


def test_no_number_about_logits_knows_keys_after_the_query():
    """A cell's rows equal what each query's own keys give."""
    experiment = registry.get("cache_quantization")
    settings = {**experiment.preset("smoke").settings, "positions": 64, "length": 8, "bits": [4]}
    cell = next(
        c
        for c in experiment.grid(experiment.preset("smoke"), [0])
        if (c.key["protocol"], c.key["method"]) == ("fair", "lc_phase_only")
    )
    rows = experiment.run_cell(cell, SimpleNamespace(settings=settings))
    keys, queries, at = keys_and_queries("lc_phase_only", settings, "fair", 0)

    def seen(keys):
        logits = queries @ keys.T / math.sqrt(128)
        return [row[: p + 1] for row, p in zip(logits, at.tolist(), strict=True)]

    clean, rounded = seen(keys), seen(quantize(keys, 4))
    assert rows[0]["logit_std"] == pytest.approx(
        float(sum(map(torch.std, clean)) / len(at)), rel=1e-5
    )
    assert rows[0]["logit_max"] == pytest.approx(float(torch.cat(clean).abs().max()), rel=1e-5)
    error = (torch.cat(rounded) - torch.cat(clean)).norm() / torch.cat(clean).norm()
    assert rows[1]["step"] == "tensor"
    assert rows[1]["logit_error"] == pytest.approx(float(error), rel=1e-5)


def test_the_spread_of_all_keys_is_that_of_the_last_position():
    logits = torch.randn(1, 9, generator=torch.Generator().manual_seed(0))
    assert float(spread(logits, torch.tensor([8]))) == pytest.approx(float(logits.std()))


def cache_rows(lc_error: float, token_error: float):
    errors = {"lc": lc_error, "raw": 0.02, "scaled": 0.02}
    rows = []
    for protocol in ("paper", "fair"):
        for method, error in errors.items():
            for seed in (0, 1, 2):
                key = {"protocol": protocol, "method": method, "seed": seed}
                norm = 2.0 if method == "lc" else 900.0
                rows.append({**key, "bits": 0, "norm": norm, "norm_at_L": 1.0})
                jitter = 1e-5 * seed
                rows.append({**key, "bits": 8, "step": "tensor", "key_error": error + jitter})
                own = token_error if method == "lc" else 0.01
                rows.append({**key, "bits": 8, "step": "token", "key_error": own})
    return rows


def judge(rows):
    return cache_claim(Result(rows, {"settings": {"length": 1024, "positions": 32768}}))


@pytest.mark.parametrize(
    ("lc", "token", "outcome"),
    [
        (0.01, 0.005, "reproduced"),
        (0.01, 0.01, "reproduced in part"),
        (0.03, 0.005, "contradicted"),
    ],
)
def test_the_rule_for_caches(lc, token, outcome):
    found = judge(cache_rows(lc, token))
    assert (found.claim, found.outcome, found.evidence.seeds) == ("P-F1", outcome, 3)


def test_incomplete_rows_for_caches_settle_nothing():
    rows = cache_rows(0.01, 0.005)
    one = [r for r in rows if not (r["method"] == "lc" and r["seed"] > 0)]
    lost = [{**r, "key_error": None} if r.get("step") == "tensor" else r for r in rows]
    assert {judge(r).outcome for r in (one, lost)} == {"undecided"}
    for left in ([r for r in rows if r.get("step") != "token"], rows[: len(rows) // 2]):
        assert judge(left).outcome == "not tested"
