"""KV cache: past keys and values, with their positions worked in as early as the kernel allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..conventions import as_positions, wide
from ..kernels.base import PositionKernel
from ..kernels.nope import NoPE
from .cache_checks import check_apart, check_like, check_new, check_reach, check_room, check_rows
from .pages import ReversedBias, grown, next_position, page_origins, storage_mode

_NOPE = NoPE()


class KVCache:
    """Keys, values and positions of the tokens seen so far.

    How keys are stored follows from what the kernel claims:

    - ``rotated``: relative, length-free and in range anywhere (RoPE): rotated once, read as they
      are;
    - ``paged``: relative and length-free, but growing with position: rotated about the first
      position of their page of 256; each query is then rotated once per page;
    - ``raw``: anything else (dynamic NTK, absolute and scored forms, kernels so steep that a page
      is too wide for one origin): rotated anew at every step.

    The choice is made at the first token and kept, whatever the parameters do afterwards.

    Args:
        max_length: most tokens it may hold, default no limit.
        kernel: the kernel of the layer; :class:`AttentionLayer` sets it when it is missing.

    Raises:
        ValueError: too many tokens, other shapes or dtypes, gradients, positions that jump further
            within a page than the kernel reaches, or so far apart that it overflows.

    A call that raises leaves the cache as it was. ``copy.deepcopy`` copies the tokens and keeps the
    kernel, which belongs to the layer.

    Limits: for inference; what is stored is overwritten in place and carries no gradient.
    """

    def __init__(
        self, max_length: int | None = None, *, kernel: PositionKernel | None = None
    ) -> None:
        if max_length is not None and max_length < 1:
            raise ValueError(f"max_length is {max_length}, room for at least 1 token is needed")
        self.max_length = max_length
        self._mode: str | None = None
        self.length = 0
        self.kernel = kernel
        self._k: Tensor | None = None
        self._v: Tensor | None = None
        self._pos: Tensor | None = None
        self._bias = ReversedBias()
        self._next: int | None = 0  # the position that would run on; None once one did not

    @property
    def kernel(self) -> PositionKernel | None:
        """The kernel of the layer; it chooses how keys are stored while there are none."""
        return self._kernel

    @kernel.setter
    def kernel(self, kernel: PositionKernel | None) -> None:
        self._kernel = kernel
        self._mode = self._mode if self.length else None

    @property
    def mode(self) -> str:
        """How keys are stored: "rotated", "paged" or "raw"."""
        if self._mode is None or self.length == 0:
            self._mode = storage_mode(self._kernel)
        return self._mode

    @property
    def keys(self) -> Tensor:
        """Stored keys ``(B, Hk, K, D')``."""
        return self.room[0][:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """Stored values ``(B, Hk, K, Dv)``."""
        return self.room[1][:, :, : self.length]

    @property
    def positions(self) -> Tensor:
        """Positions ``(K,)`` or ``(B, K)``, tokens."""
        return self.room[2][..., : self.length]

    @property
    def room(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values and positions with the room behind them, in whole pages."""
        if self._k is None or self._v is None or self._pos is None:
            raise ValueError("this cache holds no tokens yet: append() some")
        return self._k, self._v, self._pos

    def _acting(self) -> PositionKernel:
        """The kernel, one that does nothing if there is none."""
        return _NOPE if self._kernel is None else self._kernel

    def append(self, k: Tensor, v: Tensor, pos: Tensor) -> None:
        """Add new tokens.

        Args:
            k: ``(B, Hk, n, D)`` keys before the kernel.
            v: ``(B, Hk, n, Dv)``.
            pos: ``(n,)`` or ``(B, n)`` integers, tokens.
        """
        pos = as_positions(pos, "pos")
        check_new(k, v, pos)
        if self._v is not None:
            check_like(v, pos, self.values, self.positions)
        total = self.length + k.shape[2]
        check_room(self.length, k.shape[2], self.max_length)
        held = grown(self._pos, pos, self.length, axis=-1)
        run_on = next_position(self._next, self.length, pos)
        check_apart(self._acting(), held[..., :total], run_on, wide(k))
        if self.mode != "raw":
            if self.mode == "paged":
                shift = pos - page_origins(held, self.length, total)
                check_reach(self._acting(), shift)
            else:
                shift = pos - held[..., :1]
            _, rotated = self._acting().rotate(None, k, None, shift)
            # About one origin that suits all, as attend() does, products keep the dtype of the call.
            k = rotated.to(v.dtype) if self.mode == "rotated" else rotated
        # Nothing above changes what is held: a call that fails leaves the cache as it was.
        self._k, self._v = (
            grown(old, new, self.length, axis=2) for old, new in ((self._k, k), (self._v, v))
        )
        self._pos, self._next, self.length = held, run_on, total

    def copy(self) -> KVCache:
        """A cache of its own with the same tokens and the same kernel."""
        twin = KVCache()
        vars(twin).update(vars(self))
        if self._k is not None:
            twin._k, twin._v, twin._pos = (x.clone() for x in self.room)
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> KVCache:
        twin = self.copy()
        twin._kernel = memo.get(id(self._kernel), self._kernel)
        return twin

    def select(self, rows: Tensor) -> KVCache:
        """A cache of these rows of the batch, in this order; a row may come more than once.

        Args:
            rows: ``(B',)`` int64, indices of rows.
        """
        twin = KVCache()
        vars(twin).update(vars(self))
        if self._k is not None:
            k, v, pos = self.room
            check_rows(rows, len(k))
            twin._k, twin._v = k.index_select(0, rows), v.index_select(0, rows)
            twin._pos = pos.clone() if pos.ndim == 1 else pos.index_select(0, rows)
        return twin

    def reorder(self, rows: Tensor) -> None:
        """Let row i of the batch go on as row ``rows[i]`` was, as beam search asks.

        Args:
            rows: ``(B,)`` int64.

        Raises:
            ValueError: another number of rows, or rows that the cache does not hold.
        """
        if self._k is not None and rows.shape != (len(self._k),):
            raise ValueError(
                f"rows have shape {tuple(rows.shape)}, ({len(self._k)},) is needed: select() takes "
                "another number of rows"
            )
        vars(self).update(vars(self.select(rows)))

    def truncate(self, length: int) -> None:
        """Forget all tokens but the first ``length``, as when guessed tokens were wrong.

        Args:
            length: tokens to keep, from 0 to those held.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length is {length}, the cache holds 0 to {self.length} tokens")
        if length == 0:
            self._next = 0
        elif self._next is not None:
            self._next -= self.length - length
        self.length = length

    def runs_on_to(self, q_pos: Tensor) -> bool:
        """True if all positions run on without a break and these are the last of them."""
        if self._next is None or q_pos.ndim > 1:
            return False
        run = torch.arange(self._next - len(q_pos), self._next, device=q_pos.device)
        return torch.equal(q_pos, run)

    def reversed_bias(self, number: torch.dtype) -> Tensor | None:
        """The kernel's bias at lags ``n-1 … 0``, n >= the tokens held: ``(H, n)``, or None.

        Raises:
            ValueError: a bias of unknown growth that is not finite at a lag of the tokens held.
        """
        kernel = self._acting()
        if not kernel.biases:
            return None
        if not self._bias.serves(self.length, number):
            self._bias = ReversedBias.of(kernel, self.length, number, self.positions.device)
        self._bias.check(kernel, self.length)
        return self._bias.table


@contextmanager
def unchanged_on_error(caches: Sequence[KVCache]) -> Iterator[None]:
    """Within it, an exception leaves all caches as they were."""
    before = [dict(vars(cache)) for cache in caches]
    try:
        yield
    except BaseException:
        for cache, state in zip(caches, before, strict=True):
            vars(cache).update(state)
        raise
