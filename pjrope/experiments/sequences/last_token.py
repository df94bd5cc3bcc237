"""Asking a decoder at its last position only: the same numbers for about half the work."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, linear

from ...attention import attend
from ...models import Decoder, DecoderConfig

TOKENS_PER_BATCH = 16_384


class LastToken(nn.Module):
    """A decoder's logits behind its last token, ``(B, N) -> (B, 1, answers)``.

    The top block needs keys and values of all tokens, but a query and an MLP of the last alone.

    Args:
        decoder: a tied :class:`Decoder`.
        answers: the first so many tokens of the vocabulary are possible answers.
    """

    def __init__(self, decoder: Decoder, answers: int) -> None:
        super().__init__()
        self.decoder, self.answers = decoder, answers

    @property
    def config(self) -> DecoderConfig:
        return self.decoder.config

    @property
    def kernels(self) -> list[nn.Module]:
        """The position kernel of each layer."""
        return [block.attention.kernel for block in self.decoder.blocks]

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.decoder.embedding(tokens)
        *lower, top = self.decoder.blocks
        for block in lower:
            x = block(x)
        x, seen = x[:, -1:], top.attention_norm(x)
        layer = top.attention
        q, k, v = (
            f(y).unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
            for f, y in ((layer.query, seen[:, -1:]), (layer.key, seen), (layer.value, seen))
        )
        y = attend(q, k, v, layer.kernel, causal=layer.causal, backend=layer.backend)
        x = x + layer.out(y.transpose(1, 2).flatten(2))
        x = x + top.down(gelu(top.up(top.mlp_norm(x))))
        return linear(self.decoder.norm(x), self.decoder.embedding.weight[: self.answers])


@torch.no_grad()
def examine(model: nn.Module, tokens: Tensor, labels: Tensor) -> dict[str, Any]:
    """Accuracy and loss of the answers, in batches of bounded size.

    Args:
        model: ``(B, N)`` to ``(B, 1, answers)``.
        tokens: ``(n, N)`` int64.
        labels: ``(n, 1)`` int64.

    Returns:
        ``accuracy``, ``loss`` in nats, ``sequences`` n, and ``standard_error`` of the accuracy,
        ``sqrt(a (1 - a) / n)``.
    """
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    rows = max(1, TOKENS_PER_BATCH // tokens.shape[1])
    logits = torch.cat([model(batch.to(device)).float().cpu() for batch in tokens.split(rows)])
    model.train(training)
    right = (logits.argmax(-1) == labels).double().mean().item()
    return {
        "accuracy": right,
        "loss": float(cross_entropy(logits.double().flatten(0, 1), labels.flatten())),
        "sequences": len(tokens),
        "standard_error": math.sqrt(right * (1 - right) / len(tokens)),
    }
