"""KV cache: past keys and values, with their positions worked in as early as the kernel allows."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ..conventions import as_positions, wide
from ..kernels.base import PositionKernel
from ..kernels.nope import NoPE
from .backends import eager
from .problem import Problem, make_problem

PAGE = 256  # keys that share an origin


class KVCache:
    """Keys, values and positions of the tokens seen so far.

    How keys are stored follows from what the kernel claims:

    - ``rotated``: relative, length-free and norm-preserving (RoPE): rotated once, read as they are;
    - ``paged``: relative and length-free, but not orthogonal: rotated about the first position of
      their page of 256, so that nothing grows; each query is then rotated once per page;
    - ``raw``: anything else (dynamic NTK, absolute forms): rotated anew at every step.

    Args:
        max_length: most tokens it may hold, default no limit.
        kernel: the kernel of the layer; :class:`AttentionLayer` sets it when it is missing.

    Raises:
        ValueError: more tokens than ``max_length``, or shapes that changed.
    """

    def __init__(
        self, max_length: int | None = None, *, kernel: PositionKernel | None = None
    ) -> None:
        if max_length is not None and max_length < 1:
            raise ValueError(f"max_length is {max_length}, room for at least 1 token is needed")
        self.max_length = max_length
        self.kernel = kernel
        self.length = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None
        self._pos: Tensor | None = None

    @property
    def mode(self) -> str:
        """How keys are stored: "rotated", "paged" or "raw"."""
        kernel = self.kernel
        if kernel is None or not kernel.rotates or kernel.scored:
            return "raw"
        claims = kernel.claims
        if not (claims.relative and claims.length_free):
            return "raw"
        return "rotated" if claims.norm_preserving else "paged"

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
        new = k.shape[2]
        total = self.length + new
        if self.max_length is not None and total > self.max_length:
            raise ValueError(
                f"{self.length} tokens cached and {new} new exceed max_length={self.max_length}: "
                "make a larger KVCache"
            )
        if self._pos is not None and pos.ndim != self._pos.ndim:
            raise ValueError(
                f"pos has shape {tuple(pos.shape)}, the cache holds {tuple(self.positions.shape)}"
            )
        self._pos = _grown(self._pos, pos, self.length, axis=-1)
        if self.mode != "raw":
            _, k = self.kernel.rotate(None, k, None, pos - self._origins(self.length, total))
        self._k = _grown(self._k, k, self.length, axis=2)
        self._v = _grown(self._v, v, self.length, axis=2)
        self.length = total

    def _origins(self, start: int, stop: int) -> Tensor | int:
        """Origin of each token in the index range: the first position of its page."""
        if self.mode != "paged":
            return 0
        first = torch.arange(start, stop, device=self._pos.device) // PAGE * PAGE
        return self._pos[..., first]

    def logits(self, q: Tensor, q_pos: Tensor, keys: int) -> Tensor:
        """Unscaled scores of rotated queries and the first ``keys`` stored keys.

        Args:
            q: ``(B, H, Q, D)`` queries before the kernel.
            q_pos: ``(Q,)`` or ``(B, Q)``.
            keys: how many leading keys.

        Returns:
            ``(B, H, Q, keys)`` in fp32 or better.
        """
        groups = q.shape[1] // self._k.shape[1]
        if self.mode == "rotated":
            q, _ = self.kernel.rotate(q, None, q_pos, None)
            k = self.keys[:, :, :keys].repeat_interleave(groups, dim=1)
            return q.to(wide(q)) @ k.to(wide(q)).transpose(-1, -2)
        pages = -(-keys // PAGE)
        origins = self._pos[..., : pages * PAGE : PAGE]
        shifted = (q_pos[..., None, :] - origins[..., :, None]).flatten(-2)  # (.., pages * Q)
        many = q[:, :, None].expand(-1, -1, pages, -1, -1).flatten(2, 3)
        many, _ = self.kernel.rotate(many, None, shifted, None)
        many = many.unflatten(2, (pages, q.shape[2]))
        k = self._k[:, :, :keys]
        k = torch.nn.functional.pad(k, (0, 0, 0, pages * PAGE - keys)).unflatten(2, (pages, PAGE))
        k = k.repeat_interleave(groups, dim=1).to(many.dtype)
        scores = many.to(wide(many)) @ k.to(wide(many)).transpose(-1, -2)  # (B, H, pages, Q, PAGE)
        return scores.transpose(2, 3).flatten(3)[..., :keys]


def _grown(held: Tensor | None, new: Tensor, length: int, axis: int) -> Tensor:
    """``held`` with ``new`` written behind ``length``; room doubles when it runs out."""
    axis = axis % new.ndim
    total = length + new.shape[axis]
    if held is None or held.shape[axis] < total:
        shape = list(new.shape)
        shape[axis] = max(total, 2 * (0 if held is None else held.shape[axis]))
        room = new.new_zeros(shape)
        if held is not None:
            room.narrow(axis, 0, length).copy_(held.narrow(axis, 0, length))
        held = room
    held.narrow(axis, length, new.shape[axis]).copy_(new)
    return held


@dataclass(eq=False)
class _CachedProblem(Problem):
    """A call whose keys sit in a cache, already rotated."""

    cache: KVCache | None = None

    @property
    def local(self) -> bool:
        return True  # the cache rotates

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
        backend: for raw keys, as in :func:`attend`; stored rotations are read eagerly.

    Returns:
        ``(B, H, Q, Dv)``, what the same rows of a full pass give.
    """
    from .functional import attend

    kernel = NoPE() if cache.kernel is None else cache.kernel
    positions = {"q_pos": q_pos, "k_pos": cache.positions}
    if cache.mode == "raw":
        return attend(
            q,
            cache.keys,
            cache.values,
            kernel,
            **positions,
            keep=keep,
            scale=scale,
            backend=backend,
        )
    channels = q.shape[3]
    stored = cache.keys[..., :1].expand(-1, -1, -1, channels).to(q.dtype)  # shapes only
    scale = channels**-0.5 if scale is None else scale
    checked = make_problem(q, stored, cache.values, kernel, **positions, keep=keep, scale=scale)
    given = {f.name: getattr(checked, f.name) for f in fields(Problem) if f.init}
    problem = _CachedProblem(**given, cache=cache)
    with torch.autocast(q.device.type, enabled=False):
        return eager.run(problem)
