"""Small helpers that kernels share: checks of arguments, parameters made from floats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from ..conventions import as_positions, as_tensor, phase_dtype


def check_count(name: str, value: int, least: int = 1) -> int:
    """``value`` if it is an integer >= ``least``, else a ValueError that names it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} is {value!r}, an integer >= {least} is needed")
    return int(value)


def check_length(length: float) -> float:
    """``length`` if it is a positive number of tokens."""
    if not (isinstance(length, Real) and math.isfinite(length) and length > 0):
        raise ValueError(f"length is {length!r}, the training length in tokens must be positive")
    return length


def check_number(name: str, value: float, way_out: str) -> None:
    """Raise unless ``value`` is one finite number."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and math.isfinite(value)):
        raise ValueError(f"{name} is {value!r}, one finite number is needed: {way_out}")


def softplus_inverse(value: Tensor | float) -> Tensor:
    """The x with ``softplus(x) = value``; exact for large and small values alike."""
    value = torch.as_tensor(value, dtype=torch.float64, device="cpu")
    return value + torch.log(-torch.expm1(-value))


def per_head(name: str, value: float | Tensor, heads: int) -> Tensor:
    """``value`` as ``(heads,)`` fp64, a single number repeated.

    Raises:
        ValueError: a tensor of another shape.
    """
    tensor = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach()
    if tensor.ndim == 0:
        tensor = tensor.repeat(heads)
    if tensor.shape != (heads,):
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}, one number or ({heads},) is needed"
        )
    return tensor


def parameter(values: Tensor) -> nn.Parameter:
    """A trainable fp32 copy on the default device (fp64 where that is the default dtype)."""
    wide = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
    return nn.Parameter(values.detach().to(torch.get_default_device(), wide, copy=True))


def constant(values: Tensor) -> Tensor:
    """A buffer: a copy in the phase dtype on the default device."""
    device = torch.get_default_device()
    return values.detach().to(device, phase_dtype(device), copy=True)


def real_lags(lags: Tensor) -> Tensor:
    """|lags| in the phase dtype: biases are even in the lag."""
    lags = as_tensor(lags, "lags")
    return lags.abs().to(phase_dtype(lags.device))


def whole_lags(lags: Tensor) -> Tensor:
    """|lags| as int64, for tables that hold one value for each lag.

    Raises:
        ValueError: a lag between two whole ones.
    """
    lags = as_tensor(lags, "lags")
    if lags.is_floating_point() and not bool((lags == lags.round()).all()):
        raise ValueError(
            f"lags have dtype {lags.dtype} and are not whole, a table has one value for each whole "
            "lag: round them, lags.round().long()"
        )
    return lags.abs().to(torch.int64)


def with_trained_omega(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a rotary kernel's spec, its frequencies a parameter again if they trained."""
    arguments = dict(arguments)
    if trained := arguments.pop("trained", None):
        dtype = {"float32": torch.float32, "float64": torch.float64}[trained]
        arguments["omega"] = nn.Parameter(
            torch.tensor(arguments["omega"], dtype=dtype, device="cpu")
        )
    return arguments


def positions_of(x: Tensor, pos: Tensor | None, name: str) -> Tensor:
    """Integer positions, one per token of ``x``.

    Args:
        x: ``(B, H, N, D)``.
        pos: ``(N,)`` or ``(B, N)``.
        name: of the argument, for the error.

    Raises:
        ValueError: none given, or another number of them.
    """
    pos = None if pos is None else as_positions(pos, name, x)
    if pos is None or pos.shape[-1:] != x.shape[-2:-1]:
        given = "not given" if pos is None else f"of shape {tuple(pos.shape)}"
        raise ValueError(f"{name} are {given}, {x.shape[-2]} tokens need as many positions")
    return pos


def block_rates(name: str, value: float | Tensor, heads: int, blocks: int) -> Tensor:
    """``value`` as ``(heads, blocks)`` fp64, a single number repeated."""
    tensor = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach()
    if tensor.ndim == 0:
        tensor = tensor.expand(heads, blocks)
    if tensor.shape != (heads, blocks) or not bool(torch.isfinite(tensor).all()):
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}: {value}; one finite number or ({heads}, "
            f"{blocks}) of them are needed"
        )
    if name != "eta" and bool((tensor < 0).any()):
        raise ValueError(f"{name} is {value}: damping is >= 0")
    return tensor.clone()


def block_ladder(
    omega: Tensor | None, default: Tensor, heads: int
) -> tuple[Tensor, list | None, str | None]:
    """The frequencies, their spec, and their dtype's name if they train."""
    if omega is None:
        return default, None, None
    ladder, blocks = omega, len(default)
    if not isinstance(ladder, Tensor):
        ladder = torch.as_tensor(ladder, dtype=torch.float64, device="cpu")
    if ladder.shape not in ((blocks,), (heads, blocks)):
        raise ValueError(
            f"omega has shape {tuple(ladder.shape)}, ({blocks},) or ({heads}, {blocks}) is needed"
        )
    if not bool(torch.isfinite(ladder.detach()).all()):
        raise ValueError(f"omega is {ladder.tolist()}: finite frequencies are needed")
    trained = isinstance(omega, nn.Parameter)
    if trained and ladder.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"omega is {ladder.dtype}, which holds no frequency: use fp32 or fp64")
    if ladder.requires_grad and not trained:
        raise ValueError("omega requires a gradient: wrap it, nn.Parameter(omega), to train it")
    name = str(ladder.dtype).removeprefix("torch.") if trained else None
    return ladder, ladder.detach().tolist(), name


def plain_rate(value: float | Tensor | None) -> float | list | None:
    """A rate as JSON: a number, nested lists of a tensor, or None."""
    return (
        value
        if value is None or isinstance(value, int | float)
        else torch.as_tensor(value, device="cpu").tolist()
    )


def plain_number(value: Any) -> Any:
    """Numbers of numpy and torch as Python's own, so that a spec is JSON."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


def keep_wide(fn: Any, tensor: Tensor) -> Tensor:
    """``fn(tensor)``, but never below fp32, and constants in the type they have."""
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


def added(terms: Sequence[Tensor]) -> Tensor:
    """The sum of at least one tensor, from left to right."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def common(name: str, values: list[int | None]) -> int | None:
    """The one number that all parts with an opinion share, else a ValueError."""
    wanted = {v for v in values if v is not None}
    if len(wanted) > 1:
        raise ValueError(f"parts disagree on {name}: {sorted(wanted)}; build them with the same")
    return wanted.pop() if wanted else None


def joined(tensors: list[Tensor]) -> Tensor:
    """Channels side by side in the widest dtype: a part that needs fp32 products keeps them."""
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return torch.cat([tensor.to(dtype) for tensor in tensors], dim=-1)
