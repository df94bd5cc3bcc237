"""KV cache: past keys and values, with their positions worked in as early as the kernel allows."""

from __future__ import annotations

import torch
from torch import Tensor

from ..conventions import as_positions, wide
from ..kernels.base import PositionKernel
from ..kernels.nope import NoPE
from . import pages
from .overflow import (
    check_overflow,
    first_infinite,
    infinite_bias,
    largest_lag,
    largest_position,
)
from .pages import grown, page_logits

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
        ValueError: more tokens than ``max_length``, shapes or dtypes that changed, gradients,
            positions that jump further within a page than the kernel reaches, or, seen or not, so
            far apart in a row that the kernel overflows.

    Limits: for inference; what is stored is overwritten in place and carries no gradient.
    """

    def __init__(
        self, max_length: int | None = None, *, kernel: PositionKernel | None = None
    ) -> None:
        if max_length is not None and max_length < 1:
            raise ValueError(f"max_length is {max_length}, room for at least 1 token is needed")
        self.max_length = max_length
        self._mode: str | None = None
        self.kernel = kernel
        self.length = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None
        self._pos: Tensor | None = None
        self._bias: Tensor | None = None
        self._infinite: int | None = None
        self._next: int | None = 0  # the position that would run on; None once one did not

    @property
    def kernel(self) -> PositionKernel | None:
        """The kernel of the layer; another one chooses anew how keys are stored."""
        return self._kernel

    @kernel.setter
    def kernel(self, kernel: PositionKernel | None) -> None:
        self._kernel, self._mode = kernel, None

    @property
    def mode(self) -> str:
        """How keys are stored: "rotated", "paged" or "raw"."""
        if self._mode is None or self.length == 0:
            self._mode = self._choose_mode()
        return self._mode

    def _choose_mode(self) -> str:
        kernel = self._kernel
        if kernel is None or not kernel.rotates or kernel.scored:
            return "raw"
        claims = kernel.claims
        if not (claims.relative and claims.length_free):
            return "raw"
        if kernel.any_origin:
            return "rotated"
        return "paged" if kernel.reach(torch.float32) >= pages.PAGE else "raw"

    @property
    def keys(self) -> Tensor:
        """Stored keys ``(B, Hk, K, D')``."""
        return self._held()[0][:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """Stored values ``(B, Hk, K, Dv)``."""
        return self._held()[1][:, :, : self.length]

    @property
    def positions(self) -> Tensor:
        """Positions ``(K,)`` or ``(B, K)``, tokens."""
        return self._held()[2][..., : self.length]

    def _held(self) -> tuple[Tensor, Tensor, Tensor]:
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
        self._check(k, v, pos)
        new = k.shape[2]
        total = self.length + new
        if self.max_length is not None and total > self.max_length:
            raise ValueError(
                f"{self.length} tokens cached and {new} new exceed max_length={self.max_length}: "
                "make a larger KVCache"
            )
        self._pos = grown(self._pos, pos, self.length, axis=-1)
        run_on = self._follow(pos)
        self._check_overflow(run_on, total, wide(k))
        if self.mode != "raw":
            shift = pos - self._origins(self.length, total)
            self._check_reach(shift)
            _, rotated = self._acting().rotate(None, k, None, shift)
            # About one origin that suits all, as attend() does, products keep the dtype of the call.
            k = rotated.to(v.dtype) if self.mode == "rotated" else rotated
        self._k = grown(self._k, k, self.length, axis=2)
        self._v = grown(self._v, v, self.length, axis=2)
        self._next = run_on
        self.length = total

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

    def _check(self, k: Tensor, v: Tensor, pos: Tensor) -> None:
        batch, heads, new = k.shape[:3]
        if v.shape[:3] != k.shape[:3] or v.dtype != k.dtype:
            raise ValueError(
                f"k is {k.dtype} {tuple(k.shape)} and v {v.dtype} {tuple(v.shape)}: dtype, batch, "
                "heads and tokens must agree"
            )
        if pos.shape not in ((new,), (batch, new)):
            raise ValueError(
                f"pos has shape {tuple(pos.shape)}, ({new},) or ({batch}, {new}) is needed"
            )
        if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
            raise ValueError("a KVCache carries no gradients: decode under torch.no_grad()")
        if self._v is None or self._pos is None:
            return
        held = (*self._v.shape[:2], self._v.shape[3], self._v.dtype, self._pos.ndim)
        if held != (batch, heads, v.shape[3], v.dtype, pos.ndim):
            raise ValueError(
                f"v is {v.dtype} {tuple(v.shape)} at positions {tuple(pos.shape)}, the cache holds "
                f"{self._v.dtype} {tuple(self.values.shape)} at {tuple(self.positions.shape)}: only "
                "the number of tokens may change"
            )

    def _check_reach(self, shift: Tensor) -> None:
        """Raise where a key would be rotated further from its page's origin than is precise."""
        if self.mode != "paged" or not shift.numel():
            return
        furthest, reach = int(shift.abs().max()), self._acting().reach(torch.float32)
        if furthest > reach:
            raise ValueError(
                f"positions jump by {furthest} tokens within a page of {pages.PAGE}, and this "
                f"{type(self.kernel).__name__} reaches {int(reach)} from one origin: let positions "
                "run on, or call attend() on the whole sequence"
            )

    def _check_overflow(self, run_on: int | None, total: int, number: torch.dtype) -> None:
        """Raise where the kernel would leave the number type at the distances of ``total`` tokens."""
        kernel = self._kernel
        if kernel is None or self._pos is None or not total or not kernel.growth.asks:
            return
        if run_on is None:
            held = self._pos[..., :total]
            apart = largest_lag if kernel.claims.relative else largest_position
            distance = apart(held, held)
        else:  # nothing needs to be read
            first, last = run_on - total, run_on - 1
            distance = last - first if kernel.claims.relative else max(abs(first), abs(last))
        check_overflow(kernel, distance, number)

    def _follow(self, pos: Tensor) -> int | None:
        """The next position if these run on from those held, read from the new tokens alone."""
        if self._next is None or pos.ndim > 1:
            return None
        start = int(pos[0]) if self.length == 0 else self._next
        run = torch.arange(start, start + len(pos), device=pos.device)
        return start + len(pos) if torch.equal(pos, run) else None

    def runs_on_to(self, q_pos: Tensor) -> bool:
        """True if all positions run on without a break and these are the last of them."""
        if self._next is None or q_pos.ndim > 1:
            return False
        run = torch.arange(self._next - len(q_pos), self._next, device=q_pos.device)
        return torch.equal(q_pos, run)

    def _origins(self, start: int, stop: int) -> Tensor | int:
        """Origin of each token in the index range: the first position of its page."""
        if self.mode != "paged" or self._pos is None:
            return 0
        first = torch.arange(start, stop, device=self._pos.device) // pages.PAGE * pages.PAGE
        return self._pos[..., first]

    def logits(self, q: Tensor, q_pos: Tensor, keys: int) -> Tensor:
        """Unscaled scores of queries and the first ``keys`` keys of a paged cache.

        Args:
            q: ``(B, H, Q, D)`` queries before the kernel.
            q_pos: ``(Q,)`` or ``(B, Q)``.
            keys: how many leading keys.

        Returns:
            ``(B, H, Q, keys)`` in fp32 or better.
        """
        k, _, pos = self._held()
        return page_logits(self._acting(), q, q_pos, k, pos, keys)

    def reversed_bias(self, number: torch.dtype) -> Tensor | None:
        """The kernel's bias at lags ``n-1 … 0``, n >= the tokens held: ``(H, n)``, or None.

        By falling lag, so that its end is the bias of the last token's keys in their order. Kept,
        like rotated keys, from one step to the next: a cache is worth as much as the parameters it
        was filled with.

        Raises:
            ValueError: a bias of unknown growth that is not finite at a lag of the tokens held.
        """
        kernel = self._acting()
        if not kernel.biases:
            return None
        table = self._bias
        if table is None or table.shape[1] < self.length or table.dtype != number:
            lags = torch.arange(max(64, 2 * self.length), device=self.positions.device).flip(0)
            values = kernel.lag_bias(lags)
            assert values is not None  # biases says so
            table = self._bias = values.to(number)
            self._infinite = first_infinite(table, lags) if kernel.unknown_growth() else None
        if self._infinite is not None and self._infinite < self.length:
            raise ValueError(infinite_bias(kernel, self._infinite, number))
        return table
