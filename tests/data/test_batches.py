"""Windows: random ones stay inside the text, fixed ones score the same tokens at every length."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pjrope.data import evaluation_windows, sample_windows


def ramp(length: int) -> torch.Tensor:
    """A text whose tokens are their own positions."""
    return torch.arange(length)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_samples_are_runs_of_the_text_and_reach_both_ends() -> None:
    windows = sample_windows(ramp(12), batch=500, length=4, generator=generator(0))
    assert windows.shape == (500, 5) and windows.dtype == torch.int64
    assert (windows.diff(dim=1) == 1).all()
    assert set(windows[:, 0].tolist()) == set(range(8))


def test_samples_depend_on_the_generator_alone() -> None:
    text = ramp(1000).to(torch.int32)
    first = sample_windows(text, batch=8, length=16, generator=generator(1))
    torch.manual_seed(99)
    assert torch.equal(first, sample_windows(text, batch=8, length=16, generator=generator(1)))
    assert not torch.equal(first, sample_windows(text, batch=8, length=16, generator=generator(2)))


def test_shortest_text_for_a_sample() -> None:
    assert sample_windows(ramp(5), batch=1, length=4, generator=generator(0)).tolist() == [
        [0, 1, 2, 3, 4]
    ]
    with pytest.raises(ValueError, match=r"4 tokens and a window needs length \+ 1 = 5"):
        sample_windows(ramp(4), batch=1, length=4, generator=generator(0))
    with pytest.raises(ValueError, match="batch is 0"):
        sample_windows(ramp(9), batch=0, length=4, generator=generator(0))


@settings(max_examples=60, deadline=None)
@given(
    segments=st.integers(1, 7),
    scored_log=st.integers(0, 5),
    longest_log=st.integers(1, 8),
    odd=st.integers(0, 1),
    spare=st.integers(0, 200),
)
def test_every_length_scores_the_same_tokens_once(
    segments: int, scored_log: int, longest_log: int, odd: int, spare: int
) -> None:
    scored, longest = 2**scored_log, 2**longest_log + odd
    first = longest + 1 + scored - min(scored, longest // 2)
    text = ramp(first + (segments - 1) * scored + spare)
    chosen = evaluation_windows(text, segments=segments, scored=scored, longest=longest)
    expected = [p for end in chosen.ends for p in range(end - scored, end)]
    assert len(set(expected)) == segments * scored
    lengths = [2**k + extra for k in range(1, longest_log + 1) for extra in (0, 1)]
    for length in (t for t in lengths if t <= longest):
        windows, score_from = chosen.windows(length)
        assert windows.shape[1] == length + 1 and windows.dtype == torch.int64
        assert (windows.diff(dim=1) == 1).all()
        targets = windows[:, 1:]
        assert targets[:, score_from:].flatten().tolist() == expected
        assert torch.equal(targets[:, score_from:], chosen.positions(length))
        # Prediction number i has seen i + 1 tokens.
        assert score_from + 1 >= length / 2


def test_segments_reach_from_the_earliest_place_to_the_end() -> None:
    chosen = evaluation_windows(ramp(10_000), segments=4, scored=64, longest=1024)
    assert chosen.ends[0] == 1025 and chosen.ends[-1] == 10_000
    gaps = [b - a for a, b in zip(chosen.ends, chosen.ends[1:], strict=False)]
    assert max(gaps) - min(gaps) <= 1
    assert chosen.windows(1024)[0][0, 0] == 0


def test_text_one_token_too_short_is_refused_with_numbers() -> None:
    needed = 1025 + 3 * 64
    evaluation_windows(ramp(needed), segments=4, scored=64, longest=1024)
    with pytest.raises(ValueError, match=r"1,216 tokens, but 4 segments of 64 .* need 1,217"):
        evaluation_windows(ramp(needed - 1), segments=4, scored=64, longest=1024)
    with pytest.raises(ValueError, match="scored 0"):
        evaluation_windows(ramp(99), segments=4, scored=0, longest=8)


@pytest.mark.parametrize(
    ("length", "told"),
    [
        (1, "outside 2 … 1,024"),
        (1025, "outside 2 … 1,024"),
        (96, "scores 48 tokens a window, which does not divide the 64"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(length: int, told: str) -> None:
    chosen = evaluation_windows(ramp(5000), segments=2, scored=64, longest=1024)
    for ask in (chosen.windows, chosen.positions):
        with pytest.raises(ValueError, match=told):
            ask(length)
