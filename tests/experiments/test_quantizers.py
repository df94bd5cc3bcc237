"""Rounding of vectors: levels, errors, what is stored; rotations that undo themselves."""

from __future__ import annotations

import pytest
import torch

from pjrope.experiments.codes.rounding import (
    Quantizer,
    codes_and_step,
    haar_rotation,
    round_vectors,
)
from pjrope.training import stream

BITS = (2, 3, 4, 8)


def _vectors(count: int = 200, size: int = 32) -> torch.Tensor:
    return torch.randn(count, size, generator=stream(0, "vectors"))


@pytest.mark.parametrize("bits", BITS)
def test_codes_fill_their_bits_and_no_more(bits):
    codes, step = codes_and_step(_vectors(), bits)
    assert step.dtype == torch.float16 and step.shape == (200, 1)
    assert (int(codes.min()), int(codes.max())) == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@pytest.mark.parametrize("bits", BITS)
def test_the_error_is_at_most_half_a_step_and_mirrors(bits):
    x = _vectors()
    error = (round_vectors(x, bits) - x).abs()
    half = x.abs().amax(-1, keepdim=True) / (2**bits - 1)
    assert bool((error <= half * (1 + 2**bits * 2**-11)).all())
    assert float(error.max()) > 0.9 * float(half.min())
    assert torch.equal(round_vectors(-x, bits), -round_vectors(x, bits))


@pytest.mark.parametrize("bits", BITS)
def test_rounding_twice_changes_nothing(bits):
    once = round_vectors(_vectors(), bits)
    assert torch.equal(round_vectors(once, bits), once)


def test_two_bits_are_four_levels_that_keep_the_largest_coordinate():
    x = torch.tensor([[1.0, -1.0, 0.6, -0.6, 0.1, -0.1]])
    expected = torch.tensor([[1.0, -1.0, 1 / 3, -1 / 3, 1 / 3, -1 / 3]])
    torch.testing.assert_close(round_vectors(x, 2), expected, atol=1e-3, rtol=0)


def test_a_zero_vector_stays_zero_beside_others():
    x = torch.stack([torch.zeros(8), torch.arange(8.0)])
    found = round_vectors(x, 4)
    assert torch.equal(found[0], torch.zeros(8)) and float(found[1].abs().max()) > 6


def test_a_step_takes_no_part_of_its_neighbours():
    x = _vectors(2)
    far = torch.stack([x[0], 1000 * x[1]])
    assert torch.equal(round_vectors(far, 3)[0], round_vectors(x, 3)[0])


def test_what_cannot_be_stored_is_refused():
    with pytest.raises(ValueError, match="bits is 1: 2 to 8"):
        round_vectors(torch.ones(1, 4), 1)
    with pytest.raises(ValueError, match=r"fp16 reaches 65504"):
        round_vectors(torch.full((1, 4), 1e6), 2)
    for bad in (torch.nan, torch.inf, -torch.inf):
        vectors = torch.ones(2, 4)
        vectors[1, 2] = bad
        with pytest.raises(ValueError, match=r"^1 of 8 coordinates are nan or infinite") as said:
            round_vectors(vectors, 2)
        assert "damping" not in str(said.value)


def test_a_rotation_is_orthogonal_seeded_and_has_no_preferred_sign():
    turn = haar_rotation(32, 7)
    assert turn.dtype == torch.float64
    torch.testing.assert_close(turn @ turn.T, torch.eye(32).double(), atol=1e-12, rtol=0)
    assert torch.equal(turn, haar_rotation(32, 7)) and not torch.equal(turn, haar_rotation(32, 8))
    firsts = torch.stack([haar_rotation(3, seed)[0, 0] for seed in range(400)])
    assert abs(float(firsts.mean())) < 4 / (3 * 400) ** 0.5  # Haar: mean 0, variance 1/D


def test_a_rotation_is_undone_and_spreads_a_lone_coordinate():
    x = torch.zeros(1, 32)
    x[0, 5] = 1.0
    turn = haar_rotation(32, 7)
    back = Quantizer(8, turn)(x)
    assert 0 < float((back - x).abs().max()) < 0.01
    small = x.clone()
    small[0, 1:5] = 0.02
    # In plain coordinates the step of the large one swallows the small ones.
    plain, turned = (float((q(small) - small).norm()) for q in (Quantizer(2), Quantizer(2, turn)))
    assert turned < plain / 2


def test_no_bits_means_the_same_tensor():
    x = _vectors()
    assert Quantizer(0, haar_rotation(32, 1))(x) is x


def test_storage_counts_the_step():
    assert Quantizer(3).storage(32) == 3.5
    assert Quantizer(3).storage(16) == Quantizer(3, haar_rotation(16, 0)).storage(16) == 4.0
    assert Quantizer(0).storage(16) == 32.0
