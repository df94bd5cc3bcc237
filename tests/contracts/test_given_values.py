"""What callers hand over: arrays and lists as good as tensors, empty batches, positions that are real."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pjrope import Decoder, DecoderConfig
from pjrope.attention import AttentionLayer, KVCache, attend
from pjrope.positions.lags import lags
from tests.kernels.catalogue import HEAD_DIM, HEADS, NAMES, Damped, kernels

N = 6
POSITIONS = torch.tensor([3, 4, 5, 9, 10, 11])
GIVEN = {
    "array": lambda x: x.numpy(),
    "narrow_array": lambda x: x.numpy().astype(np.int16 if x.dtype == torch.int64 else bool),
    "list": lambda x: x.tolist(),
    "reversed_view": lambda x: x.flip(-1).numpy()[..., ::-1],
}


@pytest.fixture(params=NAMES)
def kernel(request):
    return kernels()[request.param]


def draw(batch: int = 1) -> torch.Tensor:
    return torch.randn(batch, HEADS, N, HEAD_DIM, generator=torch.Generator().manual_seed(0))


def answers(kernel, given) -> list[torch.Tensor]:
    """What every face of a kernel answers, and attention, for values given in some form."""
    x, positions, found = draw(), given(POSITIONS), []
    causal, documents = (
        given(torch.ones(N, N).tril().bool()),
        given(torch.tensor([0] * 2 + [1] * 4)),
    )
    if (
        kernel.rotates and type(kernel) is not Damped
    ):  # a user's own sees what attend() made of them
        found += kernel.rotate(x, x, positions, positions)
    if kernel.biases:
        found.append(kernel.lag_bias(given(POSITIONS - 5)))
    if kernel.folds:
        found += kernel.fold(positions, positions)
    if kernel.scored:
        found.append(kernel.scores(x, x, positions, positions))
    found.append(attend(x, x, x, kernel, q_pos=positions, keep=causal))
    found.append(attend(x[:, :, 2:], x, x, kernel, k_pos=positions))
    found.append(attend(x, x, x, kernel, segments=(documents, documents)))
    return found


def test_arrays_and_lists_answer_as_tensors_do(kernel):
    theirs = answers(kernel, lambda x: x)
    for given in GIVEN.values():
        for mine, right in zip(answers(kernel, given), theirs, strict=True):
            assert torch.equal(mine, right)


@pytest.mark.parametrize("form", GIVEN)
def test_layers_models_and_caches_take_them_too(form):
    given = GIVEN[form]
    assert torch.equal(lags(given(POSITIONS), given(POSITIONS)), lags(POSITIONS, POSITIONS))
    layer, x = AttentionLayer(32, HEADS, kernel=kernels()["rope_alibi"]), torch.ones(1, N, 32)
    causal = torch.ones(N, N).tril().bool()
    model = Decoder(DecoderConfig(vocab=8, width=32, layers=2, heads=HEADS, length=N), seed=0)
    with torch.no_grad():
        for last in (False, True):
            one = layer(x, q_pos=given(POSITIONS), keep=given(causal), last_only=last)
            assert torch.equal(one, layer(x, q_pos=POSITIONS, keep=causal, last_only=last))
        first, second = KVCache(), KVCache()
        one = layer(x, cache=first, q_pos=given(POSITIONS), keep=given(causal))
        assert torch.equal(one, layer(x, cache=second, q_pos=POSITIONS, keep=causal))
        assert torch.equal(first.positions, second.positions)
        tokens = torch.arange(N)[None]
        assert torch.equal(model(tokens, q_pos=given(POSITIONS)), model(tokens, q_pos=POSITIONS))


WRONG = [POSITIONS / 2, (POSITIONS / 2).numpy(), (POSITIONS / 2).tolist(), ["a"] * N, [[1], [2, 3]]]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    "name", ["rope", "rope_ntk_dynamic", "jordan", "jordan_lag", "alibi", "direct_sum"]
)
def test_positions_that_are_no_integers_are_refused(name, wrong):
    kernel, x = kernels()[name], draw()
    with pytest.raises(ValueError, match="q_pos") as refusal:
        attend(x, x, x, kernel, q_pos=wrong)
    assert "\n" not in str(refusal.value)
    if kernel.rotates and type(kernel) is not Damped:
        with pytest.raises(ValueError, match="q_pos"):
            kernel.rotate(x, x, wrong, POSITIONS)


def test_biases_between_whole_lags_are_continued_or_refused(kernel):
    if not kernel.biases:
        return
    ends = kernel.lag_bias(torch.tensor([2, 3]))
    try:
        between = kernel.lag_bias(torch.tensor([2.5]))
    except ValueError as refusal:
        assert "whole" in str(refusal)
        return
    assert bool(((between != ends[:, :1]) & (between != ends[:, 1:])).all())


def test_an_empty_batch_gives_an_empty_answer(kernel):
    for backend in ("auto", "eager", "sdpa", "toeplitz", "fold"):
        empty_batches(kernel, backend)


def empty_batches(kernel, backend: str) -> None:
    x = draw(0)
    rows = POSITIONS.expand(0, N)
    for options in (
        {},
        {"q_pos": rows},
        {"q_pos": POSITIONS},
        {"keep": torch.ones(0, 1, 1, N, dtype=torch.bool)},
        {"q_pos": rows, "keep": torch.ones(N, N, dtype=torch.bool), "causal": False},
        {"segments": (rows, rows)},
    ):
        try:
            attend(
                draw(1),
                draw(1),
                draw(1),
                kernel,
                backend=backend,
                causal=options.get("causal", True),
            )
        except ValueError:
            continue  # a backend that does not take this kernel
        try:
            empty = attend(x, x, x, kernel, backend=backend, **options)
        except ValueError as refusal:
            assert f"backend {backend!r} cannot take" in str(refusal)
            continue
        assert empty.shape == x.shape
