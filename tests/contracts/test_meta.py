"""A forward pass on meta tensors gives shapes and types, for every kernel on both sides of thresholds."""

from __future__ import annotations

import pytest
import torch

from pjrope import Decoder, DecoderConfig
from pjrope.attention import attend
from tests.kernels.catalogue import HEAD_DIM, HEADS, LENGTH, NAMES, kernels


@pytest.mark.parametrize("name", NAMES)
def test_attention_on_meta_tensors(name):
    kernel = kernels()[name].to("meta")
    for tokens in (40, 600):  # masks and a table, each by default
        x = torch.empty(1, HEADS, tokens, HEAD_DIM, device="meta")
        y = attend(x, x, x, kernel)
        assert y.is_meta and y.shape == x.shape and y.dtype == x.dtype


@pytest.mark.parametrize("name", ["none", "rope", "jordan", "pj_full", "rope_alibi", "near_table"])
def test_a_decoder_on_meta_tensors(name):
    config = DecoderConfig(
        vocab=8, width=HEADS * HEAD_DIM, layers=2, heads=HEADS, length=LENGTH,
        kernel=kernels()[name].spec,
    )  # fmt: skip
    logits = Decoder(config).to("meta")(torch.zeros(1, 40, dtype=torch.long, device="meta"))
    assert logits.is_meta and logits.shape == (1, 40, 8)
