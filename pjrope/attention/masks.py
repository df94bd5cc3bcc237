"""Which pairs of a call may attend, block by block: causality, a window, documents, a given mask."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..positions.lags import Causal, segment_keep, visible_keys
from .blocks import Block


@dataclass(frozen=True, eq=False)
class Masks:
    """What hides keys from queries. Indices count, aligned at the bottom right.

    Attributes:
        queries: Q.
        keys: K.
        causal: True, "strict" (not itself) or False.
        keep: broadcastable to ``(B, H, Q, K)``, True = may attend, or None.
        segments: document ids of queries and keys, or None.
        window: a query sees keys less than so many indices away, or None for all.
    """

    queries: int
    keys: int
    causal: Causal = True
    keep: Tensor | None = None
    segments: tuple[Tensor, Tensor] | None = None
    window: int | None = None

    @property
    def apart(self) -> int:
        """What a query's index lies ahead of its row."""
        return self.keys - self.queries

    @property
    def by_distance(self) -> bool:
        """True if the distance of two indices alone tells whether they may attend."""
        return self.keep is None and self.segments is None

    @property
    def masked(self) -> bool:
        """True if anything but plain causality and a window hides keys."""
        return not self.by_distance or self.causal == "strict"

    def seen(self, start: int, stop: int) -> tuple[int, int]:
        """``(low, high)``: keys that query rows ``start … stop-1`` can see at most; never none."""
        high = visible_keys(stop - 1, self.queries, self.keys, self.causal)
        low = 0
        if self.window is not None:
            low = max(0, start + self.apart - self.window + 1)
            if not self.causal:  # else causality ends before the window does
                high = min(high, max(0, stop + self.apart + self.window - 1))
        high = max(1, high)
        return min(low, high - 1), high

    def of(self, block: Block, device: torch.device) -> Tensor | None:
        """Mask of a block, broadcastable to ``(B, H, rows, keys)``; None if all may attend."""
        given, near = self.without_causal(block), self.of_distances(block, device)
        if given is None or near is None:
            return near if given is None else given
        return near & given

    def of_distances(self, block: Block, device: torch.device) -> Tensor | None:
        """What causality and the window allow: ``(rows, keys)``, or None if all of it."""
        first = visible_keys(block.start, self.queries, self.keys, self.causal)
        causal = self.causal is not False and first < block.high
        if not causal and self.window is None:
            return None
        rows = torch.arange(block.start, block.stop, device=device) + self.apart
        apart = rows[:, None] - torch.arange(block.low, block.high, device=device)
        if self.window is None:
            return apart > 0 if self.causal == "strict" else apart >= 0
        near = apart.abs() < self.window
        if not causal:
            return near
        return near & (apart > 0 if self.causal == "strict" else apart >= 0)

    def without_causal(self, block: Block) -> Tensor | None:
        """What ``segments`` and ``keep`` allow in a block, as :meth:`of`."""
        start, stop, low, high = block
        parts = []
        if self.segments is not None:
            q_seg, k_seg = self.segments
            same = segment_keep(q_seg[..., start:stop], k_seg[..., low:high])
            parts.append(same[:, None] if same.ndim == 3 else same)
        if self.keep is not None:
            rows = self.keep if self.keep.shape[-2] == 1 else self.keep[..., start:stop, :]
            parts.append(rows if rows.shape[-1] == 1 else rows[..., low:high])
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]
