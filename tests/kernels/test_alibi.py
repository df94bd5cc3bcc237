"""ALiBi: the paper's slopes, for any number of heads."""

import pytest
import torch

from pjrope.kernels import ALiBi, alibi_slopes, reference
from tests.golden import golden


def test_alibi_slopes_golden():
    for heads, want in golden("alibi_slopes").items():
        torch.testing.assert_close(
            alibi_slopes(int(heads)), torch.tensor(want, dtype=torch.float64), rtol=1e-12, atol=0
        )


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 7, 12, 20, 33])
def test_alibi_slopes_equal_the_recursive_rule(heads):
    want = [reference.alibi_slope(h, heads) for h in range(heads)]
    assert alibi_slopes(heads).tolist() == pytest.approx(want, rel=1e-12)


def test_alibi_punishes_distance_on_both_sides():
    bias = ALiBi(8).lag_bias(torch.tensor([-3, 0, 3]))
    assert bias[0].tolist() == [-1.5, 0.0, -1.5]
    assert bool((bias <= 0).all())


def test_a_count_of_heads_is_needed():
    with pytest.raises(ValueError, match="heads is 0"):
        ALiBi(0)
