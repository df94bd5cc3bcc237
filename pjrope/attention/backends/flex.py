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

from ...kernels.base import PositionKernel
from ..call import Call
from ..scores import bias_at
from .loop import first

LARGEST_UNCOMPILED = 2048  # beyond it no default path may hold Q x K numbers


class _Reader:
    """One score function and one block mask a kernel: a new closure a call would recompile."""

    def __init__(self) -> None:
        self.table = torch.empty(0, 0)
        self.shift = 0
        self._mask: tuple[tuple[Any, ...], BlockMask | None] | None = None

    def score(self, score: Tensor, batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The logit with the bias of its lag; hidden lanes are read too, so the index is clamped."""
        entry = (i - j + self.shift).clamp(min=0, max=self.table.shape[1] - 1)
        return score + self.table[head, entry]

    def block_mask(self, call: Call) -> BlockMask | None:
        """The causal block mask of a shape, kept until another shape comes."""
        key = (call.queries, call.keys, call.masks.causal, call.q.device)
        if self._mask is None or self._mask[0] != key:
            self._mask = (key, _causal_mask(call) if call.masks.causal else None)
        return self._mask[1]


_READERS: WeakKeyDictionary[PositionKernel, _Reader] = WeakKeyDictionary()


def _causal_mask(call: Call) -> BlockMask:
    apart = call.keys - call.queries

    def visible(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i + apart >= j

    shape = (call.queries, call.keys)
    return create_block_mask(visible, None, None, *shape, device=call.q.device)


@functools.cache
def _compiled() -> Callable[..., Tensor]:
    return torch.compile(flex_attention)


def refuses(call: Call) -> str | None:
    """Why this backend cannot take the call, or None if it can."""
    cuda = call.q.device.type == "cuda"
    wanted = any(x.requires_grad for x in (call.q, call.k, call.v))
    size = call.queries * call.keys
    return first(
        (
            ("the kernel adds no bias", not call.biases),
            ("the kernel defines whole scores", call.scored),
            ("the kernel needs an origin per block", call.local),
            ("there is a mask beside causality", call.masks.masked),
            ("there is a window", call.masks.window is not None),
            ("there are more queries than keys", call.queries > call.keys),
            ("position minus index is not one constant", call.offset is None),
            ("it has no gradients of q, k and v on the CPU", not cuda and wanted),
            (
                f"uncompiled it would hold {4 * call.q.shape[1] * size / 1e9:.1f} GB of logits",
                not cuda and size > LARGEST_UNCOMPILED**2,
            ),
        )
    )


def run(call: Call) -> Tensor:
    """Attention through FlexAttention: ``(B, H, Q, Dv)``.

    Raises:
        RuntimeError: on CUDA, if torch fell back to the uncompiled form.

    Limits: on CUDA the gradient of the table is summed by atomics, so it is not deterministic.
    """
    reader, offset = _READERS.setdefault(call.kernel, _Reader()), call.offset or 0
    # Lags of the call reach from the first key to the last query, the future included.
    last = call.keys + abs(offset)
    reader.table = bias_at(call, torch.arange(-last, last, device=call.q.device))
    reader.shift = call.masks.apart + offset + last
    q, k = call.rotated()
    v, cuda = call.v, q.device.type == "cuda"
    attention: Any = _compiled() if cuda else flex_attention
    with warnings.catch_warnings():
        without_compile = ".*flex_attention called without torch.compile.*"
        warnings.filterwarnings("error" if cuda else "ignore", message=without_compile)
        try:
            out = attention(
                q.to(call.number),
                call.spread(k).to(call.number),
                call.spread(v).to(call.number),
                score_mod=reader.score,
                block_mask=reader.block_mask(call),
                scale=call.scale,
            )
        except UserWarning as warning:
            raise RuntimeError(
                "torch stopped compiling FlexAttention and would hold Q x K logits: use "
                "backend='toeplitz', or fewer different lengths"
            ) from warning
    return out.to(call.q.dtype)
