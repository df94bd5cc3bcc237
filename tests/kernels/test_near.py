"""Near-lag tables and T5 buckets, and the two propositions about the root 0."""

from __future__ import annotations

import pytest
import torch

from pjrope.diagnostics import (
    Part,
    parts_of,
    regauge,
    sector_functions,
    sector_summary,
    sectors_of,
    without,
)
from pjrope.kernels import (
    Affine,
    ALiBi,
    NearTable,
    PJBias,
    T5Bias,
    kernel_from_spec,
    reference,
    t5_buckets,
)
from pjrope.kernels.algebra import Root, difference, fit_jets, hankel, rank, residual
from tests.golden import golden
from tests.kernels.catalogue import filled

T5 = golden("t5_buckets")["rows"]


@pytest.mark.parametrize("row", T5, ids=lambda row: f"{row['buckets']}-{row['far']}")
def test_t5_buckets_golden(row):
    buckets = t5_buckets(row["buckets"], row["far"])
    lags = torch.tensor(row["lags"]).clamp(max=row["far"])
    assert buckets[lags].tolist() == row["bucket"]
    oracle = [reference.t5_bucket(d, row["buckets"], row["far"]) for d in row["lags"]]
    assert oracle == row["bucket"]


def test_t5_buckets_are_those_of_a_model_in_use():
    attention = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    lags = torch.arange(300)
    theirs = attention._relative_position_bucket(
        -lags, bidirectional=False, num_buckets=32, max_distance=128
    )
    assert t5_buckets(32, 128)[lags.clamp(max=128)].tolist() == theirs.tolist()


def test_a_table_starts_at_nothing_and_is_read_by_the_lag():
    kernel = NearTable(2, 3)
    assert bool((kernel.lag_bias(torch.arange(9)) == 0).all())
    with torch.no_grad():
        kernel.table.copy_(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert kernel.lag_bias(torch.tensor([-1, 0, 2, 3, 900])).tolist() == [
        [2.0, 1.0, 3.0, 0.0, 0.0],
        [5.0, 4.0, 6.0, 0.0, 0.0],
    ]


def test_t5_bias_is_constant_beyond_far():
    kernel = filled(T5Bias(2, buckets=8, far=40))
    bias = kernel.lag_bias(torch.arange(400))
    assert bool((bias[:, kernel.last_step :] == kernel.table[:, -1:]).all())
    assert bool((bias[:, kernel.last_step - 1] != kernel.table[:, -1]).all())
    again = kernel_from_spec(kernel.spec)
    again.load_state_dict(kernel.state_dict())
    assert torch.equal(again.lag_bias(torch.arange(400)), bias)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: NearTable(2, 0), "size is 0"),
        (lambda: NearTable(0, 2), "heads is 0"),
        (lambda: T5Bias(2, buckets=1), "buckets is 1"),
        (lambda: T5Bias(2, buckets=32, far=16), "far is 16, an integer >= 17"),
    ],
)
def test_counts_that_do_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# The sector of the union -------------------------------------------------------------------------


def union(**more):
    return filled(PJBias(2, 16, sectors=("affine", "near"), near_size=3, **more))


def test_the_sector_is_a_table_under_its_gate_beside_the_others():
    kernel, lags = union(), torch.arange(20)
    gates = kernel.gates.detach()
    line, table = Affine(2, 16).lag_bias(lags), NearTable(2, 3)
    with torch.no_grad():
        table.table.copy_(kernel.near_table)
    want = gates[:, :1] * line + gates[:, 1:] * table.lag_bias(lags)
    torch.testing.assert_close(kernel.lag_bias(lags), want)
    assert kernel.gate("near").tolist() == [0.5, 0.5] and kernel.gate("fj").tolist() == [0, 0]


def test_a_union_without_it_is_what_it_was_and_says_nothing_of_it():
    plain = PJBias(2, 16)
    assert plain.sectors == ("fj", "affine", "lc") and "near_size" not in plain.spec
    assert union().spec["near_size"] == 3
    assert kernel_from_spec(union().spec).near_size == 3
    with pytest.raises(ValueError, match="near_size is 0"):
        PJBias(2, 16, near_size=0)
    with pytest.raises(ValueError, match=r"sectors are .*'near'"):
        PJBias(2, 16, sectors=("far",))


def test_its_gate_mass_size_and_cost_are_told_like_the_others():
    kernel, lags = union(), torch.arange(16)
    row = next(r for r in sector_summary(kernel, [16]) if r["sector"] == "near" and r["head"] == 0)
    table = kernel.near_table.detach()[0]
    assert row["gate"] == pytest.approx(0.5)
    assert row["mass"] == pytest.approx(0.5 * float(table.square().mean().sqrt()))
    function = sector_functions(kernel, lags)["near"][0]
    assert row["rms"] == pytest.approx(float(function.detach().std(correction=0)), rel=1e-5)
    assert Part("near") in parts_of(kernel)
    left = without(kernel, Part("near")).lag_bias(lags)
    torch.testing.assert_close(left, sector_functions(kernel, lags)["affine"])
    assert list(sectors_of(ALiBi(2) + NearTable(2, 3))) == ["affine", "near"]


def test_other_gates_give_the_same_function():
    kernel, lags = union().double(), torch.arange(20)
    other = regauge(kernel, [0.9, 0.1])
    assert other.gate("near").tolist() == pytest.approx([0.1, 0.1])
    torch.testing.assert_close(other.lag_bias(lags), kernel.lag_bias(lags))


# The root 0 ------------------------------------------------------------------------------------


def test_a_power_of_the_shift_kills_a_table_and_its_hankel_rank_is_its_size():
    values = filled(NearTable(1, 5)).lag_bias(torch.arange(40))[0].detach().double()
    assert bool((difference(values, 0, 5) == 0).all())
    assert float(difference(values, 0, 4).abs().max()) > 0
    assert rank(hankel(values)) == 5
    both = ALiBi(1).lag_bias(torch.arange(40))[0] + values
    assert float(residual(both, [Root(0, 5), Root(1, 2)]).abs().max()) < 1e-12


@pytest.mark.parametrize("size", [1, 3, 6])
def test_a_table_has_no_fold_of_fixed_length(size):
    # Proposition (a). Let t_m be the last entry that is not 0. Queries at i = (k+1)n and keys at
    # j = (k+1)n - m lie m apart for equal k and n or more apart for earlier keys, so what a fold must
    # give there is t_m on the diagonal and 0 below it. Whatever it gives above, where keys lie in
    # the future, that matrix has full rank: N tokens need N/n channels.
    table = filled(NearTable(1, size))
    m, pairs = size - 1, 12
    i = size * torch.arange(1, pairs + 1)
    lag = i[:, None] - (i - m)[None, :]
    bias = table.lag_bias(lag.flatten())[0].view(pairs, pairs).detach().double()
    past = torch.ones(pairs, pairs, dtype=torch.bool).tril()
    assert torch.equal(bias[past & ~torch.eye(pairs, dtype=torch.bool)], torch.zeros(66).double())
    for seed in range(3):
        future = torch.randn(pairs, pairs, generator=torch.Generator().manual_seed(seed)).double()
        assert rank(torch.where(past, bias, future)) == pairs


@pytest.mark.parametrize("pairs", [2, 4, 8])
def test_a_ladder_of_turns_needs_as_many_roots_as_the_window_has_lags(pairs):
    # Proposition (b). A function with K roots other than 0 that vanishes at K lags in a row
    # vanishes at all of them. So K roots that show a table of n lags and then nothing up to lag W
    # need K > W - n, and where they fit the window they ring beyond it.
    window, size = 2 * pairs, 1
    table = torch.zeros(window, dtype=torch.float64)
    table[:size] = 1.0
    turns = torch.exp(2j * torch.pi * torch.arange(window).double() / window).tolist()
    amplitudes, error = fit_jets(table, [Root(z) for z in turns])
    assert error < 1e-12  # as many roots as lags fit anything
    far = torch.tensor(turns)[None, :] ** torch.arange(window, 2 * window)[:, None]
    assert float((far.to(amplitudes.dtype) @ amplitudes).abs().max()) > 0.99  # it comes back whole
    for fewer in range(1, window):
        assert fit_jets(table, [Root(z) for z in turns[:fewer]])[1] > 1e-3
