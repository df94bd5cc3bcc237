"""Random models of transformers, small enough for a test: two layers, width 32."""

from __future__ import annotations

import pytest
import torch

transformers = pytest.importorskip("transformers", minversion="5")

WIDE = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 64}
GROUPED = {"num_key_value_heads": 2, "intermediate_size": 48}
SHAPES = {
    "llama": ("LlamaConfig", GROUPED),
    "qwen3": ("Qwen3Config", GROUPED | {"head_dim": 8}),
    "mistral": ("MistralConfig", GROUPED | {"sliding_window": 6}),
    "gemma2": ("Gemma2Config", GROUPED | {"head_dim": 8, "sliding_window": 6}),
    "gemma3": ("Gemma3TextConfig", GROUPED | {"head_dim": 8, "sliding_window": 6}),
    "gpt_neox": ("GPTNeoXConfig", {"intermediate_size": 48}),
}
LAYERS = {"gemma3": {"layer_types": ["sliding_attention", "full_attention"]}}


def tiny(kind="llama", seed=0, dtype=None, **more):
    """A model of a kind with random weights, in evaluation mode."""
    name, shape = SHAPES[kind]
    special = {"max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1}
    config = getattr(transformers, name)(
        **(WIDE | shape | special | LAYERS.get(kind, {}) | {"eos_token_id": None} | more)
    )
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():  # larger than usual, so that attention is not flat
        if parameter.ndim > 1:
            parameter.data.mul_(6.0)
    return model.to(dtype).eval()


def tokens(rows=2, length=20, seed=1):
    return torch.randint(1, 64, (rows, length), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def logits(model, ids, **more):
    return model(ids, **more).logits
