"""Summaries that a change of gauge cannot move, beside gates that it can."""

from __future__ import annotations

import json

import pytest
import torch

from pjrope.diagnostics import (
    GAUGE_DEPENDENT,
    GAUGE_FREE,
    change_from,
    effective_mass,
    initial_kernel,
    kernels_by_layer,
    regauge,
    sector_functions,
    sector_summary,
)
from pjrope.kernels import Affine, ALiBi, FourierJet, LightCone, NoPE, PJBias, PJInit, RoPE
from pjrope.models import Decoder, DecoderConfig

LAGS = torch.arange(256)
EVEN, LOPSIDED = [1 / 3, 1 / 3, 1 / 3], [0.975, 0.018, 0.007]


def union(signed=False, **more):
    slope = -1.5 if signed else 2.0
    init = PJInit(slope=slope, zeta_scale=0.5)
    return PJBias(2, 64, max_order=3, signed_slope=signed, init=init, **more)


def find(rows, **where):
    (row,) = [r for r in rows if all(r[k] == v for k, v in where.items())]
    return row


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("precise", "tolerance"), [(True, 1e-12), (False, 1e-6)])
def test_gauge_freedom(signed, precise, tolerance):
    """Two settings with gates far apart are one function: its summaries are equal, gates are not."""
    before = union(signed).double() if precise else union(signed)
    after = regauge(before, LOPSIDED)
    assert type(after) is PJBias and after is not before
    torch.testing.assert_close(
        after.lag_bias(LAGS), before.lag_bias(LAGS), rtol=0, atol=max(tolerance, 1e-12)
    )
    torch.testing.assert_close(after.gates.double()[0].tolist(), LOPSIDED, rtol=0, atol=1e-6)
    old, new = (sector_summary(k, [64, 256]) for k in (before, after))
    for a, b in zip(old, new, strict=True):
        for key in GAUGE_FREE:
            assert b[key] == pytest.approx(a[key], abs=tolerance), (key, a)
    for key in GAUGE_DEPENDENT:
        row = {"head": 0, "sector": "affine", "order": None, "length": 64}
        assert abs(find(new, **row)[key] - find(old, **row)[key]) > 0.3
    # And back, per head.
    again = regauge(after, torch.tensor([EVEN, EVEN]))
    torch.testing.assert_close(again.gate_logits.softmax(-1), before.gates, rtol=0, atol=1e-6)


def test_gauge_freedom_of_the_numbers_in_the_protocol():
    printed = [0.976, 0.018, 0.007]  # rounded: they sum to 1.001
    before = union().double()
    after = regauge(before, printed)
    torch.testing.assert_close(after.gates[1].tolist(), printed, rtol=0, atol=1e-3)
    change = (after.lag_bias(LAGS) - before.lag_bias(LAGS)).abs().max()
    assert float(change.detach()) < 1e-7
    masses = zip(effective_mass(before).values(), effective_mass(after).values(), strict=True)
    for a, b in masses:
        torch.testing.assert_close(a, b, rtol=1e-12, atol=0)


def test_regauge_leaves_the_kernel_alone_and_keeps_what_trains():
    before = union().freeze("omega")
    state = {n: t.clone() for n, t in before.state_dict().items()}
    summed = RoPE(8) + before
    after = regauge(summed, LOPSIDED)
    assert all(torch.equal(t, state[n]) for n, t in before.state_dict().items())
    frozen = [n for n, p in after.named_parameters() if not p.requires_grad]
    assert frozen == ["parts.1.omega"]
    torch.testing.assert_close(after.lag_bias(LAGS), before.lag_bias(LAGS), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "gates", "says"),
    [
        (PJBias(2, 64, sectors=("fj",)), [1.0], "whose gate is 1 exactly"),
        (FourierJet(2, 64), [1.0], "FourierJet holds 0 PJBias"),
        (PJBias(2, 64) + PJBias(2, 64), EVEN, "Sum holds 2 PJBias"),
        (PJBias(2, 64), [0.5, 0.5], r"gates have shape \(2,\), \(3,\) or \(2, 3\)"),
        (PJBias(2, 64), [0.5, 0.6, 0.1], "numbers > 0 with sum 1"),
        (PJBias(2, 64), [1.0, 0.0, 0.0], "numbers > 0 with sum 1"),
        (PJBias(2, 64), [float("nan"), 0.5, 0.5], "numbers > 0 with sum 1"),
    ],
)
def test_regauge_says_why_not(kernel, gates, says):
    with pytest.raises(ValueError, match=says):
        regauge(kernel, gates)


def test_summary_numbers_are_those_of_the_functions():
    kernel = union()
    rows = sector_summary(kernel, [64, 256])
    json.dumps(rows)
    assert len(rows) == 2 * 2 * (1 + 4 + 1 + 1 + 4 + 1)  # heads, windows, sectors with their orders
    functions = sector_functions(kernel, LAGS)
    torch.testing.assert_close(sum(functions.values()), kernel.lag_bias(LAGS))
    functions["total"] = kernel.lag_bias(LAGS)
    for name, values in functions.items():
        for length in (64, 256):
            for head in range(2):
                y = values[head, :length].detach()
                row = find(rows, head=head, sector=name, order=None, length=length)
                want = ((y - y.mean()) ** 2).mean().sqrt()
                assert row["rms"] == pytest.approx(float(want), rel=1e-9)
    gate = kernel.gate("lc")[1].item()
    lc = kernel.sector_components(LAGS)["lc"][1, 2].detach()
    row = find(rows, head=1, sector="lc", order=2, length=256)
    assert row["rms"] == pytest.approx(gate * float(lc.std(correction=0)), rel=1e-6)
    assert row["mass"] == pytest.approx(effective_mass(kernel)["lc"][1, 2].item())
    assert row["omega_cycles"] == pytest.approx(17, rel=1e-6)
    assert row["slope"] is None and row["slope_per_token"] is None
    row = find(rows, head=0, sector="affine", order=None, length=64)
    assert row["gate"] == pytest.approx(1 / 3)
    assert row["slope"] == pytest.approx(2.0)
    assert row["slope_per_token"] == pytest.approx(2 / 3 / 64)
    assert row["mass"] is None


def test_a_constant_bias_has_no_size():
    kernel = FourierJet(1, 64, max_order=0, damping=0.0, omega=torch.zeros(1), zeta_scale=1.0)
    (row,) = [r for r in sector_summary(kernel, [64]) if r["order"] == 0]
    assert row["mass"] > 0.1 and row["rms"] < 1e-6


def test_recency_without_a_union():
    (row, total) = sector_summary(Affine(1, 64, slope=2.0), [64])
    assert (row["gate"], total["sector"], total["gate"]) == (1.0, "total", None)
    assert row["slope_per_token"] == pytest.approx(2 / 64)
    alibi = sector_summary(RoPE(8) + ALiBi(8), [64])
    assert find(alibi, head=0, sector="affine")["slope_per_token"] == 0.5
    assert find(alibi, head=0, sector="affine")["slope"] is None
    both = sector_summary(LightCone(1, 64) + Affine(1, 64), [64])
    assert {r["sector"] for r in both} == {"lc", "affine", "total"}


def test_frequencies_of_a_light_cone_of_its_own_are_its_own():
    kernel = union(share_omega=False)
    with torch.no_grad():
        kernel.lc_omega.mul_(0.5)
    rows = sector_summary(kernel, [64])
    cycles = {s: find(rows, head=1, sector=s, order=0)["omega_cycles"] for s in ("fj", "lc")}
    assert cycles == {"fj": pytest.approx(17, rel=1e-6), "lc": pytest.approx(8.5, rel=1e-6)}


@pytest.mark.parametrize("lengths", [[], [1], [64, 0], [16.0], [True, 4]])
def test_windows_that_are_none(lengths):
    with pytest.raises(ValueError, match="windows of 2 tokens or more"):
        sector_summary(union(), lengths)


def test_one_window_is_a_list_of_one():
    with pytest.raises(ValueError, match=r"lengths is 16: a list of windows is needed, \[16\]"):
        sector_summary(union(), 16)


def test_kernels_without_sectors():
    for kernel in (NoPE(), RoPE(8)):
        with pytest.raises(ValueError, match="has no sector: a PJBias"):
            sector_summary(kernel, [64])


def test_initial_kernel_is_the_start_and_change_is_measured_from_it():
    kernel = union()
    assert all(
        torch.equal(a, b)
        for a, b in zip(
            kernel.state_dict().values(), initial_kernel(kernel).state_dict().values(), strict=True
        )
    )
    with torch.no_grad():
        kernel.lc_zeta_re.mul_(3)
        kernel.lc_zeta_im.mul_(3)
        kernel.gate_logits[:, 1] += 1.0
    rows = change_from(initial_kernel(kernel), kernel)
    json.dumps(rows)
    assert {row["length"] for row in rows} == {64}
    lc = find(rows, head=0, sector="lc", order=2)
    shrunk = lc["gate"] / lc["gate_before"]
    assert lc["gate_before"] == pytest.approx(1 / 3) and shrunk < 0.7
    assert lc["mass_ratio"] == pytest.approx(3 * shrunk, rel=1e-5)
    assert lc["rms_ratio"] == pytest.approx(3 * shrunk, rel=1e-5)
    affine = find(rows, head=1, sector="affine")
    assert affine["slope_per_token"] > 1.5 * affine["slope_per_token_before"]
    assert affine["mass_ratio"] is None
    assert initial_kernel(kernel.double()).gate_logits.dtype == torch.float64


def test_nothing_before_has_no_ratio():
    before = PJBias(1, 64, init=PJInit(zeta_scale=0.0))
    after = PJBias(1, 64, init=PJInit(zeta_scale=0.1))
    row = find(change_from(before, after), sector="fj", order=1)
    assert row["mass"] > 0 and row["mass_ratio"] is None and row["rms_ratio"] is None


def test_change_between_unlike_kernels():
    with pytest.raises(ValueError, match="differ in layers, heads, sectors or orders"):
        change_from(PJBias(2, 64), PJBias(2, 64, max_order=1))
    with pytest.raises(ValueError, match=r"pass lengths=\[...\]"):
        change_from(ALiBi(2), ALiBi(2))
    assert len(change_from(ALiBi(2), ALiBi(2), [64])) == 4


def test_whole_models_layer_by_layer():
    config = DecoderConfig(5, 16, 3, 2, 64, kernel=(RoPE(8) + PJBias(2, 64)).spec)
    model = Decoder(config, seed=1)
    found = kernels_by_layer(model)
    assert [n for n, _ in found] == [0, 1, 2]
    assert all(k is b.attention.kernel for (_, k), b in zip(found, model.blocks, strict=True))
    with torch.no_grad():
        found[2][1].parts[1].fj_zeta_re.mul_(0)
        found[2][1].parts[1].fj_zeta_im.mul_(0)
    rows = sector_summary(model, [64])
    assert {r["layer"] for r in rows} == {0, 1, 2}
    assert [r["rms"] > 0 for r in rows if (r["head"], r["sector"], r["order"]) == (0, "fj", 1)] == [
        *(True, True, False)
    ]
    changed = change_from(Decoder(config, seed=1), model)
    moved = {r["layer"] for r in changed if r["rms"] != r["rms_before"]}
    assert moved == {2}
    with pytest.raises(ValueError, match="Linear holds no AttentionLayer"):
        kernels_by_layer(torch.nn.Linear(2, 2))
