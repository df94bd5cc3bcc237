"""Decoding from a cache equals a full pass, beyond the training length too, or is refused."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters

from pjrope import ALiBi, Decoder, DecoderConfig, RoPE
from tests.kernels.catalogue import HEAD_DIM, HEADS, LENGTH, NAMES, kernels

STEPS = (LENGTH + 4, 1, 1, LENGTH, 1)  # a prompt beyond the training length, tokens, a guessed run
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 0.06, torch.float16: 0.01}


def model_of(name: str, layers: int = 2) -> Decoder:
    config = DecoderConfig(
        vocab=16, width=HEADS * HEAD_DIM, layers=layers, heads=HEADS, length=LENGTH
    )
    model = Decoder(config, seed=0).eval()
    for layer in model.attention_layers:
        layer.kernel = kernels()[name]
    return model


def decoded(model: Decoder, tokens: torch.Tensor) -> torch.Tensor:
    cache, found, start = model.new_cache(), [], 0
    for step in STEPS:
        found.append(model(tokens[:, start : start + step], cache=cache))
        start += step
    return torch.cat(found, dim=1)


NARROW = [dtype for dtype in TOLERANCE if dtype is not torch.float64]
# Every kernel in fp64 and in one narrow type, each of them in turn.
CASES = [(name, dtype) for k, name in enumerate(NAMES) for dtype in (torch.float64, NARROW[k % 3])]


@pytest.mark.parametrize(("name", "dtype"), CASES)
@torch.no_grad()
def test_a_cache_answers_as_a_full_pass_does_or_is_refused(name, dtype):
    tokens = torch.randint(16, (2, sum(STEPS)), generator=torch.Generator().manual_seed(0))
    model = model_of(name).to(dtype)
    free = all(layer.kernel.claims.length_free for layer in model.attention_layers)
    if not free:
        with pytest.raises(ValueError, match="no cache for this model"):
            model.new_cache()
        model = model_of(name, layers=1).to(dtype)  # one layer: nothing above it has gone stale
    full = model(tokens)
    if free:
        assert bool(torch.isfinite(full).all())
        size = float(full.abs().max())
        torch.testing.assert_close(
            decoded(model, tokens), full, rtol=0, atol=TOLERANCE[dtype] * max(1.0, size)
        )
        return
    # The factor of the full pass is that of its last token, so only that one must agree.
    last = decoded(model, tokens)[:, -1]
    torch.testing.assert_close(last, full[:, -1], rtol=0, atol=TOLERANCE[dtype])


@torch.no_grad()
def test_compiled_decoding_is_compiled_once_for_a_prompt_and_once_for_a_token():
    """Cached attention stays outside the graphs, so that a longer cache asks for no new one."""
    config = DecoderConfig(
        vocab=13, width=16, layers=2, heads=2, length=16, kernel=(RoPE(8) + ALiBi(2)).spec
    )
    model = Decoder(config, seed=0).eval()
    tokens = torch.randint(13, (1, 20), generator=torch.Generator().manual_seed(0))
    compiled, cache, graphs = torch.compile(model, backend="eager"), model.new_cache(), []
    torch._dynamo.reset()
    counters.clear()
    rows = [compiled(tokens[:, :4], cache=cache)]
    for n in range(4, 20):
        rows.append(compiled(tokens[:, n : n + 1], cache=cache))
        graphs.append(counters["stats"]["unique_graphs"])
    torch.testing.assert_close(torch.cat(rows, 1), model(tokens), rtol=1e-4, atol=1e-5)
    assert graphs[0] > 0 and len(set(graphs)) == 1, graphs
