"""A model without a part: its loss is that of a model built without it, and it comes back to the bit."""

from __future__ import annotations

import pytest
import torch

from pjrope.data import evaluation_windows, toy_language
from pjrope.diagnostics import Part, leave_one_out_loss, left_out, parts_of, without
from pjrope.kernels import (
    Affine,
    ALiBi,
    FourierJet,
    JordanRoPE,
    LightCone,
    NoPE,
    PJBias,
    PJInit,
    PositionKernel,
    RoPE,
    direct_sum,
)
from pjrope.models import Decoder, DecoderConfig
from pjrope.training import evaluate

WINDOWS = evaluation_windows(toy_language(3000, seed=2), segments=6, scored=16, longest=64)
LAGS = torch.arange(64)
PJ = PJBias(2, 16, init=PJInit(zeta_scale=1.0, slope=4.0))


class Wave(PositionKernel, register=False):
    """A bias that has no sectors."""

    bias_heads = 2

    def lag_bias(self, lags):
        return torch.cos(0.3 * lags.double()).expand(2, -1)


def model(kernel=None, seed=0, layers=2):
    config = DecoderConfig(16, 16, layers, 2, 16, kernel=None if kernel is None else kernel.spec)
    return Decoder(config, seed=seed)


def with_kernels(kernel, seed=0):
    """A model whose layers hold this kernel, registered or not."""
    found = model(seed=seed)
    for block in found.blocks:
        block.attention.kernel = kernel
    return found


KERNELS = {
    "pj": PJ,
    "fourier_jet": FourierJet(2, 16, zeta_scale=1.0),
    "light_cone": LightCone(2, 16, zeta_scale=1.0),
    "affine": Affine(2, 16),
    "lightcone_affine": Affine(2, 16, coordinate="lightcone"),
    "alibi": ALiBi(2),
    "rope": RoPE(8),
    "jordan": JordanRoPE(8, 2, 16),
    "lag": JordanRoPE(8, 2, 16, form="lag"),
    "rope_pj": RoPE(8) + PJ,
    "rope_alibi_jets": RoPE(8) + ALiBi(2) + FourierJet(2, 16, zeta_scale=1.0),
    "direct_sum": direct_sum(RoPE(4) + ALiBi(2), JordanRoPE(4, 2, 16)),
    "two_jets": FourierJet(2, 16, max_order=0) + FourierJet(2, 16) + PJ,
    "wave": RoPE(8) + Wave(),
}


@pytest.mark.parametrize("name", KERNELS)
def test_every_part_can_be_left_out_and_comes_back(name):
    trained = with_kernels(KERNELS[name])
    trained.blocks[1].eval()  # a mixed state: it must come back as it was
    before = [layer.attention.kernel for layer in trained.blocks]
    state = {n: t.clone() for n, t in trained.state_dict().items()}
    modes = [m.training for m in trained.modules()]
    rows = leave_one_out_loss(trained, WINDOWS, lengths=[64], parts=parts_of(trained))
    assert [r["left_out"] for r in rows] == ["nothing", *map(str, parts_of(trained))]
    assert all(abs(r["change"]) > 1e-9 for r in rows[1:] if r["order"] is None), rows
    assert [layer.attention.kernel for layer in trained.blocks] == before
    assert list(trained.state_dict()) == list(state)
    assert all(torch.equal(t, state[n]) for n, t in trained.state_dict().items())
    assert [m.training for m in trained.modules()] == modes


def test_whole_model_and_a_model_made_without():
    """Left out means absent: the numbers are those of models that never had the part."""
    whole = model(RoPE(8) + ALiBi(2))
    rows = leave_one_out_loss(whole, WINDOWS, lengths=[16, 64])
    assert [(r["left_out"], r["length"]) for r in rows] == [
        (part, length) for part in ("nothing", "rotation", "affine") for length in (16, 64)
    ]
    for part, kernel in (
        ("nothing", RoPE(8) + ALiBi(2)),
        ("rotation", ALiBi(2)),
        ("affine", RoPE(8)),
    ):
        for want in evaluate(model(kernel), WINDOWS, lengths=[16, 64]):
            (row,) = [r for r in rows if (r["left_out"], r["length"]) == (part, want["length"])]
            assert row["loss"] == pytest.approx(want["loss"], abs=1e-6)
    base = evaluate(whole, WINDOWS, lengths=[64])[0]
    (row,) = [r for r in rows if (r["left_out"], r["length"]) == ("affine", 64)]
    bare = evaluate(model(RoPE(8)), WINDOWS, lengths=[64])[0]
    paired = torch.tensor(bare["segments"]) - torch.tensor(base["segments"])
    assert row["change"] == pytest.approx(bare["loss"] - base["loss"], abs=1e-6)
    assert row["standard_error"] == pytest.approx(float(paired.std()) / 6**0.5, rel=1e-3)
    assert (rows[0]["change"], rows[0]["standard_error"]) == (0.0, 0.0)


def test_what_stays_is_the_bias_minus_the_part():
    parts = PJ.sector_components(LAGS)
    gate = {s: PJ.gate(s)[:, None] for s in parts}
    whole = PJ.lag_bias(LAGS)
    cases = {
        Part("affine"): gate["affine"] * parts["affine"].sum(1),
        Part("fj"): gate["fj"] * parts["fj"].sum(1),
        Part("jets"): gate["fj"] * parts["fj"].sum(1) + gate["lc"] * parts["lc"].sum(1),
        Part("lc", 1): gate["lc"] * parts["lc"][:, 1],
        Part("jets", 2): gate["fj"] * parts["fj"][:, 2] + gate["lc"] * parts["lc"][:, 2],
    }
    for part, dropped in cases.items():
        torch.testing.assert_close(without(PJ, part).lag_bias(LAGS), whole - dropped)
        torch.testing.assert_close(without(RoPE(8) + PJ, part).lag_bias(LAGS), whole - dropped)
    reduced = without(PJ, Part("fj"))
    assert {p.data_ptr() for p in reduced.parameters()} == {p.data_ptr() for p in PJ.parameters()}


def test_parts_are_listed_in_order():
    names = [str(part) for part in parts_of(model(RoPE(8) + PJBias(2, 16, max_order=1)))]
    assert names == [
        *("rotation", "fj", "affine", "lc", "jets"),
        *("fj order 0", "fj order 1", "lc order 0", "lc order 1", "jets order 0", "jets order 1"),
    ]
    default = leave_one_out_loss(model(PJ), WINDOWS, lengths=[16])
    assert [r["left_out"] for r in default] == [
        *("nothing", "fj", "affine", "lc", "jets order 0", "jets order 1", "jets order 2")
    ]
    assert (default[-1]["sector"], default[-1]["order"]) == ("jets", 2)
    assert parts_of(NoPE()) == []
    assert leave_one_out_loss(model(), WINDOWS, lengths=[16])[1:] == []


def test_a_part_with_no_size_changes_nothing():
    quiet = model(PJBias(2, 16, init=PJInit(zeta_scale=0.0, gates="fj")))
    rows = {r["left_out"]: r["change"] for r in leave_one_out_loss(quiet, WINDOWS, lengths=[64])}
    assert abs(rows["fj"]) < 1e-6 and abs(rows["jets order 1"]) < 1e-6
    assert abs(rows["affine"]) > 1e-6


def test_layers_keep_what_others_lose():
    mixed = model()
    mixed.blocks[0].attention.kernel = RoPE(8)
    mixed.blocks[1].attention.kernel = ALiBi(2)
    with left_out(mixed, Part("rotation")) as reduced:
        assert reduced is mixed
        assert not mixed.blocks[0].attention.kernel.rotates
        assert isinstance(mixed.blocks[1].attention.kernel, ALiBi)
    assert isinstance(mixed.blocks[0].attention.kernel, RoPE)


def test_an_error_on_the_way_leaves_the_model_as_it_was():
    broken = model(RoPE(8) + PJ)
    kernels = [block.attention.kernel for block in broken.blocks]
    broken.train()
    calls = []

    def fail(module, inputs):
        calls.append(type(module.kernel).__name__)
        if len(calls) > 3:
            raise RuntimeError("no more")

    handle = broken.blocks[0].attention.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="no more"):
        leave_one_out_loss(broken, WINDOWS, lengths=[16, 32])
    handle.remove()
    assert [block.attention.kernel for block in broken.blocks] == kernels
    assert all(m.training for m in broken.modules())


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (("rope",), "part is 'rope', known are"),
        (("affine", 1), "'affine' has no orders"),
        (("fj", -1), "order is -1, an integer >= 0"),
        (("fj", 1.0), "order is 1.0, an integer >= 0"),
    ],
)
def test_parts_that_do_not_exist(part, says):
    with pytest.raises(ValueError, match=says):
        Part(*part)


def test_a_part_no_layer_has():
    for part in (Part("lc"), Part("jets", 7), Part("bias")):
        with pytest.raises(ValueError, match=r"no layer of this model has the part .* it has"):
            leave_one_out_loss(model(FourierJet(2, 16)), WINDOWS, lengths=[16], parts=[part])


@pytest.mark.parametrize("kernel", [PJ, RoPE(8) + PJ], ids=["leaf", "sum"])
@pytest.mark.parametrize("part", [Part("fj", 9), Part("bias")])
def test_a_kernel_without_the_part_says_what_it_has(kernel, part):
    with pytest.raises(ValueError, match=f"has not the part '{part}': it has .*'fj order 2'"):
        without(kernel, part)
