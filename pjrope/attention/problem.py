"""One attention call, checked once: what every backend works from, block by block.

The rule that keeps the relative law far out lives in :meth:`Problem.rotated`. A channel action that
is not orthogonal grows with absolute position, so for a kernel that claims ``relative`` each query
block is rotated about its own first position, and the keys with it. One that does not claim it is
never shifted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..conventions import as_positions, wide
from ..kernels.base import PositionKernel
from ..positions.lags import Causal, causal_keep, check_causal, lags, segment_keep, visible_keys

BLOCK_NUMBERS = 2**24  # logits of one query block, over batch and heads: 64 MB in fp32
LARGEST_BLOCK = 512


@dataclass(eq=False)
class Problem:
    """A checked attention call.

    Attributes:
        q: ``(B, H, Q, D)``.
        k: ``(B, Hk, K, D)``.
        v: ``(B, Hk, K, Dv)``.
        kernel: the position kernel.
        q_pos: ``(Q,)`` or ``(B, Q)`` int64, tokens.
        k_pos: ``(K,)`` or ``(B, K)`` int64, tokens.
        plain: positions are the default 0 … K-1, queries last.
        causal: True, False or "strict".
        keep: broadcastable to ``(B, H, Q, K)``, or None.
        segments: document ids of queries and keys, or None.
        scale: multiplies q . k.
        turned: rotated q and k where one origin serves all blocks, set by :meth:`prepare`.
        table: the bias once per lag, ``(H, n)``, set by :meth:`prepare`; None where lags are too
            sparse for a table.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    kernel: PositionKernel
    q_pos: Tensor
    k_pos: Tensor
    plain: bool
    causal: Causal
    keep: Tensor | None
    segments: tuple[Tensor, Tensor] | None
    scale: float
    turned: tuple[Tensor, Tensor] | None = field(default=None, init=False)
    table: Tensor | None = field(default=None, init=False)

    @property
    def queries(self) -> int:
        return self.q.shape[2]

    @property
    def keys(self) -> int:
        return self.k.shape[2]

    @property
    def groups(self) -> int:
        """Query heads per key head."""
        return self.q.shape[1] // self.k.shape[1]

    @property
    def local(self) -> bool:
        """True if every block needs an origin of its own."""
        claims = self.kernel.claims
        return self.kernel.rotates and claims.relative and not claims.norm_preserving

    @property
    def masked(self) -> bool:
        """True if anything but plain causality hides keys."""
        return self.keep is not None or self.segments is not None or self.causal == "strict"

    @property
    def block(self) -> int:
        """Queries per block, so that a block's logits stay within BLOCK_NUMBERS."""
        rows = BLOCK_NUMBERS // max(1, self.q.shape[0] * self.q.shape[1] * self.keys)
        return max(16, min(LARGEST_BLOCK, rows))

    def blocks(self) -> list[tuple[int, int, int]]:
        """``(start, stop, keys)``: query rows and how many leading keys the block can see."""
        size = self.block
        if self.queries <= size:  # apart, so that torch.compile need not fix the length
            ends = [(0, self.queries)]
        else:
            starts = range(0, self.queries, size)
            ends = [(start, min(self.queries, start + size)) for start in starts]
        return [
            (start, stop, max(1, visible_keys(stop - 1, self.queries, self.keys, self.causal)))
            for start, stop in ends
        ]

    def prepare(self) -> None:
        """Compute what blocks share, before any block: none may own it when it is recomputed."""
        if not (self.local or self.kernel.scored):
            self.turned = self.kernel.rotate(self.q, self.k, self.q_pos, self.k_pos)
        if self.kernel.biases:
            self.table = self._make_table()

    def rotated(self, start: int, stop: int, keys: int) -> tuple[Tensor, Tensor]:
        """Rotated queries of a block and the keys it sees, in one dtype, keys not yet repeated."""
        if not self.local:
            q, k = self.turned
            return q[:, :, start:stop], k[:, :, :keys]
        q_pos, k_pos = self.q_pos[..., start:stop], self.k_pos[..., :keys]
        origin = q_pos[..., :1]
        return self.kernel.rotate(
            self.q[:, :, start:stop], self.k[:, :, :keys], q_pos - origin, k_pos - origin
        )

    def logits(self, start: int, stop: int, keys: int) -> Tensor:
        """Scaled scores of a block without bias, ``(B, H, rows, keys)`` in fp32 or better."""
        number = wide(self.q)
        if self.kernel.scored:
            scores = self.kernel.scores(
                self.q[:, :, start:stop],
                self.k[:, :, :keys],
                self.q_pos[..., start:stop],
                self.k_pos[..., :keys],
            )
            return scores.to(number) * self.scale
        q, k = self.rotated(start, stop, keys)
        return (q.to(number) @ self.spread(k).to(number).transpose(-1, -2)) * self.scale

    def spread(self, x: Tensor) -> Tensor:
        """Key heads repeated for the query heads they serve: head h reads h // groups."""
        return x if self.groups == 1 else x.repeat_interleave(self.groups, dim=1)

    def _make_table(self) -> Tensor | None:
        if self.plain:
            last = max(self.queries, self.keys) - 1
        else:
            ends = torch.stack(
                [
                    self.q_pos.max() - self.k_pos.min(),
                    self.k_pos.max() - self.q_pos.min(),
                ]
            )
            last = int(ends.max())
            if last > 4 * (self.queries + self.keys) + 1024:
                return None
        return self.kernel.lag_bias(torch.arange(last + 1, device=self.q.device)).to(wide(self.q))

    def bias(self, start: int, stop: int, keys: int) -> Tensor | None:
        """The bias of a block, broadcastable to ``(B, H, rows, keys)``, or None.

        The kernel is asked once per lag, never per pair.
        """
        if not self.kernel.biases:
            return None
        # `unfold` would fix the length of a compiled graph; there an indexed read is fused anyway.
        if self.plain and not torch.compiler.is_compiling():
            return self._plain_bias(start, stop, keys)[None]
        d = lags(self.q_pos[..., start:stop], self.k_pos[..., :keys]).abs()
        if self.table is not None:
            values = self.table[:, d]
        else:
            known, where = torch.unique(d, return_inverse=True)
            values = self.kernel.lag_bias(known).to(wide(self.q))[:, where]
        return values[None] if d.ndim == 2 else values.transpose(0, 1)

    def _plain_bias(self, start: int, stop: int, keys: int) -> Tensor:
        # Along a row the lag falls by one per key: each row is a window into the mirrored table.
        first = self.keys - self.queries + start
        window = torch.arange(first + (stop - start) - 1, first - keys, -1, device=self.q.device)
        mirrored = self.table[:, window.abs()]
        return mirrored.unfold(-1, keys, 1).flip(1)

    def kept(self, start: int, stop: int, keys: int) -> Tensor | None:
        """Mask of a block, broadcastable to ``(B, H, rows, keys)``; None if all may attend."""
        parts = []
        if self.causal is not False:
            seen = visible_keys(start, self.queries, self.keys, self.causal)
            if seen < keys:
                rows = causal_keep(
                    self.queries,
                    self.keys,
                    self.causal,
                    start=start,
                    stop=stop,
                    device=self.q.device,
                )
                parts.append(rows[:, :keys])
        if self.segments is not None:
            q_seg, k_seg = self.segments
            same = segment_keep(q_seg[..., start:stop], k_seg[..., :keys])
            parts.append(same[:, None] if same.ndim == 3 else same)
        if self.keep is not None:
            rows = self.keep if self.keep.shape[-2] == 1 else self.keep[..., start:stop, :]
            parts.append(rows if rows.shape[-1] == 1 else rows[..., :keys])
        if not parts:
            return None
        whole = parts[0]
        for part in parts[1:]:
            whole = whole & part
        return whole


def _check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, (batch, heads, tokens, channels) is needed"
            )
    if k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"k {tuple(k.shape)} and v {tuple(v.shape)} differ in batch, heads or tokens"
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"q {tuple(q.shape)} and k {tuple(k.shape)} differ in batch or channels")
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"{q.shape[1]} query heads are no multiple of {k.shape[1]} key heads")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q, k, v have dtypes {q.dtype}, {k.dtype}, {v.dtype}: cast them to one")
    if q.shape[2] == 0 or k.shape[2] == 0:
        raise ValueError(
            f"{q.shape[2]} queries and {k.shape[2]} keys: at least one of each is needed"
        )


def _check_kernel(kernel: PositionKernel, q: Tensor, k: Tensor) -> None:
    wants = (
        ("query heads", kernel.bias_heads if kernel.biases else None, q.shape[1]),
        ("key heads", kernel.rotary_heads, k.shape[1]),
        ("channels per head", kernel.head_dim, q.shape[3]),
    )
    for what, wanted, given in wants:
        if wanted is not None and wanted != given:
            raise ValueError(
                f"{type(kernel).__name__} was made for {wanted} {what}, the call has {given}"
            )


def _positions(
    q: Tensor, k: Tensor, q_pos: Tensor | None, k_pos: Tensor | None
) -> tuple[Tensor, Tensor, bool]:
    """Checked int64 positions of one rank, and whether they are the default ones."""
    queries, keys = q.shape[2], k.shape[2]
    if q_pos is None and k_pos is None:
        rows = torch.arange(keys, device=q.device)
        last = torch.arange(keys - queries, keys, device=q.device)
        return last, rows, True
    if k_pos is None and queries == keys:
        k_pos = q_pos
    if q_pos is None and queries <= keys:
        q_pos = k_pos[..., keys - queries :]
    if q_pos is None or k_pos is None:
        raise ValueError(
            f"positions of {queries} queries and {keys} keys: pass both q_pos and k_pos"
        )
    found = []
    for name, pos, count in (("q_pos", q_pos, queries), ("k_pos", k_pos, keys)):
        pos = as_positions(pos, name).to(q.device)
        if pos.shape not in ((count,), (q.shape[0], count), (1, count)):
            raise ValueError(
                f"{name} has shape {tuple(pos.shape)}, ({count},) or ({q.shape[0]}, {count}) is needed"
            )
        found.append(pos)
    if found[0].ndim != found[1].ndim:
        found = [p if p.ndim == 2 else p[None] for p in found]
    return found[0], found[1], False


def _check_keep(keep: Tensor | None, shape: tuple[int, int, int, int]) -> Tensor | None:
    if keep is None:
        return None
    if keep.dtype != torch.bool:
        raise ValueError(
            f"keep has dtype {keep.dtype}, a boolean mask is needed: True = may attend"
        )
    if keep.ndim < 2:
        raise ValueError(f"keep has shape {tuple(keep.shape)}, (..., Q, K) is needed")
    try:
        fits = torch.broadcast_shapes(keep.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"keep has shape {tuple(keep.shape)}, which does not broadcast to (B, H, Q, K) = {shape}: "
            "a (B, K) padding mask needs keep[:, None, None, :]"
        )
    return keep


def _check_segments(
    segments: tuple[Tensor, Tensor] | None, q: Tensor, k: Tensor
) -> tuple[Tensor, Tensor] | None:
    if segments is None:
        return None
    if not isinstance(segments, tuple | list) or len(segments) != 2:
        raise ValueError("segments is a pair (q_segments, k_segments) of document ids")
    for name, ids, count in (("q", segments[0], q.shape[2]), ("k", segments[1], k.shape[2])):
        if ids.shape not in ((count,), (q.shape[0], count), (1, count)):
            raise ValueError(
                f"{name} segments have shape {tuple(ids.shape)}, (B, {count}) is needed"
            )
    q_seg, k_seg = segments
    if q_seg.ndim != k_seg.ndim:
        q_seg, k_seg = (s if s.ndim == 2 else s[None] for s in (q_seg, k_seg))
    return q_seg, k_seg


def make_problem(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    kernel: PositionKernel,
    *,
    q_pos: Tensor | None = None,
    k_pos: Tensor | None = None,
    causal: Causal = True,
    keep: Tensor | None = None,
    segments: tuple[Tensor, Tensor] | None = None,
    scale: float | None = None,
) -> Problem:
    """Check the arguments of an attention call and fill in defaults.

    Raises:
        ValueError: anything that does not fit, naming what was given and what is needed.
    """
    _check_tensors(q, k, v)
    _check_kernel(kernel, q, k)
    check_causal(causal)
    q_pos, k_pos, plain = _positions(q, k, q_pos, k_pos)
    shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return Problem(
        q=q,
        k=k,
        v=v,
        kernel=kernel,
        q_pos=q_pos,
        k_pos=k_pos,
        plain=plain,
        causal=causal,
        keep=_check_keep(keep, shape),
        segments=_check_segments(segments, q, k),
        scale=1 / math.sqrt(q.shape[3]) if scale is None else float(scale),
    )
