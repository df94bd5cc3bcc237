"""The counted cost of each path: closed forms where they are plain, and the order that is argued."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pjrope.bench.cost import DEVICES, PATHS, Shape, cost, least_seconds

LONG = Shape(32768)


def test_two_tokens_counted_by_hand():
    one = Shape(2, heads=1, kv_heads=1, channels=4, bytes=2)
    assert one.pairs == 3
    found = cost("flash", one)
    assert found.operations == 3 * 2 * 2 * 4
    assert found.bytes == 2 * 4 * 2 * 4 + 4 * 2  # q, k, v and the output; one logarithm a row
    assert (found.launches, found.atomics, found.in_half) == (1, 0, True)
    assert cost("triton", one).bytes == found.bytes + 4 * 2  # and the table


def test_a_table_costs_next_to_nothing_beside_no_bias():
    plain, table = cost("flash", LONG), cost("triton", LONG)
    assert table.operations == plain.operations
    assert table.bytes / plain.bytes < 1.02


@pytest.mark.parametrize("train", [False, True])
def test_going_head_by_head_starts_thousands_of_kernels(train):
    assert cost("head by head", LONG, train=train).launches >= 20_000
    assert cost("blocks", LONG, train=train).launches < 1000
    assert cost("triton", LONG, train=train).launches <= 4


def test_the_gradient_of_the_table_is_one_add_for_each_lag_of_a_tile():
    found = cost("triton", LONG, train=True)
    assert found.atomics * LONG.tile == pytest.approx(LONG.pairs, rel=1e-6)
    assert cost("triton, same bits", LONG, train=True).atomics == 0
    ratio = cost("triton, same bits", LONG, train=True).operations / found.operations
    assert ratio == pytest.approx(11 / 9)


@pytest.mark.parametrize("device", DEVICES)
def test_the_order_of_choice(device):
    seconds = {p: least_seconds(cost(p, LONG, train=True), DEVICES[device]) for p in PATHS}
    assert seconds["flash"] <= seconds["triton"] <= seconds["triton, same bits"]
    assert seconds["triton, same bits"] < seconds["fold"] < seconds["blocks"]
    assert seconds["blocks"] <= min(seconds["dense"], seconds["head by head"])


def test_memory_of_a_dense_bias_grows_with_the_square():
    short, long = (cost("dense", replace(LONG, n=n)).bytes for n in (8192, 16384))
    assert long / short == pytest.approx(4, rel=0.05)


def test_unknown_paths():
    with pytest.raises(ValueError, match="warp"):
        cost("warp", LONG)
