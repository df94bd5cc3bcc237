"""The needle task asks what it says, and its guessing lines are right."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from pjrope.experiments import get, run
from pjrope.experiments.needle_retrieval import (
    BOS,
    QUERY,
    SPECIAL,
    majority,
    needle_sampler,
    pair_places,
    worth,
)
from pjrope.training import stream

PAIRS, KEYS, VALUES, LENGTH = 4, 8, 8, 40


def _roles(row: list[int]) -> tuple[list[int], list[int]]:
    """Places of keys and of values before the question, by a slow scan."""
    body = row[:-2]
    keys = [i for i, t in enumerate(body) if SPECIAL <= t < SPECIAL + KEYS]
    values = [i for i, t in enumerate(body) if t >= SPECIAL + KEYS]
    return keys, values


def test_a_scan_finds_the_answer_next_to_the_key():
    tokens, labels = needle_sampler(PAIRS, KEYS, VALUES)(stream(0), 200, LENGTH)
    for row, label in zip(tokens.tolist(), labels.flatten().tolist(), strict=True):
        keys, values = _roles(row)
        assert len(keys) == PAIRS and [k + 1 for k in keys] == values, "pairs do not overlap"
        assert len({row[k] for k in keys}) == PAIRS, "keys of a sequence differ"
        assert row[0] == BOS and row[-2] == QUERY and keys[0] >= 1 and values[-1] <= LENGTH - 4
        (place,) = [k for k in keys if row[k] == row[-1]]
        assert row[place + 1] == label


def test_a_distance_is_kept_and_without_one_all_occur():
    for distance in (4, 17, LENGTH - 2):
        tokens, _ = needle_sampler(PAIRS, KEYS, VALUES, distance)(stream(1), 20, LENGTH)
        assert bool((tokens[:, LENGTH - 1 - distance] == tokens[:, -1]).all())
    places = pair_places(stream(2), 3000, LENGTH, PAIRS, None)
    assert set((LENGTH - 1 - places[:, 0]).tolist()) == set(range(4, LENGTH - 1))
    for distance in (3, LENGTH - 1):
        with pytest.raises(ValueError, match="it is from 4 to 38"):
            pair_places(stream(0), 1, LENGTH, PAIRS, distance)
    with pytest.raises(ValueError, match="hold at most 17"):
        pair_places(stream(0), 1, LENGTH, 18, None)


def test_most_crowded_sequences_still_hold_all_pairs():
    tokens, _ = needle_sampler(8, 8, VALUES)(stream(0), 300, 22)
    assert all(len(_roles(row)[0]) == 8 == len(_roles(row)[1]) for row in tokens.tolist())


def test_labels_are_balanced_and_majority_counts_values():
    tokens, labels = needle_sampler(PAIRS, KEYS, VALUES)(stream(3), 4000, LENGTH)
    shares = torch.bincount(labels.flatten() - SPECIAL - KEYS, minlength=VALUES) / 4000
    assert float((shares - 1 / VALUES).abs().max()) < 0.03
    most = [
        max(Counter(row[i] for i in _roles(row)[1]).values()) / PAIRS for row in tokens.tolist()
    ]
    assert majority(tokens, KEYS) == pytest.approx(sum(most) / len(most))


def _rows(accuracy: dict[str, float], seeds: int = 3) -> list[dict]:
    return [
        {"method": m, "seed": s, "chance": 0.125, "majority": line, "accuracy": a + 0.001 * s}
        for m, a in accuracy.items()
        for s in range(seeds)
        for line in (0.4, 0.5)
    ]


def test_worth_tells_the_guessing_lines_and_who_passes_them():
    first, second = worth(_rows({"rope": 0.9, "alibi": 0.46}))
    assert "0.125" in first and "0.450" in first
    assert "retrieving: rope." in second
    assert "No method does better" in worth(_rows({"rope": 0.3, "alibi": 0.46}))[1]
    assert len(worth(_rows({"rope": 0.9}, seeds=1))) == 1 and worth([]) == []


def test_smoke_runs_at_every_distance_that_fits():
    settings = get("needle_retrieval").presets["smoke"].settings
    result = run("needle_retrieval", store=False, progress=False)
    for length in settings["lengths"]:
        seen = {r["distance"] for r in result.rows if r["length"] == length}
        assert seen == {d for d in settings["distances"] if d <= length - 2}
    assert all(0 <= r["accuracy"] <= 1 for r in result.rows)
    assert all(r["majority"] > r["chance"] == 0.25 for r in result.rows)
