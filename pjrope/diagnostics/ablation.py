"""What a part of the position kernels is worth to a model: its loss with the part left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..data.batches import EvaluationWindows
from ..kernels import DirectSum, PositionKernel, Sum
from ..kernels._values import check_count
from ..training import evaluate
from .views import JETS, SECTORS, attention_layers, kernels_by_layer, leaves, sectors_of

PARTS = ("rotation", *SECTORS, "bias", "jets")


@dataclass(frozen=True)
class Part:
    """What to leave out of every layer.

    Attributes:
        sector: "fj", "affine", "lc" or "near"; "jets", both jet sectors; "rotation", what acts on channels
            or defines whole scores; "bias", a bias that has no sectors.
        order: of a jet sector, or of "jets", that order alone, >= 0; None takes the whole.
    """

    sector: str
    order: int | None = None

    def __post_init__(self) -> None:
        if self.sector not in PARTS:
            raise ValueError(f"part is {self.sector!r}, known are {PARTS}")
        if self.order is not None and self.sector not in (*JETS, "jets"):
            raise ValueError(f"{self.sector!r} has no orders: only {(*JETS, 'jets')} do")
        if self.order is not None:
            check_count("order", self.order, least=0)

    def __str__(self) -> str:
        return self.sector if self.order is None else f"{self.sector} order {self.order}"

    def holds(self, sector: str) -> bool:
        """Whether this part touches a sector."""
        return sector == self.sector or (self.sector == "jets" and sector in JETS)


class Nothing(PositionKernel, register=False):
    """Stands where a part was left out."""

    def __init__(self, was: PositionKernel) -> None:
        super().__init__()
        self._head_dim = was.head_dim

    @property
    def head_dim(self) -> int | None:
        return self._head_dim


class Remainder(PositionKernel, register=False):
    """A bias of sectors without one part; its parameters are those of the whole."""

    def __init__(self, whole: PositionKernel, part: Part) -> None:
        super().__init__()
        self.whole, self.part = whole, part

    @property
    def bias_heads(self) -> int | None:
        return self.whole.bias_heads

    def lag_bias(self, lags: Tensor) -> Tensor:
        total = lags.new_zeros((), dtype=torch.float32)
        for sector in sectors_of(self.whole).values():
            orders = sector.gated(lags)
            if self.part.holds(sector.name):
                kept = [r for r in range(orders.shape[1]) if self.part.order not in (None, r)]
                orders = orders[:, kept]
            total = total + orders.sum(1)
        return total


def without(kernel: PositionKernel, part: Part) -> PositionKernel:
    """A kernel with one part left out.

    Gates are not shared out anew: what stays keeps the value it had.

    Args:
        kernel: any kernel; sums and direct sums lose the part in whichever of theirs has it.
        part: a :class:`Part`.

    Returns:
        a kernel that shares its parameters with the given one.

    Raises:
        ValueError: the kernel has not the part.
    """
    reduced = _without(kernel, part)
    if reduced is kernel:
        known = [str(p) for p in parts_of(kernel)]
        raise ValueError(
            f"this {type(kernel).__name__} has not the part {str(part)!r}: it has {known}"
        )
    return reduced


def _without(kernel: PositionKernel, part: Part) -> PositionKernel:
    """As :func:`without`, but the kernel itself if it has not the part."""
    if isinstance(kernel, Sum | DirectSum):
        parts = []
        for leaf in kernel.parts:
            assert isinstance(leaf, PositionKernel)
            parts.append(_without(leaf, part))
        same = all(a is b for a, b in zip(parts, kernel.parts, strict=True))
        return kernel if same else type(kernel)(*parts)
    if part not in parts_of(kernel):
        return kernel
    sectors = sectors_of(kernel)
    all_of_it = part.order is None and all(part.holds(name) for name in sectors)
    return Nothing(kernel) if all_of_it else Remainder(kernel, part)


def parts_of(kernel: PositionKernel | nn.Module) -> list[Part]:
    """Every part that can be left out of a kernel, or of a model.

    Args:
        kernel: a kernel, or a model with attention layers.

    Returns:
        rotation, sectors, both jet sectors together, then each order: of the two together, and of
        each alone.
    """
    of_layers: Iterable[list[Part]]
    if not isinstance(kernel, PositionKernel):
        of_layers = (parts_of(k) for _, k in kernels_by_layer(kernel))
    elif isinstance(kernel, Sum | DirectSum):
        of_layers = (parts_of(leaf) for leaf in leaves(kernel))
    else:
        of_layers = [list(_parts_of_leaf(kernel))]
    found = {part for parts in of_layers for part in parts}
    return sorted(found, key=lambda p: (p.order is not None, PARTS.index(p.sector), p.order or 0))


def _parts_of_leaf(kernel: PositionKernel) -> Iterator[Part]:
    sectors = sectors_of(kernel)
    if kernel.rotates or kernel.scored:
        yield Part("rotation")
    elif kernel.biases and not sectors:
        yield Part("bias")
    for name, sector in sectors.items():
        yield Part(name)
        if sector.amplitudes is not None:
            yield Part("jets")
            for order in range(sector.amplitudes[0].shape[1]):
                yield from (Part(name, order), Part("jets", order))


@contextmanager
def left_out(model: nn.Module, part: Part) -> Iterator[nn.Module]:
    """A model without one part of its position kernels, inside a ``with`` block.

    Args:
        model: a :class:`~pjrope.Decoder`, or any module with attention layers.
        part: left out of every layer that has it.

    Raises:
        ValueError: no layer has it.

    Limits: a key-value cache belongs to one kernel; take a new one inside the block.
    """
    layers = attention_layers(model)
    whole = [layer.kernel for layer in layers]
    reduced = [_without(kernel, part) for kernel in whole]
    if all(a is b for a, b in zip(whole, reduced, strict=True)):
        known = [str(p) for p in parts_of(model)]
        raise ValueError(f"no layer of this model has the part {str(part)!r}: it has {known}")
    try:
        for layer, kernel in zip(layers, reduced, strict=True):
            layer.kernel = kernel
        yield model
    finally:
        for layer, kernel in zip(layers, whole, strict=True):
            layer.kernel = kernel


def leave_one_out_loss(
    model: nn.Module,
    windows: EvaluationWindows,
    *,
    lengths: Sequence[int],
    parts: Sequence[Part] | None = None,
) -> list[dict[str, Any]]:
    """Loss of a model with one part left out of all its layers, part by part.

    The model ends as it began, to the bit and to the mode of each module, also when a step fails.

    Args:
        model: tokens ``(B, N)`` to logits ``(B, N, vocab)``, with attention layers.
        windows: fixed segments of a text.
        lengths: context lengths, tokens.
        parts: what to leave out, one at a time; default every sector, the rotation, and every order
            of both jet sectors together.

    Returns:
        rows by part and length: ``left_out`` ("nothing" for the whole model), ``sector``,
        ``order``, ``length``, ``loss``, ``change`` against the whole model on the same segments
        (above 0: the part helps) and its ``standard_error`` over the segments (None for a single
        one, 0 for "nothing"); nats per token.

    Raises:
        ValueError: a part that no layer has, a model without attention layers.

    Limits: nothing is trained anew, so a part that others could replace still looks needed. The
    standard error says how sure the change is for this model on such text, nothing about seeds.

    Reference: Li and others, representation erasure (2016). Chapter: ch-gates.
    """
    if parts is None:
        parts = [p for p in parts_of(model) if (p.sector == "jets") == (p.order is not None)]
    modes = [(module, module.training) for module in model.modules()]
    try:
        whole = evaluate(model, windows, lengths=lengths)
        rows = [_row("nothing", None, old, old) for old in whole]
        for part in parts:
            with left_out(model, part):
                found = evaluate(model, windows, lengths=lengths)
            rows += [_row(str(part), part, old, new) for old, new in zip(whole, found, strict=True)]
    finally:
        for module, mode in modes:
            module.training = mode
    return rows


def _row(label: str, part: Part | None, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    pairs = zip(old["segments"], new["segments"], strict=True)
    change = torch.tensor([b - a for a, b in pairs], dtype=torch.float64)
    return {
        "left_out": label,
        "sector": None if part is None else part.sector,
        "order": None if part is None else part.order,
        "length": new["length"],
        "loss": new["loss"],
        "change": float(change.mean()),
        "standard_error": (
            float(change.std() / math.sqrt(len(change))) if len(change) > 1 else None
        ),
    }
