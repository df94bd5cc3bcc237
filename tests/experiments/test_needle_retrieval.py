"""The needle task asks what it says, and its guessing lines are right."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from pjrope.experiments import get, run
from pjrope.experiments.engine.result import Result
from pjrope.experiments.sequences.language import (
    BOS,
    QUERY,
    SPECIAL,
    needle_sampler,
    pair_places,
)
from pjrope.experiments.sequences.needle_retrieval import by_rank, majority, retrieval_rule
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


def test_readers_by_rank_see_the_order_of_values():
    tokens, labels = needle_sampler(PAIRS, KEYS, VALUES, distance=4)(stream(4), 300, LENGTH)
    last, *others = by_rank(tokens, labels, KEYS)
    assert last == 1, "nothing fits behind a pair at distance 4"
    assert all(abs(x - 1 / VALUES) < 0.06 for x in others), "other values agree by chance alone"
    tokens, labels = needle_sampler(PAIRS, KEYS, VALUES)(stream(5), 2000, LENGTH)
    slow = [
        [row[_roles(row)[1][-rank]] == label for rank in range(1, PAIRS + 1)]
        for row, label in zip(tokens.tolist(), labels.flatten().tolist(), strict=True)
    ]
    want = [sum(column) / len(column) for column in zip(*slow, strict=True)]
    assert by_rank(tokens, labels, KEYS) == pytest.approx(want)


EXAMS = {"pairs": PAIRS, "keys": KEYS, "values": VALUES, "sequences": 200}


def _result(accuracy: dict[str, float], seeds: int = 3, distances=(4, 20)) -> Result:
    rows = [
        {"method": m, "seed": s, "chance": 1 / VALUES, "accuracy": a + 0.001 * s}
        | {"length": LENGTH, "distance": distance}
        for m, a in accuracy.items()
        for s in range(seeds)
        for distance in distances
    ]
    return Result(rows, {"settings": EXAMS})


def test_worth_tells_the_guessing_lines_and_who_passes_them():
    # Of two exams, a reader of the last value passes the one that asks for the nearest pair.
    first, second = retrieval_rule(_result({"rope": 0.9, "alibi": 0.5}))
    assert "0.125" in first and "names the last value" in first
    assert "retrieving: rope." in second and "closest is rope" in second
    assert "No method does better" in retrieval_rule(_result({"rope": 0.3, "alibi": 0.5}))[1]
    assert (
        len(retrieval_rule(_result({"rope": 0.9}, seeds=1))) == 1
        and retrieval_rule(_result({})) == []
    )


def test_naming_what_stands_nearest_is_no_retrieval():
    near = _result({"damped": 0.95}, distances=(4,))
    assert (
        "the last value: 1.000" in retrieval_rule(near)[0]
        and "No method" in retrieval_rule(near)[1]
    )


def test_smoke_runs_at_every_distance_that_fits():
    settings = get("needle_retrieval").presets["smoke"].settings
    result = run("needle_retrieval", store=False, progress=False)
    for length in settings["lengths"]:
        seen = {r["distance"] for r in result.rows if r["length"] == length}
        assert seen == {d for d in settings["distances"] if d <= length - 2}
    assert all(0 <= r["accuracy"] <= 1 for r in result.rows)
    assert all(r["majority"] > r["chance"] == 0.25 for r in result.rows)
