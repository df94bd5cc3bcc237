"""One attention call, checked once and then left as it is: what every backend works from.

The rule that keeps the relative law far out begins here. A channel action that is not orthogonal
grows with absolute position, so for a kernel that claims ``relative`` positions are counted from
the middle of those in the call, and where they spread wider than one origin serves
(:attr:`Call.needs_local_origin`), each query block is rotated about its own first position, and the
keys with it (:meth:`.scores.Scores.rotated`). A kernel that does not claim it is never shifted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..conventions import as_tensor, wide
from ..kernels.base import PositionKernel
from ..positions.lags import Causal, check_causal
from .alignment import find_offset
from .checks import (
    check_export,
    check_keep,
    check_kernel,
    check_positions,
    check_scale,
    check_segments,
    check_tensors,
    check_window,
    real_tokens,
    with_key_keep,
)
from .finite import without_unseen
from .masks import Masks
from .origins import about_middle, grows_with_position, overflows_fp16, without_padding
from .overflow import check_distance


@dataclass(frozen=True, eq=False)
class Call:
    """A checked attention call.

    Attributes:
        q: ``(B, H, Q, D)``.
        k: ``(B, Hk, K, D)``.
        v: ``(B, Hk, K, Dv)``.
        kernel: the position kernel.
        q_pos: ``(Q,)`` or ``(B, Q)`` int64, tokens.
        k_pos: ``(K,)`` or ``(B, K)`` int64, tokens.
        masks: which pairs may attend.
        scale: multiplies q . k.
        default_positions: positions are 0 … K-1, queries last.
        needs_local_origin: the positions spread wider than one origin serves.
        fp16_overflows: fp16 would not hold far keys of a damped kernel before the damping wins.
        already_rotated: keys come with their positions worked in, the bias is still to be added.
        table: the bias once per lag, ``(H, n)``, where somebody has it already.
        known_offset: :attr:`offset`, where somebody knows it already.
        broken: keys or values hold inf or nan that some query sees and another must not.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    kernel: PositionKernel
    q_pos: Tensor
    k_pos: Tensor
    masks: Masks
    scale: float
    default_positions: bool = False
    needs_local_origin: bool = False
    fp16_overflows: bool = False
    already_rotated: bool = False
    table: Tensor | None = None
    known_offset: int | None = None
    broken: bool = False
    _found: dict[str, Any] = field(default_factory=dict, repr=False)

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
    def rotates(self) -> bool:
        """True if channels are still to be acted on."""
        return self.kernel.rotates and not self.already_rotated

    @property
    def biases(self) -> bool:
        return self.kernel.biases

    @property
    def scored(self) -> bool:
        return self.kernel.scored

    @property
    def local(self) -> bool:
        """True if every block needs an origin of its own."""
        return self.needs_local_origin and self.rotates

    @property
    def number(self) -> torch.dtype:
        """Number type in which rotated channels meet: that of q, or fp32 where it would not do.

        Channels that grow about an origin which cannot be moved lose their differences in bf16, and
        so do far keys where scores themselves grow with the lag.
        """
        claims = self.kernel.claims
        near = claims.relative and (claims.bounded or not self.local) and not self.fp16_overflows
        grown = self.rotates and not (near or claims.norm_preserving)
        return wide(self.q) if grown else self.q.dtype

    @property
    def training(self) -> bool:
        """True if gradients are wanted, of inputs or of the kernel's parameters."""
        wanted = (self.q, self.k, self.v, *self.kernel.parameters())
        return torch.is_grad_enabled() and any(x.requires_grad for x in wanted)

    @property
    def offset(self) -> int | None:
        """What every lag exceeds its distance in indices by, if that is one number, else None.

        Only pairs that may attend count, so padding and packed documents have one too. Indices are
        aligned at the bottom right, as causality is. Read once from the positions.
        """
        if self.default_positions:
            return 0
        if self.known_offset is not None:
            return self.known_offset
        if "offset" not in self._found:
            self._found["offset"] = find_offset(self.q_pos, self.k_pos, self.masks)
        return self._found["offset"]

    def rotated(self) -> tuple[Tensor, Tensor]:
        """q and k with their positions worked in about one origin, in the dtype of the action."""
        if not self.rotates:
            return self.q, self.k
        return self.kernel.rotate(self.q, self.k, self.q_pos, self.k_pos)

    def spread(self, x: Tensor) -> Tensor:
        """Key heads repeated for the query heads they serve: head h reads h // groups."""
        return x if self.groups == 1 else x.repeat_interleave(self.groups, dim=1)


def make_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    kernel: PositionKernel,
    *,
    q_pos: Tensor | None = None,
    k_pos: Tensor | None = None,
    causal: Causal = True,
    keep: Tensor | None = None,
    key_keep: Tensor | None = None,
    segments: tuple[Tensor, Tensor] | None = None,
    scale: float | Tensor | None = None,
    window: int | None = None,
    keys_rotated: bool = False,
) -> Call:
    """Check the arguments of an attention call and fill in defaults.

    Args: as for :func:`attend`, and
        keys_rotated: the keys have their positions worked in, each about an origin of its own; the
            bias alone is still to be added.

    Raises:
        ValueError: anything that does not fit, naming what was given and what is needed.
    """
    check_tensors(q, k, v, widened=keys_rotated)
    check_kernel(kernel, q.shape[1], k.shape[1], None if keys_rotated else q.shape[3])
    check_causal(causal)
    check_export(kernel)
    shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    pairs = check_keep(None if keep is None else as_tensor(keep, "keep", q), shape)
    real = None if key_keep is None else as_tensor(key_keep, "key_keep", q)
    keep = with_key_keep(pairs, real, q.shape[0], k.shape[2])
    places = _places(kernel, q, k, q_pos, k_pos, keys_rotated, real_tokens(pairs, real))
    q, scale = check_scale(q, scale)
    masks = Masks(
        *shape[2:],
        causal,
        keep,
        check_segments(segments, q, k),
        check_window(window, *shape[2:]),
    )
    check_distance(kernel, places.q_pos, places.k_pos, masks, wide(q), places.default_positions)
    k, v, broken = without_unseen(k, v, masks)
    own: dict[str, Any] = {"masks": masks, "scale": scale, "already_rotated": keys_rotated}
    return Call(q, k, v, kernel, broken=broken, **own, **places._asdict())


class _Places(NamedTuple):
    """Where tokens stand and what follows from it; fields of :class:`Call`."""

    q_pos: Tensor
    k_pos: Tensor
    default_positions: bool
    needs_local_origin: bool = False
    fp16_overflows: bool = False


def _places(
    kernel: PositionKernel,
    q: Tensor,
    k: Tensor,
    q_pos: Tensor | None,
    k_pos: Tensor | None,
    keys_rotated: bool,
    real: Tensor | None,
) -> _Places:
    """Checked positions, counted from an origin that serves the kernel."""
    q_pos, k_pos, default = check_positions(q, k, q_pos, k_pos)
    if real is not None and not kernel.claims.length_free and k_pos.numel():
        return _Places(*without_padding(q_pos, k_pos, real), False)
    if not keys_rotated and grows_with_position(kernel):
        q_pos, k_pos, far = about_middle(kernel, q.dtype, q_pos, k_pos, default)
        overflows = far and q.dtype == torch.float16 and overflows_fp16(kernel)
        return _Places(q_pos, k_pos, default, far, overflows)
    if kernel.rotates and kernel.claims.relative and not (keys_rotated or default):
        # Phases of positions beyond 2^40 lose digits that their differences have.
        origin = k_pos[..., :1]
        q_pos, k_pos = q_pos - origin, k_pos - origin
    return _Places(q_pos, k_pos, default)
