"""Serving a trained model from a rounded cache, in every layer, without touching its weights.

A plain cache holds keys after the position action, at positions counted from 0, and values. Keys
may be stored before the action instead, and turned whenever they are read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ....diagnostics.views import attention_layers
from ....kernels import PositionKernel
from ....kernels.base import K, Q
from ....kernels.claims import Claims
from ....kernels.jordan_action import JordanAction
from ...codes.rounding import Quantizer, haar_rotation
from ..training import LastToken

__all__ = ["STORES", "RoundedKeys", "Variant", "served", "variants", "without_shear"]

# What is rounded: keys after the action, keys before it, values.
STORES: dict[str, tuple[bool, bool, bool]] = {
    "nothing": (False, False, False),
    "keys": (True, False, False),
    "content keys": (False, True, False),
    "values": (False, False, True),
    "keys, values": (True, False, True),
}
PLAIN, ROTATED = "plain", "rotated"


@dataclass(frozen=True)
class Variant:
    """One way to round a cache.

    Attributes:
        store: one of ``STORES``.
        basis: "plain" coordinates, or "rotated" ones.
        bits: of a coordinate, 0 with the store "nothing".
    """

    store: str
    basis: str
    bits: int

    def quantizer(self, head_dim: int, seed: int) -> Quantizer:
        """The quantizer of this variant; the rotation comes from the seed."""
        turn = haar_rotation(head_dim, seed) if self.basis == ROTATED else None
        return Quantizer(self.bits, turn)


def variants(bits: Sequence[int]) -> list[Variant]:
    """The cache that rounds nothing, then every store, basis and number of bits."""
    return [
        Variant("nothing", PLAIN, 0),
        *(
            Variant(store, basis, b)
            for store in list(STORES)[1:]
            for basis in (PLAIN, ROTATED)
            for b in bits
        ),
    ]


class RoundedKeys(PositionKernel, register=False):
    """A kernel whose turned keys pass through a quantizer, as in a cache filled from position 0.

    Rounding keeps neither the relative law nor norms, and so it claims neither. Without that law
    ``attend`` counts positions from 0 for every kernel, as a cache that grows token by token must,
    and not from the middle of the call.

    Args:
        inner: acts on the channels, without bias or whole scores.
        quantizer: acts on turned keys.

    Raises:
        ValueError: a kernel with a bias or whole scores.
    """

    rotates = True

    def __init__(self, inner: PositionKernel, quantizer: Quantizer) -> None:
        if inner.biases or inner.scored:
            raise ValueError(f"{type(inner).__name__} does more than act on channels")
        super().__init__()
        self.inner, self.quantizer = inner, quantizer

    @property
    def claims(self) -> Claims:
        return replace(self.inner.claims, relative=False, norm_preserving=False)

    def rotate(
        self, q: Q, k: K, q_pos: Tensor | None = None, k_pos: Tensor | None = None
    ) -> tuple[Q, K]:
        q, k = self.inner.rotate(q, k, q_pos, k_pos)
        return q, None if k is None else self.quantizer(k)

    def of_key_heads(self, heads: slice) -> PositionKernel:
        return RoundedKeys(self.inner.of_key_heads(heads), self.quantizer)


@torch.no_grad()
def without_shear(kernel: PositionKernel) -> PositionKernel:
    """A copy of a kernel whose Jordan blocks have a shear of 0."""
    twin = copy.deepcopy(kernel)
    for part in twin.modules():
        if isinstance(part, JordanAction) and part.eta is not None:
            part.eta.zero_()
    return twin


@contextmanager
def served(
    model: LastToken, variant: Variant, quantizer: Quantizer, *, shear: bool = True
) -> Iterator[None]:
    """Within it, every layer reads its keys and values from a cache that was rounded.

    Args:
        model: put back as it was at the end.
        variant: says what is rounded.
        quantizer: says how.
        shear: False also takes the shear out of every kernel.
    """
    after, before, values = STORES[variant.store]
    nothing = Quantizer(0)

    def rounded(layer: nn.Module, given: object, out: Tensor) -> Tensor:
        heads = out.unflatten(-1, (-1, model.config.width // model.config.heads))
        return quantizer(heads).flatten(-2)

    with ExitStack() as stack:
        for layer in attention_layers(model):
            kernel = layer.kernel
            stack.callback(setattr, layer, "kernel", kernel)
            inner = kernel if shear else without_shear(kernel)
            layer.kernel = RoundedKeys(inner, quantizer if after else nothing)
            for projection, wanted in ((layer.key, before), (layer.value, values)):
                if wanted:
                    stack.callback(projection.register_forward_hook(rounded).remove)
        yield
