"""The formulas behind the explorers, each against the kernel, code or yardstick it stands for."""

from __future__ import annotations

import math
import re

import pytest
import torch

from pjrope import attend
from pjrope.attention.backends.fold import TOLERANCE, error_bound
from pjrope.experiments.codes.lag_codes import amplitudes
from pjrope.experiments.codes.lag_codes import path as phase_path
from pjrope.experiments.sequences.linear_readers import SPANS, readout_ceiling
from pjrope.interactive import (
    Plane,
    fold_error,
    fold_error_curves,
    gauge_curves,
    jordan_mode_curves,
    lag_score_rows,
    lightcone_curves,
    reader_accuracy,
    reader_curves,
    rope_score_curves,
    union_curves,
    union_explorer,
    union_roots,
    window_curves,
)
from pjrope.interactive.jordan import FORMS
from pjrope.kernels import Affine, ALiBi, FourierJet, JordanRoPE, LightCone, RoPE
from pjrope.kernels.algebra import difference, prony, residual
from pjrope.positions import geometric

# order


ORDER_INDEX = list(range(16))


def order_rows(scheme, **more):
    both = lag_score_rows(scheme, **{"query": 6, "shift": 9, **more})
    (start, first), (again, moved) = both.values()
    assert start == again == ORDER_INDEX
    return first, moved


@pytest.mark.parametrize("scheme", ["none", "ALiBi", "RoPE"])
def test_relative_schemes_do_not_notice_a_shift(scheme):
    first, moved = order_rows(scheme)
    assert moved == pytest.approx(first, abs=1e-12)


def test_an_added_wave_notices_a_shift():
    first, moved = order_rows("added wave")
    assert max(abs(a - b) for a, b in zip(first, moved, strict=True)) > 0.1


def test_rope_row_is_the_kernel_s():
    x = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(1, 1, 16, 2)
    pos = torch.arange(16)
    kernel = RoPE(2, omega=torch.tensor([0.7], dtype=torch.float64))
    q, k = kernel.rotate(x, x, pos, pos)
    wanted = (q @ k.transpose(-1, -2))[0, 0, 6].tolist()
    assert order_rows("RoPE", omega=0.7)[0] == pytest.approx(wanted, abs=1e-12)


def test_alibi_row_is_the_kernel_s():
    kernel = ALiBi(1)
    wanted = 1 + kernel.lag_bias(6 - torch.arange(16))[0]
    first, _ = order_rows("ALiBi", slope=float(kernel.slopes[0]))
    assert first == pytest.approx(wanted.tolist(), abs=1e-12)


def test_added_wave_row_is_a_product_of_sums():
    pos = torch.arange(16).double()
    tokens = torch.stack([1 + torch.cos(0.3 * pos), torch.sin(0.3 * pos)], dim=-1) / 2
    wanted = (tokens @ tokens.T)[6].tolist()
    assert order_rows("added wave", omega=0.3)[0] == pytest.approx(wanted, abs=1e-12)


# rope


def test_rope_curve_by_hand():
    lags, scores = rope_score_curves(base=100.0, head_dim=4, longest=3)["RoPE"]
    assert lags == [0, 1, 2, 3]
    by_hand = [(math.cos(d) + math.cos(0.1 * d)) / 2 for d in range(4)]
    assert scores == pytest.approx(by_hand, abs=1e-14)


def test_interpolation_reads_the_plain_curve_more_slowly():
    curves = rope_score_curves(base=1e4, head_dim=64, extension="PI", scale=4, longest=400)
    plain, stretched = curves["RoPE"][1], curves["with PI"][1]
    assert stretched[::4] == pytest.approx(plain[:101], abs=1e-12)


def test_ntk_keeps_the_fastest_and_divides_the_slowest_frequency():
    curves = rope_score_curves(base=1e4, head_dim=4, extension="NTK", scale=8, longest=50)
    by_hand = [(math.cos(d) + math.cos(0.01 / 8 * d)) / 2 for d in range(51)]
    assert curves["with NTK"][1] == pytest.approx(by_hand, abs=1e-12)


def test_yarn_scores_start_at_its_squared_temperature():
    curves = rope_score_curves(base=1e4, head_dim=64, extension="YaRN", scale=32)
    assert curves["with YaRN"][1][0] == pytest.approx((1 + 0.1 * math.log(32)) ** 2, abs=1e-14)


# jordan


@pytest.fixture
def fp64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("length", "offset"), [(48, 0), (96, 320)])
def test_scores_are_the_kernel_s(fp64, form, length, offset):
    unit = length if form == "scaled" else 64
    rates = {"c": 0.75, "eta": -1.5}
    per = 1 if form == "scaled" else unit
    kernel = JordanRoPE(
        4, 1, length, form=form, omega=[0.3], gamma=rates["c"] / per, eta=rates["eta"] / per
    )
    q, k = torch.tensor([1.0, 0, 0, 0]), torch.tensor([1.0, 0, 1, 0])
    q, k = q.expand(1, 1, 257, 4), k.expand(1, 1, 1, 4)
    at, j = torch.arange(257) + offset, torch.tensor([offset])
    if form == "lag":
        wanted = kernel.scores(q, k, at, j)[0, 0, :, 0]
    else:
        a, b = kernel.rotate(q, k, at, j)
        wanted = (a @ b.mT)[0, 0, :, 0]
    curves = jordan_mode_curves(form, 0.3, length=length, offset=offset, **rates)
    assert curves["key moved"][1] == pytest.approx(wanted.tolist(), abs=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_only_the_stabilized_form_notices_where_the_key_stands(form):
    (_, still), (_, moved), _ = jordan_mode_curves(form).values()
    apart = max(abs(a - b) for a, b in zip(still, moved, strict=True))
    assert apart > 0.1 if form == "stabilized" else apart == 0


# language


READER_OMEGA = float(geometric(32)[3])
READER_TARGETS = {1: "mixed_raw", 2: "high_jet_r2", 3: "high_jet_r3"}


@pytest.mark.parametrize("power", READER_TARGETS)
@pytest.mark.parametrize("name", SPANS)
def test_it_is_the_yardstick(name, power):
    order, shear, c = SPANS[name]
    for times in (1, 8):
        found = reader_accuracy(128 * times - 1, READER_OMEGA, power, order, shear, c, 128)
        wanted = readout_ceiling(READER_TARGETS[power], name, times, 128, READER_OMEGA)
        assert found == pytest.approx(wanted, abs=1e-7)


def test_an_exact_block_of_order_two_reads_the_first_jet_at_every_length_and_no_other():
    phase, block = reader_curves(3, 1, 2).values()
    assert block[1] == pytest.approx([1.0] * 29, abs=1e-6)
    assert phase[1] == pytest.approx([5 / 6] * 29, abs=2e-3)
    assert max(reader_curves(3, 2, 2)["the block"][1]) < 0.96


def test_damping_costs_more_the_longer_the_exam():
    curve = reader_curves(3, 1, 2, damping=1.0)["the block"][1]
    assert curve == sorted(curve, reverse=True) and curve[0] > 0.9 and curve[-1] < 0.7


# alibi


WINDOW_EQUAL, WINDOW_FAR, WINDOW_WEIGHT = range(3)


def window_curve(which, **values):
    lags, ys = list(window_curves(**values).values())[which]
    assert lags == list(range(len(ys)))
    return ys


@torch.no_grad()
def weights_of_the_kernel(slope, match, keys):
    """Attention by lag, read off with values that name their key."""
    q = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    k = match * (torch.arange(keys - 1, -1, -1) >= 64).double()[None, None, :, None]
    v = torch.eye(keys, dtype=torch.float64)[None, None]
    return attend(q, k, v, Affine(1, 1, slope=slope), scale=1.0).flatten().flip(0)


def test_shares_and_weights_are_those_of_attention():
    wanted = weights_of_the_kernel(0.125, 6.0, 96)
    assert window_curve(WINDOW_FAR, slope=0.125, match=6.0, keys=96) == pytest.approx(
        wanted.cumsum(0).tolist(), abs=1e-6
    )
    assert window_curve(WINDOW_WEIGHT, slope=0.125, match=6.0, keys=96) == pytest.approx(
        (wanted / wanted.max()).tolist(), abs=1e-6
    )


@pytest.mark.parametrize("keys", [128, 1024])
def test_a_slope_has_a_window_that_does_not_grow(keys):
    share = window_curve(WINDOW_EQUAL, slope=0.125, keys=keys)
    assert share[63] == pytest.approx(1 - math.exp(-8), abs=1e-6)


def test_without_a_slope_the_share_is_the_count():
    assert window_curve(WINDOW_EQUAL, slope=0.0, keys=256)[63] == pytest.approx(0.25)


def test_content_moves_the_share_no_further_than_its_odds():
    far = 1 - window_curve(WINDOW_FAR, slope=0.0625, match=5.0, keys=512)[63]
    near = math.expm1(0.0625 * 64)
    assert 0.5 < far <= 1 / (1 + math.exp(-5) * near) + 1e-12


# union


UNION_SETTING = {"omega": 0.35, "order": 2, "length": 24}
UNION_JET, UNION_LINE, UNION_CONE, UNION_SUM = "Fourier jet", "line", "light cone", "their sum"


def union_values(name, **setting):
    lags, ys = union_curves(**setting)[name]
    assert lags == list(range(129))
    return torch.tensor(ys, dtype=torch.float64)


@torch.no_grad()
def of_kernel(kernel, amplitude=None):
    kernel = kernel.double()
    if amplitude is not None:
        kernel.zeta_re.zero_()[0, -1] = amplitude
        kernel.zeta_im.zero_()
    return kernel.lag_bias(torch.arange(129))[0]


def test_sectors_are_those_of_the_kernels():
    shared = {"max_order": 2, "omega": [UNION_SETTING["omega"]]}
    jet = of_kernel(FourierJet(1, 24, damping=1.25, **shared), 0.75)
    cone = of_kernel(LightCone(1, 24, **shared), 1.5)
    line = of_kernel(Affine(1, 24, slope=0.5))
    setting = UNION_SETTING | {"fj": 0.75, "c": 1.25, "slope": 0.5, "lc": 1.5}
    for name, wanted in (
        (UNION_JET, jet),
        (UNION_CONE, cone),
        (UNION_LINE, line),
        (UNION_SUM, jet + cone + line),
    ):
        assert union_values(name, **setting).tolist() == pytest.approx(wanted.tolist(), abs=1e-6)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_roots_are_those_that_the_samples_give_back(order):
    setting = {"fj": 1.0, "order": order, "omega": 0.6, "c": 1.0, "slope": 1.0, "length": 32}
    wanted = union_roots(**setting)
    found = prony(union_values(UNION_SUM, **setting))
    assert sorted(r.multiplicity for r in found) == sorted(r.multiplicity for r in wanted)
    for root in wanted:
        assert min(abs(root.value - other.value) for other in found) < 1e-4


def test_the_equation_kills_jet_and_line_and_not_the_light_cone():
    setting = UNION_SETTING | {"fj": 1.0, "c": 0.5, "slope": 1.0}
    rest = residual(union_values(UNION_SUM, **setting), union_roots(**setting))
    assert float(rest.abs().max()) < 1e-10
    bent = residual(union_values(UNION_SUM, **setting, lc=1.0), union_roots(**setting, lc=1.0))
    assert float(bent.abs().max()) > 1e-5


def test_what_is_off_has_no_roots_and_what_meets_shares_them():
    assert union_roots(fj=0, slope=0, lc=1) == []
    assert [r.multiplicity for r in union_roots(omega=0, c=0, order=3, slope=1)] == [4]
    assert [r.multiplicity for r in union_roots(omega=0, c=0, order=0, slope=1)] == [2]
    (root,) = union_roots(omega=0, c=2, length=8, order=1, slope=0)
    assert root.value == pytest.approx(math.exp(-0.25)) and root.multiplicity == 2
    assert float(difference(union_values(UNION_LINE, slope=2.0), 1, 2).abs().max()) < 1e-12


def test_the_figure_shows_both_panels_and_redraws_both():
    figure = union_explorer()
    assert set(figure.values) == {"fj", "order", "omega", "c", "slope", "lc", "length"}
    before = figure.children[-1].value
    figure.controls["omega"].value = 1.0
    assert figure.children[-1].value != before
    assert "unit circle" in before and "A bias against the lag" in before
    assert "pjDots" in figure.page()
    assert len(figure.png()) < 30_000


def test_a_plane_needs_words():
    with pytest.raises(ValueError, match="no alt text"):
        Plane(lambda: [], "return [];", title="roots", alt=" ")


# gauge


GAUGE_JET, GAUGE_LINE, GAUGE_CONE = range(3)


def gauge_values(**settings):
    return [ys for _, ys in gauge_curves(**settings).values()]


def said(which, word, **settings):
    """The number behind a word in a label."""
    label = list(gauge_curves(**settings))[which]
    return float(re.search(rf"{word} (\d+\.\d\d)", label)[1])


def test_at_equal_gates_the_sectors_are_thirds_of_their_formulas():
    jet, line, cone, bias = gauge_values(amplitude=3.0, slope=1.5)
    d, omega = 100, 2 * math.pi * 4 / 64
    assert jet[d] == pytest.approx(100 / 64 * math.cos(omega * d))
    assert line[d] == pytest.approx(-0.5 * 100 / 64)
    assert cone[d] == pytest.approx(2 / 3 * math.cos(omega * 64 * math.asinh(d / 64)))
    assert bias[d] == pytest.approx(jet[d] + line[d] + cone[d])


def test_kept_function_stays_while_gates_move():
    for before, after in zip(
        gauge_values(), gauge_values(jet=-3.0, line=2.5, keep="yes"), strict=True
    ):
        assert after == pytest.approx(before, abs=1e-12)
    assert said(GAUGE_JET, "gate", jet=-3.0, keep="yes") == pytest.approx(
        math.exp(-3) / 2.05, abs=6e-3
    )
    assert said(GAUGE_JET, "amplitude", jet=-3.0, keep="yes") > 40
    assert said(GAUGE_JET, "=", jet=-3.0, keep="yes") == said(GAUGE_JET, "=") == 1.0


def test_without_the_switch_a_gate_is_part_of_the_function():
    before, after = gauge_values(), gauge_values(line=3.0)
    assert after[GAUGE_LINE][64] < 2 * before[GAUGE_LINE][64] < 0
    assert abs(after[GAUGE_JET][64]) < 0.2 * abs(before[GAUGE_JET][64])
    assert said(GAUGE_LINE, "slope", line=3.0) == 3.0


def test_sizes_are_about_the_mean_below_the_training_length():
    wanted = math.sqrt((64**2 - 1) / 12) / 64  # of a line that falls by 1 in L tokens
    assert said(GAUGE_LINE, "rms") == pytest.approx(wanted, abs=6e-3)
    assert said(GAUGE_LINE, "rms", slope=0.0) == 0.0


# lightcone


CONE_NAMES = {
    "raw": "raw",
    "scaled": "scaled",
    "clipped": "clipped",
    "log": "log",
    "light cone": "lc",
}
ALL_AMPLITUDES = "all amplitudes"


def cone_values(name, **setting):
    """Lags and values of one curve, no longer as powers of ten."""
    (found,) = [c for label, c in lightcone_curves(**setting).items() if label.startswith(name)]
    return [10 ** torch.tensor(side, dtype=torch.float64) for side in found]


@pytest.mark.parametrize("shown, name", CONE_NAMES.items())
@pytest.mark.parametrize("order", [0, 2, 3])
def test_amplitudes_are_those_of_the_codes(shown, name, order):
    lags, sizes = cone_values(shown, length=192, order=order, reach=1e4, show=ALL_AMPLITUDES)
    wanted = amplitudes(name, lags, 192, order)[:, order]
    torch.testing.assert_close(sizes, wanted, rtol=1e-9, atol=0)
    assert lags[-1] == pytest.approx(1e4)


def test_phases_are_those_of_the_codes():
    for shown, name in (("linear", "raw"), ("light-cone", "lc")):
        lags, tokens = cone_values(shown, length=64, reach=1e5, show="phases")
        torch.testing.assert_close(tokens, phase_path(name, lags, 64), rtol=1e-9, atol=0)


def test_below_the_training_length_the_cures_are_one_curve():
    curves = lightcone_curves(length=4096, order=1, reach=100)
    assert len(curves) == 4 and not any(label.startswith("raw") for label in curves)
    ends = [ys[-1] for _, ys in curves.values()]
    assert max(ends) - min(ends) < 0.01


def test_a_power_is_a_straight_line_of_that_slope():
    lags, sizes = cone_values("raw", order=3, show=ALL_AMPLITUDES)
    steps = sizes.log10().diff() / lags.log10().diff()
    torch.testing.assert_close(steps, torch.full_like(steps, 3.0), rtol=0, atol=1e-9)


def test_labels_say_where_a_curve_ends_and_small_values_are_left_out():
    labels = list(lightcone_curves(length=1024, order=3, reach=32768, show=ALL_AMPLITUDES))
    power = math.log10(32768**3 / 6)
    assert labels[0] == f"raw: 10^{power:.1f} at the end"
    assert labels[-1] == "light cone: 10^0.0 at the end"
    lags, _ = cone_values("scaled", length=64, order=3, reach=1e6)
    assert lags[-1] < 1e5
    assert any(label.startswith("scaled: 10^-") for label in lightcone_curves(64, 3, 1e6))


# speed


FOLD_LENGTH = 100  # no power of two: those divide exactly


def one_jet(order: int) -> FourierJet:
    """A jet of amplitude 1 at one order, on a phase that never turns."""
    kernel = FourierJet(
        1, FOLD_LENGTH, max_order=order, omega=torch.zeros(1), damping=0, zeta_scale=0
    )
    with torch.no_grad():
        kernel.zeta_re[0, order] = 1.0
    return kernel


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_it_is_the_library_s_bound(order):
    origin, query, key = 1000, 1255, 300  # the kernel folds about its last key
    with torch.no_grad():
        phi_q, phi_k = one_jet(order).fold(torch.tensor([query]), torch.tensor([key, origin]))
    wanted = float(error_bound(phi_q, phi_k)[0, 0])
    assert fold_error(query - origin, key - origin, order, FOLD_LENGTH) == pytest.approx(
        wanted, rel=1e-9
    )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_rounding_stays_below_it(order):
    near = torch.arange(9_000, 9_064)  # queries and keys far from the origin on the same side
    x = near.double() / FOLD_LENGTH

    def powers(y, s):
        return y**s / math.factorial(s)

    total = sum(
        powers(x, order - s).float()[:, None] * powers(-x, s).float() for s in range(order + 1)
    )
    exact = powers(x[:, None] - x, order)
    worst = fold_error(9_063, 9_063, order, FOLD_LENGTH)
    assert 1e-4 * worst < float((total.double() - exact).abs().max()) < worst


def test_far_origins_hurt_and_near_ones_do_not():
    far, near, allowed = (
        y for _, y in fold_error_curves(length=FOLD_LENGTH, order=3, lag=4).values()
    )
    assert far[0] == near[0] and far == sorted(set(far))
    assert len(set(near)) == 1 and near[0] < allowed[0] < far[-1]
    assert 10 ** allowed[0] == pytest.approx(TOLERANCE)
