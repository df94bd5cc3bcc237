"""KV cache: past keys and values, with their positions worked in as early as the kernel allows."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ..conventions import as_positions, wide
from ..kernels.base import PositionKernel
from ..kernels.nope import NoPE
from .backends import eager
from .decoding import decode_one, is_simple
from .overflow import check_overflow, largest_lag, largest_position, may_overflow
from .planning import run_plan
from .problem import Problem, make_problem

PAGE = 256  # keys that share an origin


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
        self._falling: Tensor | None = None
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
        if kernel.stays_in_range:
            return "rotated"
        return "paged" if kernel.reach(torch.float32) >= PAGE else "raw"

    @property
    def keys(self) -> Tensor:
        """Stored keys ``(B, Hk, K, D')``."""
        return self._k[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """Stored values ``(B, Hk, K, Dv)``."""
        return self._v[:, :, : self.length]

    @property
    def positions(self) -> Tensor:
        """Positions ``(K,)`` or ``(B, K)``, tokens."""
        return self._pos[..., : self.length]

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
        self._pos = _grown(self._pos, pos, self.length, axis=-1)
        run_on = self._follow(pos)
        self._check_overflow(run_on, total, wide(k))
        if self.mode != "raw":
            shift = pos - self._origins(self.length, total)
            self._check_reach(shift)
            _, k = self.kernel.rotate(None, k, None, shift)
        self._k = _grown(self._k, k, self.length, axis=2)
        self._v = _grown(self._v, v, self.length, axis=2)
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
        if self._v is None:
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
        furthest, reach = int(shift.abs().max()), self.kernel.reach(torch.float32)
        if furthest > reach:
            raise ValueError(
                f"positions jump by {furthest} tokens within a page of {PAGE}, and this "
                f"{type(self.kernel).__name__} reaches {int(reach)} from one origin: let positions "
                "run on, or call attend() on the whole sequence"
            )

    def _check_overflow(self, run_on: int | None, total: int, number: torch.dtype) -> None:
        """Raise where the kernel would leave the number type at the distances of ``total`` tokens."""
        kernel = self._kernel
        if kernel is None or not total or not may_overflow(kernel):
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
        if self.mode != "paged":
            return 0
        first = torch.arange(start, stop, device=self._pos.device) // PAGE * PAGE
        return self._pos[..., first]

    def logits(self, q: Tensor, q_pos: Tensor, keys: int) -> Tensor:
        """Unscaled scores of queries and the first ``keys`` keys stored by page.

        Args:
            q: ``(B, H, Q, D)`` queries before the kernel.
            q_pos: ``(Q,)`` or ``(B, Q)``.
            keys: how many leading keys.

        Returns:
            ``(B, H, Q, keys)`` in fp32 or better.
        """
        pages = -(-keys // PAGE)
        origins = self._pos[..., : pages * PAGE : PAGE]
        shifted = (q_pos[..., None, :] - origins[..., :, None]).flatten(-2)  # (.., pages * Q)
        many = q[:, :, None].expand(-1, -1, pages, -1, -1).flatten(2, 3)
        many, _ = self.kernel.rotate(many, None, shifted, None)
        groups = q.shape[1] // self._k.shape[1]
        many = many.unflatten(2, (pages, q.shape[2])).unflatten(1, (-1, groups))
        k = self._k[:, :, : pages * PAGE].unflatten(2, (pages, PAGE))[:, :, None]
        number = wide(many)
        scores = many.to(number) @ k.to(number).mT  # (B, Hk, groups, pages, Q, PAGE)
        return scores.flatten(1, 2).transpose(2, 3).flatten(3)[..., :keys]

    def falling_bias(self, number: torch.dtype) -> Tensor | None:
        """The kernel's bias at lags ``n-1 … 0``, n >= the tokens held: ``(H, n)``, or None.

        By falling lag, so that its end is the bias of the last token's keys in their order. Kept,
        like rotated keys, from one step to the next: a cache is worth as much as the parameters it
        was filled with.
        """
        if not self.kernel.biases:
            return None
        held = self._falling
        if held is None or held.shape[1] < self.length or held.dtype != number:
            lags = torch.arange(max(64, 2 * self.length), device=self._k.device)
            self._falling = self.kernel.lag_bias(lags.flip(0)).to(number)
        return self._falling


def _grown(held: Tensor | None, new: Tensor, length: int, axis: int) -> Tensor:
    """``held`` with ``new`` written behind ``length``; room, in whole pages, doubles when full."""
    axis = axis % new.ndim
    total = length + new.shape[axis]
    if held is None or held.shape[axis] < total:
        shape = list(new.shape)
        wanted = max(total, 2 * (0 if held is None else held.shape[axis]))
        shape[axis] = -(-wanted // PAGE) * PAGE
        room = new.new_zeros(shape)
        if held is not None:
            room.narrow(axis, 0, length).copy_(held.narrow(axis, 0, length))
        held = room
    if held.is_inference() and not torch.is_inference_mode_enabled():
        held = held.clone()  # filled under inference_mode, where it cannot be written from outside
    held.narrow(axis, length, new.shape[axis]).copy_(new)
    return held


class _BiasOf(PositionKernel, register=False):
    """What is left of a kernel when queries and keys are rotated already: its bias."""

    def __init__(self, kernel: PositionKernel) -> None:
        super().__init__()
        self.inner = kernel
        self.biases, self.folds, self.bias_heads = kernel.biases, kernel.folds, kernel.bias_heads

    def lag_bias(self, lags: Tensor) -> Tensor | None:
        return self.inner.lag_bias(lags)

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor] | None:
        return self.inner.fold(q_pos, k_pos)


@dataclass(eq=False)
class _PagedProblem(Problem):
    """A call whose keys sit in a cache, rotated page by page."""

    cache: KVCache | None = None

    @property
    def local(self) -> bool:
        return True  # every page has its origin

    def logits(self, start: int, stop: int, keys: int) -> Tensor:
        q = self.q[:, :, start:stop]
        return self.cache.logits(q, self.q_pos[..., start:stop], keys).to(wide(q)) * self.scale


def attend_cached(
    q: Tensor,
    cache: KVCache,
    *,
    q_pos: Tensor,
    keep: Tensor | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Tensor:
    """Causal attention of new queries, the last tokens of a cache, to all its tokens.

    Args:
        q: ``(B, H, Q, D)``.
        cache: holds the keys of these queries too.
        q_pos: ``(Q,)`` or ``(B, Q)`` integers, tokens.
        keep: boolean, broadcastable to ``(B, H, Q, K)`` over all cached keys.
        scale: default ``1/sqrt(D)``.
        backend: as in :func:`attend`; keys rotated page by page are always read eagerly.

    Returns:
        ``(B, H, Q, Dv)``, what the same rows of a full pass give.
    """
    kernel = NoPE() if cache.kernel is None else cache.kernel
    scale = q.shape[3] ** -0.5 if scale is None else scale
    call = {"q_pos": q_pos, "k_pos": cache.positions, "keep": keep, "scale": scale}
    with torch.autocast(q.device.type, enabled=False):
        if backend == "auto" and keep is None and is_simple(q, q_pos, cache, kernel):
            return decode_one(q, q_pos, cache, kernel, scale)
        if cache.mode == "paged":
            like = q.new_empty(()).expand(*cache.keys.shape[:3], q.shape[3])  # its shape counts
            checked = make_problem(q, like, cache.values, kernel, **call)
            given = {f.name: getattr(checked, f.name) for f in fields(Problem) if f.init}
            given |= {"q_pos": as_positions(q_pos), "k_pos": cache.positions}  # pages' own origins
            return eager.run(_PagedProblem(**given, cache=cache))
        if cache.mode == "rotated":
            q, _ = kernel.rotate(q, None, q_pos, None)
            kernel = _BiasOf(kernel)
        problem = make_problem(q, cache.keys, cache.values, kernel, **call)
        if cache.runs_on_to(problem.q_pos):
            problem.offset_found = 0
        if kernel.biases and problem.offset == 0 and not torch.is_grad_enabled():
            problem.table = cache.falling_bias(wide(q)).flip(1)
        return run_plan(problem, backend)
