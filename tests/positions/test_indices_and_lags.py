import pytest
import torch

from pjrope.positions import (
    cached_positions,
    causal_keep,
    full_positions,
    lags,
    left_padded_positions,
    packed_positions,
    segment_keep,
    visible_keys,
)


def test_indices():
    assert full_positions(4).tolist() == [0, 1, 2, 3]
    assert cached_positions(5, 2).tolist() == [5, 6]
    positions, segments = packed_positions([1, 1, 3])
    assert positions.tolist() == [0, 0, 0, 1, 2]
    assert segments.tolist() == [0, 1, 2, 2, 2]
    real = torch.tensor([[False, False, True, True], [True, True, True, True]])
    assert left_padded_positions(real).tolist() == [[0, 0, 0, 1], [0, 1, 2, 3]]


def test_a_document_without_tokens_is_refused():
    with pytest.raises(ValueError, match="document 1 has length 0"):
        packed_positions([2, 0])


def test_a_positive_lag_looks_back():
    assert lags(torch.tensor([3]), torch.tensor([0, 3, 5])).tolist() == [[3, 0, -2]]


def test_causality_aligns_at_the_bottom_right():
    assert causal_keep(2, 5).int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert causal_keep(2, 2, "strict").int().tolist() == [[0, 0], [1, 0]]
    assert causal_keep(3, 2).int().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert bool(causal_keep(2, 3, False).all())
    whole = causal_keep(7, 9)
    assert torch.equal(causal_keep(7, 9, start=2, stop=5), whole[2:5])
    for causal in (True, "strict", False):
        for row in range(7):
            seen = visible_keys(row, 7, 5, causal)
            assert causal_keep(7, 5, causal)[row].sum() == seen


@pytest.mark.parametrize("causal", ["yes", None, 2])
def test_another_causal_value_is_refused(causal):
    with pytest.raises(ValueError, match="strict"):
        causal_keep(2, 2, causal)


def test_segments_separate_documents():
    _, ids = packed_positions([1, 2])
    assert segment_keep(ids, ids).int().tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 1]]
