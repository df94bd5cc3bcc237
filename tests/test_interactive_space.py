"""The explorer of the whole space: its formulas against the kernels, its presets against the facts."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest
import torch

from pjrope.data import model_facts, rotary_config
from pjrope.interactive.space import (
    GROUPS,
    METHOD_POINTS,
    NO_LAG_FUNCTION,
    SAME_POINT,
    Space,
    presets,
    space_page,
)
from pjrope.interactive.space.formulas import (
    NUMBERS,
    amplitude,
    digits,
    ladder,
    parts,
    roots,
    temperature,
    weights,
)
from pjrope.kernels import Affine, ALiBi, LightCone, NearTable, RoPE
from pjrope.kernels.algebra import solves
from pjrope.plotting import METHODS

LAGS = torch.arange(300).double()
POINTS = {preset.key: preset for preset in presets()}


def total(key: str, **more) -> torch.Tensor:
    return parts(replace(POINTS[key].space, **more), LAGS)["sum"]


def test_every_method_of_the_book_has_a_point_or_a_reason():
    assert set(METHODS) <= {*METHOD_POINTS, *SAME_POINT, *NO_LAG_FUNCTION}
    assert set(SAME_POINT.values()) <= set(METHOD_POINTS)
    assert {row["key"] for row in model_facts()} <= set(POINTS)


def test_every_field_has_a_control_in_its_range():
    controls = {c.name: c for group in GROUPS.values() for c in group}
    assert set(controls) == set(asdict(Space()))
    for preset in presets():
        for name, value in preset.space.changes(Space()).items():
            control = controls[name]
            if control.options:
                assert value in control.options
            elif name != "orders":
                at = math.log(value, control.scale) if control.scale else value
                assert control.low <= at <= control.high, (preset.key, name, value)


def test_alibi_is_the_kernel():
    assert total("alibi") == pytest.approx(ALiBi(8).lag_bias(LAGS.long())[2], abs=1e-6)


@pytest.mark.parametrize(
    ("coords", "coordinate"), [("scaled", "linear"), ("light cone", "lightcone")]
)
def test_line_is_the_affine_kernel(coords, coordinate):
    wanted = Affine(1, 64, slope=2.0, coordinate=coordinate).lag_bias(LAGS.long())[0].detach()
    assert total("affine", coords=coords) == pytest.approx(wanted, abs=1e-5)


def test_light_cone_is_the_kernel():
    kernel = LightCone(1, 64, max_order=1, omega=torch.tensor([2 * math.pi * 3 / 64]))
    with torch.no_grad():
        kernel.zeta_re.fill_(1.0)
        kernel.zeta_im.zero_()
        wanted = kernel.lag_bias(LAGS.long())[0]
    assert total("lc") == pytest.approx(wanted, abs=1e-4)


def test_near_lags_are_a_table():
    kernel = NearTable(1, 4)
    with torch.no_grad():
        kernel.table.fill_(2.0)
    assert total("near") == pytest.approx(kernel.lag_bias(LAGS.long())[0].detach())


def test_rotation_is_the_score_of_equal_queries_and_keys():
    kernel = RoPE(64)
    x = torch.full((1, 1, 300, 64), 1 / 8.0, dtype=torch.float64)
    at = torch.arange(300)
    q, k = kernel.rotate(x, x[:, :, :1], at, at[:1])
    assert total("rope") == pytest.approx((q @ k.mT).flatten(), abs=1e-9)


MODELS = [
    row
    for row in model_facts()
    if row["method"].startswith("rope") and row["rotary_dim"] and row["original_context"]
]
SHOWN_PLAIN = ("longrope", "dynamic-ntk")  # the page shows their ladders before the stretch


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["key"])
def test_models_have_the_ladder_of_their_configuration(row):
    space, kind = POINTS[row["key"]].space, (row["scaling"] or {}).get("type")
    if kind in SHOWN_PLAIN:
        row = {**row, "scaling": None}
    kernel = RoPE.from_config(rotary_config(row))
    wanted, heat = kernel.omega.double(), 1.0
    if kernel.extension is not None:
        scale = kernel.extension.factor()
        wanted, heat = (
            kernel.extension.frequencies(wanted, scale),
            kernel.extension.temperature(scale),
        )
    found = ladder(space)
    assert found[: len(wanted)] == pytest.approx(wanted, rel=1e-5)
    assert not found[len(wanted) :].any()
    assert temperature(space) == pytest.approx(heat)
    inside = 0 if space.dim == row["head_dim"] else space.still
    assert len(found) + inside == row["head_dim"] // 2


@pytest.mark.parametrize("key", [k for k in METHOD_POINTS if "lc" not in k and k != "full"])
def test_roots_are_those_of_the_sum(key):
    space = replace(POINTS[key].space, dim=8)
    found = roots(space)
    order = sum(r.multiplicity for r in found)
    values = parts(space, torch.arange(4 * order + 24).double())["sum"]
    if not found:
        assert not values.any()
        return
    assert solves(values, found)


def test_roots_by_hand():
    assert roots(Space()) == []
    assert [(r.value, r.multiplicity) for r in roots(POINTS["alibi"].space)] == [(1, 2)]
    assert [(r.value, r.multiplicity) for r in roots(POINTS["near"].space)] == [(0, 4)]
    assert roots(POINTS["lc"].space) == []
    turned = roots(POINTS["scaled"].space)
    assert [r.multiplicity for r in turned] == [2, 2]
    assert abs(turned[0].value) == pytest.approx(math.exp(-1 / 64))


@pytest.mark.parametrize("key", list(METHOD_POINTS))
def test_the_bound_is_a_bound(key):
    space = POINTS[key].space
    assert bool((parts(space, LAGS)["sum"].abs() <= amplitude(space, LAGS) + 1e-12).all())


@pytest.mark.parametrize(("number", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
@pytest.mark.parametrize("coords", ["scaled", "light cone"])
def test_digits_hold_for_a_rounded_angle(number, dtype, coords):
    """Each angle is rounded once to the type and so is what the sector adds."""
    space = Space(jet=1.0, orders="1", coords=coords)
    lags = torch.arange(1, 4096).double()
    omega = 2 * math.pi * space.cycles / space.length
    path = 64 * torch.asinh(lags / 64) if coords == "light cone" else lags
    size = lags / torch.hypot(lags, torch.tensor(64.0).double())
    size = size if coords == "light cone" else lags / 64
    rounded = (size * torch.cos((omega * path).to(dtype).double())).to(dtype).double()
    error = (rounded - parts(space, lags)["sum"]).abs()
    promised = 10 ** -digits(space, lags, number)
    useful = promised < 1
    assert int(useful.sum()) > 20
    assert bool((error[useful] <= promised[useful]).all())
    assert float((error[useful] / promised[useful]).max()) > 0.2  # nor is it far too careful


def test_no_digit_is_left_where_the_type_overflows():
    space = Space(coords="raw", slope=1.0)
    left = digits(space, torch.tensor([65504.0, 65505.0], dtype=torch.float64), "fp16")
    assert left.tolist() == pytest.approx([0.0, 0.0])
    exact = digits(space, torch.tensor([1.0, 2.0**24], dtype=torch.float64), "fp32")
    assert exact.tolist() == pytest.approx([-math.log10(2.0**-24), 0.0], abs=1e-12)
    assert set(NUMBERS) == {"fp32", "fp16", "bf16"}


def test_weights_are_a_softmax_and_add_up_over_wide_steps():
    space, fine = POINTS["affine"].space, torch.arange(1000).double()
    assert weights(space, fine) == pytest.approx(torch.softmax(parts(space, fine)["sum"], 0))
    coarse = torch.arange(0, 1000, 5).double()
    wide = weights(space, coarse)
    width = torch.diff(coarse, append=coarse[-1:] + 1)
    assert float((wide * width).sum()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "wrong",
    [{"stretch": "XL"}, {"coords": "polar"}, {"whole": "maybe"}, {"orders": "4"}, {"dim": 6}],
)
def test_a_wrong_field_is_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Space(**wrong)


def test_the_page_is_one_small_file():
    page = space_page("index.html")
    assert len(page.encode()) < 300_000
    assert 'href="index.html"' in page and "@" not in page.split("<script>")[0].split("</style>")[1]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "← the book" not in space_page()
