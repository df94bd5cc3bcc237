"""torch's attention kernel, kept on its fused path."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention


def fused_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """``scaled_dot_product_attention`` of channels that may differ in number.

    torch computes all N x N weights at once where values are narrower or wider than keys, as they
    are when a kernel returns more channels than it got: empty channels keep it from that.

    Args:
        q, k: ``(B, H, Q, D)`` and ``(B, H, K, D)``.
        v: ``(B, H, K, Dv)``.
        options: of the torch function; ``scale`` must be among them.

    Returns:
        ``(B, H, Q, Dv)``.
    """
    width = max(q.shape[-1], v.shape[-1])
    q, k, w = (x if x.shape[-1] == width else pad(x, (0, width - x.shape[-1])) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, w, **options)[..., : v.shape[-1]]


def near_rows(rows: int, keys: int, like: Tensor, far: int = 0) -> Tensor:
    """Mask of a block of queries, last one first, whose last one sees all ``keys`` but the first.

    Row r hides the last r keys, so all rows are windows of one line of zeros that ends in -inf: a
    fused kernel reads the view as fast as no mask, which it does not do with a boolean one.

    Args:
        rows: queries of the block.
        keys: keys up to the last one that its last query sees.
        like: gives number type and device.
        far: leading keys that the last query does not see; each row before it sees one more.

    Returns:
        ``(rows, keys)``, to be added to the logits of the block in reverse order.
    """
    line = pad(like.new_zeros(keys - far), (far, rows - 1), value=-torch.inf)
    return line.unfold(0, keys, 1)
