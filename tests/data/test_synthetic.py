"""The toy language: the same everywhere, and exactly as predictable as its rule says."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch

from pjrope.data import toy_ideal_nats, toy_language
from pjrope.data.synthetic import RECENT_WEIGHTS

RULE = {"alphabet": 5, "period": 7, "p_recent": 0.3, "p_period": 0.5}


def naive_probabilities(past: list[int], rule: dict[str, float]) -> list[float]:
    """Next-symbol distribution, term by term: the rule as its docstring states it."""
    alphabet = int(rule["alphabet"])
    lags = [(d, rule["p_recent"] * w / 15) for d, w in zip((1, 2, 3, 4), (8, 4, 2, 1), strict=True)]
    lags.append((int(rule["period"]), rule["p_period"]))
    rest = 1 - rule["p_recent"] - rule["p_period"]
    p = [rest / alphabet] * alphabet
    for lag, weight in lags:
        if lag <= len(past):
            p[past[-lag]] += weight
        else:
            p = [value + weight / alphabet for value in p]
    return p


def test_bytes_are_pinned() -> None:
    symbols = toy_language(10_000, seed=0)
    assert symbols.dtype == torch.uint8
    digest = hashlib.sha256(bytes(symbols.tolist())).hexdigest()
    assert digest == "06090ae6742a370c5a50413fb3abe73f3713eeeff4656fc5d8c05ddee7bd4c09"


def test_seed_and_length() -> None:
    assert torch.equal(toy_language(500, seed=3), toy_language(2000, seed=3)[:500])
    assert not torch.equal(toy_language(500, seed=3), toy_language(500, seed=4))


def test_ideal_score_is_the_rule_scored_naively() -> None:
    tokens = toy_language(400, seed=1, **RULE)
    text = tokens.tolist()
    naive = [-math.log(naive_probabilities(text[:t], RULE)[text[t]]) for t in range(len(text))]
    torch.testing.assert_close(
        toy_ideal_nats(tokens, **RULE), torch.tensor(naive).double(), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("rule", [RULE, {**RULE, "p_recent": 0.6, "p_period": 0.1, "period": 3}])
def test_sequence_follows_the_rule(rule: dict[str, float]) -> None:
    # If the rule's distribution is the true one, surprise minus entropy has mean zero.
    tokens = toy_language(20_000, seed=2, **rule)
    text = tokens.tolist()
    entropy = []
    for t in range(len(text)):
        p = naive_probabilities(text[max(0, t - 8) : t] if t >= 8 else text[:t], rule)
        assert sum(p) == pytest.approx(1)
        entropy.append(-sum(x * math.log(x) for x in p))
    excess = toy_ideal_nats(tokens, **rule) - torch.tensor(entropy).double()
    assert abs(excess.mean()) < 4 * excess.std() / len(text) ** 0.5


def test_any_other_rule_scores_worse() -> None:
    tokens = toy_language(20_000, seed=5)
    best = toy_ideal_nats(tokens).mean()
    assert best < 0.6 * math.log(16)
    for other in ({"period": 11}, {"p_recent": 0.35, "p_period": 0.45}, {"p_recent": 0.6}):
        rule = {"p_period": 0.35, **other}
        assert toy_ideal_nats(tokens, **rule).mean() > best + 0.004


def test_symbols_that_may_be_copied_are_the_declared_ones() -> None:
    # Without uniform draws every symbol must equal one of its five sources.
    tokens = toy_language(3000, seed=6, p_recent=0.5, p_period=0.5)
    sources = torch.stack([tokens[12:] == tokens[12 - d : -d] for d in (1, 2, 3, 4, 12)])
    assert sources.any(dim=0).all()
    assert RECENT_WEIGHTS == (8, 4, 2, 1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"length": 0}, "length is 0"),
        ({"alphabet": 1}, "alphabet is 1"),
        ({"alphabet": 257}, "alphabet is 257"),
        ({"period": 0}, "period is 0"),
        ({"p_recent": 0.8}, "p_recent 0.8"),
        ({"p_period": -0.1}, "p_period -0.1"),
    ],
)
def test_bad_values_are_named(change: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        toy_language(**{"length": 10, "seed": 0, **change})
