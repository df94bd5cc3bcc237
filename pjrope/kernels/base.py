"""The position kernel: what every relative position mechanism has in common.

A kernel touches attention through few faces, each of which does nothing by default:

- ``rotate``: acts on the channels of queries and keys (RoPE and its Jordan forms);
- ``lag_bias``: adds a function of the lag to the logit (ALiBi, jets, light-cone);
- ``fold``: the same bias as a dot product of extra channels, where that is possible;
- ``scores``: the whole logit, for the rare kernel that fits nothing else.

Every kernel *claims* properties in :class:`Claims`; ``tests/contracts`` checks each claim, true and
false, on every kernel.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ._values import plain_number
from .characteristic import Root
from .claims import Claims
from .described import Described
from .doors import KeptWide
from .registry import kernel_from_spec, remember

__all__ = ["Claims", "PositionKernel", "kernel_from_spec"]

# What is given as a tensor comes back as one, and None as None.
Q = TypeVar("Q", Tensor, None)
K = TypeVar("K", Tensor, None)

_FACES = {"rotate": "rotates", "lag_bias": "biases", "fold": "folds", "scores": "scored"}


class PositionKernel(KeptWide, Described):
    """Base of all kernels; does nothing to attention.

    Attributes:
        claims: a :class:`Claims`.
        spec: JSON-able description; :func:`kernel_from_spec` rebuilds the kernel from it. Values of
            tensors travel in the ``state_dict``.
        rotates, biases, folds, scored: which faces do something; set for a subclass that defines
            ``rotate``, ``lag_bias``, ``fold`` or ``scores`` and does not set them itself.
        growth: a :class:`~pjrope.kernels.growth.Growth`, how numbers grow with distance; unknown
            unless a kernel says it.
        bias_heads: query heads of the bias, None if there is none or any number will do.
        rotary_heads: key heads of the channel action, None if any number will do.
        head_dim: channels the channel action asks for, None if any number will do.
    """

    def __init_subclass__(cls, *, register: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for face, flag in _FACES.items():
            if face in cls.__dict__ and flag not in cls.__dict__ and getattr(cls, flag) is False:
                setattr(cls, flag, True)
        if register:
            remember(cls)

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = {name: plain_number(value) for name, value in arguments.items()}

    @property
    def spec(self) -> dict[str, Any]:
        return {"kernel": type(self).__name__, **copy.deepcopy(self._arguments)}

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> PositionKernel:
        """Build from the arguments of a spec."""
        return cls(**arguments)

    # The faces ------------------------------------------------------------------------------

    def rotate(
        self,
        q: Q,
        k: K,
        q_pos: Tensor | None = None,
        k_pos: Tensor | None = None,
    ) -> tuple[Q, K]:
        """Act on the channels of queries and keys.

        Args:
            q: ``(B, H, Q, D)`` or None.
            k: ``(B, Hk, K, D)`` or None.
            q_pos: ``(Q,)`` or ``(B, Q)`` integers, tokens.
            k_pos: ``(K,)`` or ``(B, K)`` integers, tokens.

        Returns:
            q and k with their positions worked in, perhaps with more channels.
        """
        return q, k

    def of_key_heads(self, heads: slice) -> PositionKernel:
        """The same channel action for some key heads alone: a view to ``rotate`` with, no copy.

        Args:
            heads: of those that the parameters are for.
        """
        return self

    def lag_bias(self, lags: Tensor) -> Tensor | None:
        """What is added to the logit at each lag.

        Args:
            lags: ``(n,)`` tokens; below 0 where the key is ahead of its query. The kernels of this
                package are even, ``b(-d) = b(d)``; others need not be.

        Returns:
            ``(H, n)`` in fp32 or better, or None.
        """
        return None

    def fold(self, q_pos: Tensor, k_pos: Tensor) -> tuple[Tensor, Tensor] | None:
        """Channels with ``lag_bias(i - j) = phi_q(i) . phi_k(j)`` for i >= j.

        Args:
            q_pos: ``(Q,)`` integers, tokens.
            k_pos: ``(K,)`` integers, tokens.

        Returns:
            ``(H, Q, r)`` and ``(H, K, r)``, or None where no finite r exists.

        Limits: equal to the bias on the past only, so legal only under a causal mask.
        """
        return None

    def roots(self) -> list[list[Root]] | None:
        """Characteristic roots of the lag functions, head by head: see :func:`.algebra.roots`.

        Returns:
            None where the kernel is not relative or not of finite rank.
        """
        return None

    def scores(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """The unscaled logits ``(B, H, Q, K)`` of a kernel that is no dot product, or None."""
        return None

    # Parameters -----------------------------------------------------------------------------

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw random initial values anew; kernels without random values do nothing."""

    def position_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Names and values of what the kernel learns: an optimiser group of its own."""
        return self.named_parameters()

    def freeze(self, *names: str) -> PositionKernel:
        """Stop the named parameters from training, in all parts; returns the kernel.

        Raises:
            ValueError: a name that no part has.
        """
        for name in names:
            found = [p for full, p in self.named_parameters() if full.split(".")[-1] == name]
            if not found:
                known = sorted({full.split(".")[-1] for full, _ in self.named_parameters()})
                raise ValueError(f"{name!r} is no parameter of this kernel: it has {known}")
            for parameter in found:
                parameter.requires_grad_(False)
        return self

    def __add__(self, other: PositionKernel) -> PositionKernel:
        if not isinstance(other, PositionKernel):
            return NotImplemented
        from .composition import Sum

        return Sum(self, other)

    def extra_repr(self) -> str:
        return ", ".join(
            f"{k}={v!r}" for k, v in self._arguments.items() if not isinstance(v, list)
        )
