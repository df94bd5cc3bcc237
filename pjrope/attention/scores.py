"""Logits and biases of a call, block by block."""

from __future__ import annotations

import torch
from torch import Tensor

from ..conventions import wide
from ..positions.lags import lags
from .blocks import Block
from .call import Call
from .overflow import check_finite, largest_lag


class Scores:
    """What blocks share, computed before any of them: none may own it when it is recomputed.

    Args:
        call: the checked call.

    Raises:
        ValueError: a bias of unknown growth that is not finite at some lag of the call.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        apart = call.local or call.scored
        self._rotated = None if apart else call.rotated()
        self.table, self._first = call.table, 0
        if call.biases and self.table is None:
            self.table, self._first = _lag_table(call)

    def rotated(self, block: Block) -> tuple[Tensor, Tensor]:
        """Rotated queries of a block and the keys it sees, in one dtype, keys not yet repeated."""
        start, stop, low, high = block
        if self._rotated is not None:
            q, k = self._rotated
            return q[:, :, start:stop], k[:, :, low:high]
        call = self.call
        origin = call.q_pos[..., start : start + 1]
        q, k = call.q[:, :, start:stop], call.k[:, :, low:high]
        return call.kernel.rotate(
            q, k, call.q_pos[..., start:stop] - origin, self._from(origin, block)
        )

    def _from(self, origin: Tensor, block: Block) -> Tensor:
        """Key positions counted from an origin; hidden keys stand at it: out there they could overflow.

        Exact: no query of the block sees the keys of other documents.
        """
        shifted = self.call.k_pos[..., block.low : block.high] - origin
        kept = self.call.masks.without_causal(block)
        if kept is None:
            return shifted
        seen = kept.any(-2)
        return torch.where(seen.any(1) if seen.ndim == 3 else seen, shifted, 0)

    def logits(self, block: Block) -> Tensor:
        """Scaled scores of a block without bias, ``(B, H, rows, keys)`` in fp32 or better."""
        call, number = self.call, wide(self.call.q)
        if not call.scored:
            q, k = self.rotated(block)
            return (q.to(number) @ call.spread(k).to(number).transpose(-1, -2)) * call.scale
        start, stop, low, high = block
        origin = call.q_pos[..., start : start + 1]
        q, k = call.q[:, :, start:stop], call.k[:, :, low:high]
        found = call.kernel.scores(
            q, k, call.q_pos[..., start:stop] - origin, self._from(origin, block)
        )
        if found is None:
            raise TypeError(f"{type(call.kernel).__name__}.scores() gave None and scored is True")
        return found.to(number) * call.scale

    def bias(self, block: Block) -> Tensor | None:
        """The bias of a block, broadcastable to ``(B, H, rows, keys)``, or None.

        The kernel is asked once per lag, never per pair.
        """
        call = self.call
        if not call.biases:
            return None
        # `unfold` would fix the length of a compiled graph; there an indexed read is fused anyway.
        if self.table is not None and call.default_positions and not torch.compiler.is_compiling():
            return self._as_windows(self.table, block)[None]
        start, stop, low, high = block
        d = lags(call.q_pos[..., start:stop], call.k_pos[..., low:high])
        if self.table is not None:
            values = self.table[:, self._entry(d)]
        else:
            known, where = torch.unique(d, return_inverse=True)
            values = bias_at(call, known)[:, where]
        return values[None] if d.ndim == 2 else values.transpose(0, 1)

    def _entry(self, d: Tensor) -> Tensor:
        """Where the table holds these lags; one that begins at 0 has no others that count."""
        return d - self._first if self._first else d.abs()

    def _as_windows(self, table: Tensor, block: Block) -> Tensor:
        # Along a row the lag falls by one per key: each row is a window into the mirrored table.
        start, stop, low, high = block
        first, device = self.call.masks.apart + start, table.device
        falling = torch.arange(first + (stop - start) - 1 - low, first - high, -1, device=device)
        mirrored = table[:, self._entry(falling)]
        return mirrored.unfold(-1, high - low, 1).flip(1)

    def mask(self, block: Block) -> Tensor | None:
        """Mask of a block, broadcastable to ``(B, H, rows, keys)``; None if all may attend."""
        return self.call.masks.of(block, self.call.q.device)


def bias_at(call: Call, at: Tensor) -> Tensor:
    """The bias at these lags, ``(H, n)`` in fp32 or better.

    Raises:
        ValueError: a kernel of unknown growth whose bias is not finite at a lag the call reaches.
    """
    values = call.kernel.lag_bias(at)
    if values is None:
        raise TypeError(f"{type(call.kernel).__name__}.lag_bias() gave None and biases is True")
    values = values.to(wide(call.q))
    check_finite(call.kernel, values, at, call.q_pos, call.k_pos, call.masks)
    return values


def _lag_table(call: Call) -> tuple[Tensor | None, int]:
    """The bias at consecutive lags and the first of them; None where lags are too sparse.

    Lags below 0 are keys ahead of their query; a bias need not be even.
    """
    if call.default_positions:
        last = max(call.queries, call.keys) - 1
        first = 0 if call.masks.causal else -last
    else:
        last = largest_lag(call.q_pos, call.k_pos)
        if last > 4 * (call.queries + call.keys) + 1024:
            return None, 0
        first = -last
    return bias_at(call, torch.arange(first, last + 1, device=call.q.device)), first
