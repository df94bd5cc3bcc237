"""What mixes a token with the few before it outside attention: short convolutions and token shift."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad


class ShortConvolution(nn.Module):
    """A causal depthwise convolution with a residual, ``y_t = x_t + sum_s w_s x_{t-s}``, s < size.

    Every channel has its own ``size`` numbers; all start at 0, so the layer starts as the identity.
    It is the other way to have the root 0: a near-lag table acts on logits, this on what is read.

    Args:
        width: channels.
        size: tokens it sees, its own included.

    Limits: tokens before the first count as 0; a cache of keys does not hold its past.

    Reference: Allen-Zhu, Physics of language models 4.1 (2025), the layer called Canon-A.
    """

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size, width))

    def forward(self, x: Tensor) -> Tensor:
        """``(B, N, width)`` to the same."""
        y = x
        for s, w in enumerate(self.weight):
            y = y + w * _earlier(x, s)
        return y


class TokenShift(nn.Module):
    """Each channel mixed with the token before, ``y_t = x_t + m (x_{t-1} - x_t)``; m starts at 0.

    Args:
        width: channels.

    Limits: as :class:`ShortConvolution`.

    Reference: Peng and others, RWKV (2023).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """``(B, N, width)`` to the same."""
        return x + self.share * (_earlier(x, 1) - x)


def _earlier(x: Tensor, steps: int) -> Tensor:
    """What stood ``steps`` tokens before, 0 where nothing did: ``(B, N, width)``."""
    return pad(x, (0, 0, steps, 0))[:, : x.shape[1]] if steps else x
