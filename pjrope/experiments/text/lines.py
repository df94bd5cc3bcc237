"""What counting letters already predicts: the lines below which a byte model starts to be one."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["bigram_losses", "unigram_losses"]


def unigram_losses(train: Tensor, text: Tensor, at: Tensor, vocab: int) -> Tensor:
    """Loss of each scored token by its share in the training text, counts raised by one.

    Args:
        train: ``(n,)`` integer tokens.
        text: ``(m,)`` integer tokens.
        at: indices into ``text`` of what is scored, any shape.
        vocab: number of token values.

    Returns:
        nats per token, the shape of ``at``, fp64.
    """
    counts = torch.bincount(train.long(), minlength=vocab).double() + 1
    return -(counts / counts.sum()).log()[text[at].long()]


def bigram_losses(train: Tensor, text: Tensor, at: Tensor, vocab: int) -> Tensor:
    """The same by the share after the token before, pair counts raised by ``1/vocab``.

    Args:
        train, text, at, vocab: as in :func:`unigram_losses`; ``at`` >= 1.
    """
    pairs = train[:-1].long() * vocab + train[1:].long()
    counts = torch.bincount(pairs, minlength=vocab * vocab).double().view(vocab, vocab) + 1 / vocab
    share = counts / counts.sum(1, keepdim=True)
    return -share.log()[text[at - 1].long(), text[at].long()]
