"""One attention call, checked once: what every backend works from, block by block.

The rule that keeps the relative law far out lives here. A channel action that is not orthogonal
grows with absolute position, so for a kernel that claims ``relative`` positions are counted from
the middle of those in the call (:func:`make_problem`), and where they spread wider than one origin
serves, each query block is rotated about its own first position, and the keys with it
(:meth:`Problem.rotated`). A kernel that does not claim it is never shifted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..conventions import wide
from ..kernels.base import PositionKernel
from ..kernels.growth import FURTHEST
from ..positions.lags import Causal, causal_keep, check_causal, lags, segment_keep, visible_keys
from .alignment import find_offset
from .checks import check_keep, check_kernel, check_positions, check_segments, check_tensors
from .overflow import check_distance, largest_lag, may_overflow

BLOCK_NUMBERS = 2**24  # logits of one query block, over batch and heads: 64 MB in fp32
LARGEST_BLOCK = 512
_UNKNOWN = object()


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
        far: the positions spread wider than one origin serves.
        peaked: fp16 would not hold far keys of a damped kernel before the damping wins.
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
    far: bool = False
    peaked: bool = False
    turned: tuple[Tensor, Tensor] | None = field(default=None, init=False)
    table: Tensor | None = field(default=None, init=False)
    offset_found: Any = field(default=_UNKNOWN, init=False)

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
        return self.far and self.kernel.rotates

    @property
    def number(self) -> torch.dtype:
        """Number type in which rotated channels meet: that of q, or fp32 where it would not do.

        Channels that grow about an origin which cannot be moved lose their differences in bf16, and
        so do far keys where scores themselves grow with the lag.
        """
        claims = self.kernel.claims
        near = claims.relative and (claims.bounded or not self.local) and not self.peaked
        grown = self.kernel.rotates and not (near or claims.norm_preserving)
        return wide(self.q) if grown else self.q.dtype

    @property
    def training(self) -> bool:
        """True if gradients are wanted, of inputs or of the kernel's parameters."""
        wanted = (self.q, self.k, self.v, *self.kernel.parameters())
        return torch.is_grad_enabled() and any(x.requires_grad for x in wanted)

    @property
    def masked(self) -> bool:
        """True if anything but plain causality hides keys."""
        return self.keep is not None or self.segments is not None or self.causal == "strict"

    @property
    def block(self) -> int:
        """Queries per block: its logits stay within BLOCK_NUMBERS, its positions within reach."""
        rows = BLOCK_NUMBERS // max(1, self.q.shape[0] * self.q.shape[1] * self.keys)
        return self._near(max(16, min(LARGEST_BLOCK, rows)))

    def _near(self, rows: int) -> int:
        """So many rows, or fewer where each block needs an origin and the kernel's reach is short."""
        if not (self.local or self.kernel.scored):
            return rows
        return _rows_within_reach(self.kernel, self.q.dtype, rows)

    @property
    def offset(self) -> int | None:
        """What every lag exceeds its distance in indices by, if that is one number, else None.

        Only pairs that may attend count, so padding and packed documents have one too. Indices are
        aligned at the bottom right, as causality is. Read once from the positions.
        """
        if self.offset_found is _UNKNOWN:
            self.offset_found = 0 if self.plain else find_offset(self)
        return self.offset_found

    def blocks(self, largest: int | None = None) -> list[tuple[int, int, int]]:
        """``(start, stop, keys)``: query rows and how many leading keys the block can see.

        Args:
            largest: rows of a block that stores no logits; default as many as :attr:`block` says.
        """
        size = self.block if largest is None else self._near(largest)
        if (self.local or self.kernel.scored) and not self.plain:
            ends = self._within_reach(size)
        elif self.queries <= size:  # apart, so that torch.compile need not fix the length
            ends = [(0, self.queries)]
        else:
            starts = range(0, self.queries, size)
            ends = [(start, min(self.queries, start + size)) for start in starts]
        return [
            (start, stop, max(1, visible_keys(stop - 1, self.queries, self.keys, self.causal)))
            for start, stop in ends
        ]

    def _within_reach(self, size: int) -> list[tuple[int, int]]:
        """Blocks of queries whose positions lie within the kernel's reach of their first one."""
        reach = self.kernel.reach(self.q.dtype)
        rows = self.q_pos.view(-1, self.queries).T.tolist()
        ends, start = [], 0
        for n, row in enumerate(rows):
            jumped = any(abs(a - b) > reach for a, b in zip(row, rows[start], strict=True))
            if jumped or n - start == size:
                ends.append((start, n))
                start = n
        return [*ends, (start, self.queries)]

    def prepare(self) -> None:
        """Compute what blocks share, before any block: none may own it when it is recomputed."""
        if not (self.local or self.kernel.scored):
            self.turned = self.kernel.rotate(self.q, self.k, self.q_pos, self.k_pos)
        if self.kernel.biases and self.table is None:
            self.table = self._make_table()

    def rotated(self, start: int, stop: int, keys: int) -> tuple[Tensor, Tensor]:
        """Rotated queries of a block and the keys it sees, in one dtype, keys not yet repeated."""
        if not self.local:
            q, k = self.turned
            return q[:, :, start:stop], k[:, :, :keys]
        q_pos, k_pos = self.q_pos[..., start:stop], self.k_pos[..., :keys]
        origin = q_pos[..., :1]
        return self.kernel.rotate(
            self.q[:, :, start:stop],
            self.k[:, :, :keys],
            q_pos - origin,
            self._hidden_to_origin(k_pos - origin, start, stop, keys),
        )

    def _hidden_to_origin(self, k_pos: Tensor, start: int, stop: int, keys: int) -> Tensor:
        """Shifted positions where keys of other documents stand at 0: out there they could overflow.

        Exact: no query of the block sees those keys.
        """
        kept = self.kept_beside(start, stop, keys)
        if kept is None:
            return k_pos
        seen = kept.any(-2)
        return torch.where(seen.any(1) if seen.ndim == 3 else seen, k_pos, 0)

    def logits(self, start: int, stop: int, keys: int) -> Tensor:
        """Scaled scores of a block without bias, ``(B, H, rows, keys)`` in fp32 or better."""
        number = wide(self.q)
        if self.kernel.scored:
            origin = self.q_pos[..., start : start + 1]
            scores = self.kernel.scores(
                self.q[:, :, start:stop],
                self.k[:, :, :keys],
                self.q_pos[..., start:stop] - origin,
                self._hidden_to_origin(self.k_pos[..., :keys] - origin, start, stop, keys),
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
            last = largest_lag(self.q_pos, self.k_pos)
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
        beside = self.kept_beside(start, stop, keys)
        if (
            self.causal is False
            or visible_keys(start, self.queries, self.keys, self.causal) >= keys
        ):
            return beside
        rows = causal_keep(
            self.queries, self.keys, self.causal, start=start, stop=stop, device=self.q.device
        )[:, :keys]
        return rows if beside is None else rows & beside

    def kept_beside(self, start: int, stop: int, keys: int) -> Tensor | None:
        """The same without causality: what ``segments`` and ``keep`` allow."""
        parts = []
        if self.segments is not None:
            q_seg, k_seg = self.segments
            same = segment_keep(q_seg[..., start:stop], k_seg[..., :keys])
            parts.append(same[:, None] if same.ndim == 3 else same)
        if self.keep is not None:
            rows = self.keep if self.keep.shape[-2] == 1 else self.keep[..., start:stop, :]
            parts.append(rows if rows.shape[-1] == 1 else rows[..., :keys])
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]


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
    check_tensors(q, k, v)
    check_kernel(kernel, q.shape[1], k.shape[1], q.shape[3])
    check_causal(causal)
    q_pos, k_pos, plain = check_positions(q, k, q_pos, k_pos)
    far = peaked = False
    if kernel.rotates and kernel.claims.relative and not kernel.stays_in_range:
        q_pos, k_pos, far = _about_middle(kernel, q.dtype, q_pos, k_pos, plain)
        peaked = far and q.dtype == torch.float16 and _peaks(kernel)
    shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    problem = Problem(
        q=q,
        k=k,
        v=v,
        kernel=kernel,
        q_pos=q_pos,
        k_pos=k_pos,
        plain=plain,
        causal=causal,
        keep=check_keep(keep, shape),
        segments=check_segments(segments, q, k),
        scale=1 / math.sqrt(q.shape[3]) if scale is None else float(scale),
        far=far,
        peaked=peaked,
    )
    if not torch.compiler.is_compiling() and may_overflow(kernel):
        check_distance(problem)
    return problem


# What reads parameters stays outside compiled graphs: a reach fixed at compile time would overflow
# once training has moved it, and one that is guarded on would compile anew at every step.
@torch.compiler.disable
def _rows_within_reach(kernel: PositionKernel, number: torch.dtype, rows: int) -> int:
    return max(1, int(min(rows, kernel.reach(number))))


@torch.compiler.disable
def _peaks(kernel: PositionKernel) -> bool:
    return kernel.largest(float(FURTHEST)) > torch.finfo(torch.float16).max


@torch.compiler.disable
def _about_middle(
    kernel: PositionKernel, number: torch.dtype, q_pos: Tensor, k_pos: Tensor, plain: bool
) -> tuple[Tensor, Tensor, bool]:
    """Positions counted from the middle of their range, for a kernel that grows with position.

    Returns:
        q_pos, k_pos, and whether they spread too far for one origin; then they are left alone.
    """
    if plain:
        queries, keys = q_pos.shape[-1], k_pos.shape[-1]
        low, span = min(0, keys - queries), max(queries, keys)
    else:
        low = torch.minimum(q_pos.amin(-1, keepdim=True), k_pos.amin(-1, keepdim=True))
        high = torch.maximum(q_pos.amax(-1, keepdim=True), k_pos.amax(-1, keepdim=True))
        span = int((high - low).max()) if low.numel() else 0
    if span > 2 * kernel.reach(number):
        return q_pos, k_pos, True
    middle = low + span // 2
    return q_pos - middle, k_pos - middle, False
