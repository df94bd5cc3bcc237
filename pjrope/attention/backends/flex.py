"""Backend ``flex``: FlexAttention reads the bias from one table indexed once.

Meant for CUDA, where it is compiled. On the CPU torch runs it uncompiled, in Q x K memory and
without gradients of q, k and v: good for checking it, and refused for anything else. It is never
chosen by "auto": nobody has measured it on a device with this package yet.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from ...conventions import wide
from ...kernels.base import PositionKernel
from ..problem import Problem
from .blocks import first

LARGEST_UNCOMPILED = 2048  # beyond it no default path may hold Q x K numbers


class _Reader:
    """One score function and one block mask a kernel: a new closure a call would recompile."""

    def __init__(self) -> None:
        self.table: Tensor | None = None
        self.shift = 0
        self._mask: tuple[tuple[Any, ...], BlockMask | None] | None = None

    def score(self, score: Tensor, batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The logit with the bias of its lag; hidden lanes are read too, so the index is clamped."""
        lag = (i - j + self.shift).abs().clamp(max=self.table.shape[1] - 1)
        return score + self.table[head, lag]

    def block_mask(self, problem: Problem) -> BlockMask | None:
        """The causal block mask of a shape, kept until another shape comes."""
        key = (problem.queries, problem.keys, problem.causal, problem.q.device)
        if self._mask is None or self._mask[0] != key:
            self._mask = (key, _causal_mask(problem) if problem.causal else None)
        return self._mask[1]


_READERS: WeakKeyDictionary[PositionKernel, _Reader] = WeakKeyDictionary()


def _causal_mask(problem: Problem) -> BlockMask:
    apart = problem.keys - problem.queries

    def visible(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i + apart >= j

    shape = (problem.queries, problem.keys)
    return create_block_mask(visible, None, None, *shape, device=problem.q.device)


@functools.cache
def _compiled() -> Callable[..., Tensor]:
    return torch.compile(flex_attention)


def refuses(problem: Problem) -> str | None:
    """Why this backend cannot take the call, or None if it can."""
    cuda = problem.q.device.type == "cuda"
    wanted = any(x.requires_grad for x in (problem.q, problem.k, problem.v))
    size = problem.queries * problem.keys
    return first(
        (
            ("the kernel adds no bias", not problem.kernel.biases),
            ("the kernel defines whole scores", problem.kernel.scored),
            ("the kernel needs an origin per block", problem.local),
            ("there is a mask beside causality", problem.masked),
            ("there are more queries than keys", problem.queries > problem.keys),
            ("position minus index is not one constant", problem.offset is None),
            ("it has no gradients of q, k and v on the CPU", not cuda and wanted),
            (
                f"uncompiled it would hold {4 * problem.q.shape[1] * size / 1e9:.1f} GB of logits",
                not cuda and size > LARGEST_UNCOMPILED**2,
            ),
        )
    )


def run(problem: Problem) -> Tensor:
    """Attention through FlexAttention: ``(B, H, Q, Dv)``.

    Raises:
        RuntimeError: on CUDA, if torch fell back to the uncompiled form.

    Limits: on CUDA the gradient of the table is summed by atomics, so it is not deterministic.
    """
    reader = _READERS.setdefault(problem.kernel, _Reader())
    # Lags of the call reach from the first key to the last query, the future included.
    largest = problem.keys + abs(problem.offset)
    lags = torch.arange(largest, device=problem.q.device)
    reader.table = problem.kernel.lag_bias(lags).to(wide(problem.q))
    reader.shift = problem.keys - problem.queries + problem.offset
    q, k = problem.kernel.rotate(problem.q, problem.k, problem.q_pos, problem.k_pos)
    v, cuda = problem.v, q.device.type == "cuda"
    attention = _compiled() if cuda else flex_attention
    with warnings.catch_warnings():
        without_compile = ".*flex_attention called without torch.compile.*"
        warnings.filterwarnings("error" if cuda else "ignore", message=without_compile)
        try:
            out = attention(
                q.to(problem.number),
                problem.spread(k).to(problem.number),
                problem.spread(v).to(problem.number),
                score_mod=reader.score,
                block_mask=reader.block_mask(problem),
                scale=problem.scale,
            )
        except UserWarning as warning:
            raise RuntimeError(
                "torch stopped compiling FlexAttention and would hold Q x K logits: use "
                "backend='toeplitz', or fewer different lengths"
            ) from warning
    return out.to(problem.q.dtype)
