"""Decoding from a cache equals a full pass, beyond the training length too, or is refused."""

from __future__ import annotations

import pytest
import torch

from pjrope import Decoder, DecoderConfig
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


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: str(d).removeprefix("torch."))
@pytest.mark.parametrize("name", NAMES)
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
