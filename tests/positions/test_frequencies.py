import pytest
import torch

from pjrope.positions import NTK, PI, YaRN, geometric
from pjrope.positions.extensions import extension_from_spec
from tests.golden import golden

CASES = golden("context_extension")["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"D{c['D']}s{c['scale']}")
def test_golden(case):
    omega = geometric(case["D"])
    s = case["scale"]
    yarn = YaRN(s, case["yarn_length"], ramp="turns")
    for got, want in (
        (NTK(s).frequencies(omega, s), case["ntk_inv_freq"]),
        (PI(s).frequencies(omega, s), case["pi_inv_freq"]),
        (yarn.keep(omega), case["yarn_keep"]),
        (yarn.frequencies(omega, s), case["yarn_inv_freq"]),
        (geometric(case["D"], case["ntk_base"]), case["ntk_inv_freq"]),
    ):
        want = torch.tensor(want, dtype=torch.float64)
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-15)
    assert yarn.temperature(s) == pytest.approx(case["yarn_factor"], rel=1e-14)


@pytest.mark.parametrize(
    ("scale", "factor"), [(4, 1.138629), (8, 1.207944), (16, 1.277259), (32, 1.346574)]
)
def test_yarn_factor(scale, factor):
    assert YaRN(scale, 512).temperature(float(scale)) == pytest.approx(factor, abs=1e-6)
    for explicit in (1.0, 1.5):
        assert YaRN(scale, 512, attention_factor=explicit).temperature(float(scale)) == explicit


@pytest.mark.parametrize("kind", [PI, NTK, YaRN])
def test_dynamic_factor_follows_the_longest_position_and_keeps_no_state(kind):
    extension = kind(length=8)
    assert extension.dynamic
    short, long = torch.arange(8), torch.arange(32)
    assert float(extension.factor(short)) == 1.0
    assert float(extension.factor(long)) == 4.0
    assert float(extension.factor(short, long)) == 4.0
    assert float(extension.factor(short)) == 1.0
    fixed = kind(4.0, 8)
    omega = geometric(16)
    torch.testing.assert_close(
        extension.frequencies(omega, extension.factor(long)), fixed.frequencies(omega, 4.0)
    )
    assert float(extension.temperature(extension.factor(long))) == pytest.approx(
        fixed.temperature(4.0)
    )


def test_no_stretch_at_factor_one():
    omega = geometric(16)
    for extension in (PI(1.0), NTK(1.0), YaRN(1.0, 64)):
        torch.testing.assert_close(extension.frequencies(omega, 1.0), omega)
        assert extension.temperature(1.0) == 1.0


def test_ntk_keeps_the_fastest_and_divides_the_slowest():
    omega = geometric(32)
    stretched = NTK(4.0).frequencies(omega, 4.0)
    assert float(stretched[0]) == 1.0
    assert float(stretched[-1] / omega[-1]) == pytest.approx(0.25, rel=1e-12)


def test_specs_round_trip():
    for extension in (PI(4.0), NTK(length=8), YaRN(2.0, 16, attention_factor=1.0)):
        assert extension_from_spec(extension.spec) == extension
    assert extension_from_spec(None) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NTK(), "neither scale nor length"),
        (lambda: PI(0.5), "scale is 0.5"),
        (lambda: YaRN(4.0), "pass the training length"),
        (lambda: NTK(length=0), "length is 0"),
        (lambda: geometric(7), "dim is 7"),
        (lambda: geometric(8, 1.0), "base is 1.0"),
        (lambda: NTK(2.0).frequencies(geometric(2), 2.0), "D is 2"),
        (lambda: extension_from_spec({"kind": "XPOS"}), "XPOS"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
