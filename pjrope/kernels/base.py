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
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from .characteristic import Root
from .growth import first_beyond

_REGISTRY: dict[str, type[PositionKernel]] = {}
DEFAULT_REACH = 512.0  # tokens: a block of queries about its own origin
_FACES = {"rotate": "rotates", "lag_bias": "biases", "fold": "folds", "scores": "scored"}


@dataclass(frozen=True)
class Claims:
    """Properties that hold for every admissible parameter value of a kernel.

    Attributes:
        relative: the logit depends on positions through the lag only.
        finite_rank: as a function of the lag it solves a constant-coefficient difference equation,
            so its Hankel matrix has finite rank.
        bounded: what the kernel adds to or multiplies into a logit has a finite upper bound over
            d >= 0.
        identity_at_zero: at lag 0 the score is q . k.
        norm_preserving: ``rotate`` keeps the norm of q and of k.
        length_free: a pair's logit does not change when longer positions appear in the call.
    """

    relative: bool = True
    finite_rank: bool = True
    bounded: bool = True
    identity_at_zero: bool = True
    norm_preserving: bool = True
    length_free: bool = True

    def __and__(self, other: Claims) -> Claims:
        """What a composite may claim: that which both parts do."""
        return Claims(*(getattr(self, f.name) and getattr(other, f.name) for f in fields(self)))


class PositionKernel(nn.Module):
    """Base of all kernels; does nothing to attention.

    Attributes:
        claims: a :class:`Claims`.
        spec: JSON-able description; :func:`kernel_from_spec` rebuilds the kernel from it. Values of
            tensors travel in the ``state_dict``.
        rotates, biases, folds, scored: which faces do something; set for a subclass that defines
            ``rotate``, ``lag_bias``, ``fold`` or ``scores`` and does not set them itself.
        in_range: ``rotate`` keeps its channels' size at any absolute position, so no origin per
            block is needed; None answers as ``norm_preserving``.
        bias_heads: query heads of the bias, None if there is none or any number will do.
        rotary_heads: key heads of the channel action, None if any number will do.
        head_dim: channels the channel action asks for, None if any number will do.
        degree: highest power of a distance in the bias or the action; 0 where nothing grows like one.
        steepness: what one token counts for in such a power by the values at construction, >= 1.
    """

    claims = Claims()
    in_range: bool | None = None
    rotates = False
    biases = False
    folds = False
    scored = False
    bias_heads: int | None = None
    rotary_heads: int | None = None
    head_dim: int | None = None
    degree: int = 0
    steepness: float = 1.0

    def __init_subclass__(cls, *, register: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for face, flag in _FACES.items():
            if face in cls.__dict__ and flag not in cls.__dict__ and getattr(cls, flag) is False:
                setattr(cls, flag, True)
        if not register:
            return
        known = _REGISTRY.get(cls.__name__)
        if known is not None and known.__module__ != cls.__module__:
            raise ValueError(
                f"a kernel named {cls.__name__!r} exists in {known.__module__}: specs are read by "
                "name, so choose another, or pass register=False in the class statement"
            )
        _REGISTRY[cls.__name__] = cls

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = {name: _plain(value) for name, value in arguments.items()}

    @property
    def spec(self) -> dict[str, Any]:
        return {"kernel": type(self).__name__, **copy.deepcopy(self._arguments)}

    @property
    def stays_in_range(self) -> bool:
        """True if rotated channels keep their size at any absolute position."""
        return self.claims.norm_preserving if self.in_range is None else self.in_range

    def reach(self, number: torch.dtype) -> float:
        """Tokens around an origin in which ``rotate`` keeps its precision.

        Args:
            number: dtype of the queries and keys.

        Returns:
            infinity where absolute positions do no harm; within twice the reach ``attend`` uses
            one origin, beyond it every block gets its own.
        """
        return math.inf if self.stays_in_range else DEFAULT_REACH

    def largest(self, distance: float) -> float:
        """Upper bound of what grows with distance; 0 where nothing does.

        Args:
            distance: tokens: the largest lag, or position where the kernel is not relative.

        Returns:
            the bias, nats, plus what the action makes of products of channels up to 4096.
        """
        return 0.0

    def overflow_at(self, number: torch.dtype) -> int | None:
        """First distance at which the kernel's numbers may leave a number type.

        ``attend`` computes biases and grown channels in fp32 at least, whatever its inputs are, and
        refuses calls that reach the answer for that type; nothing is clamped.

        Args:
            number: a floating-point dtype.

        Returns:
            tokens, as in :meth:`largest`; None if no distance that an int64 holds does.

        Raises:
            ValueError: a dtype that is not floating-point.

        Limits: ``attend`` does not ask inside graphs of ``torch.compile``, nor a kernel of degree 0
            (a stabilized Jordan block refuses by its own check, at up to a percent more tokens), nor
            where ``(steepness d)^degree`` stays below 1e24: a call whose parameters were trained
            or loaded 1e10 times beyond their initial size can then answer with inf or nan.
        """
        if not (isinstance(number, torch.dtype) and number.is_floating_point):
            raise ValueError(
                f"number is {number!r}, a floating-point dtype is needed: torch.float32"
            )
        return first_beyond(self.largest, torch.finfo(number).max)

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> PositionKernel:
        """Build from the arguments of a spec."""
        return cls(**arguments)

    # The faces ------------------------------------------------------------------------------

    def rotate(
        self,
        q: Tensor | None,
        k: Tensor | None,
        q_pos: Tensor | None = None,
        k_pos: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
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
        """What is added to the logit at each lag; even in the lag.

        Args:
            lags: ``(n,)`` tokens.

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

    def _apply(self, fn: Any, recurse: bool = True) -> PositionKernel:
        """Move with the model, but never below fp32: bf16 frequencies forget the far lags."""
        return super()._apply(lambda t: _keep_wide(fn, t), recurse)

    def extra_repr(self) -> str:
        return ", ".join(
            f"{k}={v!r}" for k, v in self._arguments.items() if not isinstance(v, list)
        )


def _plain(value: Any) -> Any:
    """Numbers of numpy and torch as Python's own, so that a spec is JSON."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


def _keep_wide(fn: Any, tensor: Tensor) -> Tensor:
    try:
        moved = fn(tensor)
    except TypeError:  # a device without fp64 (MPS)
        return fn(tensor.float())
    constant = not isinstance(tensor, nn.Parameter)
    narrowed = moved.dtype in (torch.float16, torch.bfloat16) or (
        constant and moved.dtype != tensor.dtype
    )
    if not tensor.is_floating_point() or not narrowed:
        return moved
    return tensor.to(moved.device)


def kernel_from_spec(spec: dict[str, Any] | None) -> PositionKernel:
    """The kernel that wrote ``spec`` (None gives :class:`~pjrope.kernels.nope.NoPE`).

    Args:
        spec: dict with the key "kernel" and the constructor's arguments, as JSON.

    Raises:
        ValueError: an unknown kernel name, or arguments the kernel does not take.
    """
    if spec is not None and not isinstance(spec, dict):
        raise ValueError(f"a kernel's spec is a dict, as kernel.spec gives it, not {spec!r}")
    spec = {"kernel": "NoPE"} if spec is None else copy.deepcopy(spec)
    name = spec.pop("kernel", None)
    if name not in _REGISTRY:
        raise ValueError(f"kernel {name!r} is not known: there are {sorted(_REGISTRY)}")
    try:
        return _REGISTRY[name].from_arguments(spec)
    except TypeError as error:
        raise ValueError(f"spec of {name} does not fit: {error}") from error
