"""The conventions every room shares: axes, the sign of the lag, pairing, units, number types.

The notation page of the book is generated from :data:`TABLE`, so the page and the code cannot
disagree. The one dtype rule: a position stays an integer until it meets a frequency, and phases,
lags and jets are never narrower than fp32, whatever the model's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

LAYOUTS = ("interleaved", "half")
_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True)
class Row:
    """One line of the notation table: a symbol, what it means, its unit, its name and shape."""

    symbol: str
    meaning: str
    unit: str
    code: str
    shape: str


TABLE: list[Row] = [
    Row(
        "$B, H, H_k$",
        "batch, query heads, key heads ($H_k$ divides $H$)",
        "count",
        "batch, heads, kv_heads",
        "scalars",
    ),
    Row("$N, Q, K$", "tokens in a sequence, queries, keys", "tokens", "length", "scalars"),
    Row("$D$", "channels of one head", "count", "head_dim", "scalar"),
    Row("$q, k, v$", "queries, keys, values", "none", "q, k, v", "(B, H, Q, D), (B, Hk, K, D)"),
    Row(
        "$i, j$",
        "position of the query, position of the key",
        "tokens",
        "q_pos, k_pos",
        "(Q,) or (B, Q); (K,) or (B, K)",
    ),
    Row("$d = i - j$", "lag; $d \\ge 0$ is the past", "tokens", "lags", "(Q, K) or (n,)"),
    Row(
        "$L$",
        "training length, one constant per kernel, never the current $N$",
        "tokens",
        "length",
        "scalar",
    ),
    Row("$b$", "base of the ladder, $\\omega_k = b^{-2k/D}$", "none", "base", "scalar"),
    Row("$\\omega$", "frequency", "radians per token", "omega", "(D/2,) or (H,)"),
    Row("$s$", "context extension factor, target length over $L$", "none", "scale", "scalar"),
    Row(
        "$e^{-\\mathrm{i}\\omega d}$",
        "how a lag enters every rotary score: keys and queries turn by $+\\omega p$",
        "none",
        "kernel.rotate",
        "(B, H, N, D)",
    ),
    Row("$\\mathrm{i}$", "imaginary unit, upright: $i$ is a position", "none", "complex", "scalar"),
    Row(
        "$\\chi(p)$",
        "character of the integers, $\\chi(a+b) = \\chi(a)\\chi(b)$",
        "none",
        "none",
        "scalar",
    ),
    Row(
        "$b_h(d)$",
        "bias of head $h$ at lag $d$, added to the logit; $b_h(-d) = b_h(d)$",
        "nats",
        "kernel.lag_bias",
        "(H, n)",
    ),
    Row(
        "$\\varphi_q, \\varphi_k$",
        "channels with $b(i-j) = \\varphi_q(i)\\cdot\\varphi_k(j)$ for $i \\ge j$",
        "none",
        "kernel.fold",
        "(H, Q, r), (H, K, r)",
    ),
    Row("$r$", "order of a jet", "none", "order, max_order", "scalar"),
    Row("$x = d/L$", "scaled lag", "none", "coordinates.linear", "(n,)"),
    Row(
        "$\\tau = d/(1+d/L)$",
        "bounded shear coordinate",
        "tokens",
        "coordinates.bounded_shear",
        "(n,)",
    ),
    Row("$y = \\operatorname{asinh}(d/L)$", "rapidity", "none", "coordinates.rapidity", "(n,)"),
    Row("$\\phi = L\\,y$", "light-cone phase coordinate", "tokens", "coordinates.phase", "(n,)"),
    Row(
        "$\\beta = d/\\sqrt{d^2+L^2}$", "velocity, below 1", "none", "coordinates.velocity", "(n,)"
    ),
    Row(
        "$\\zeta_r = a_r + \\mathrm{i} b_r$",
        "amplitude of order $r$: $a_r\\cos\\omega d - b_r\\sin\\omega d$",
        "nats",
        "zeta_re, zeta_im",
        "(H, R+1)",
    ),
    Row("$E$", "shift, $(E f)(d) = f(d + 1)$", "none", "algebra.shift", "(..., n)"),
    Row(
        "$z$",
        "characteristic root: $(E - z)^m$ kills $d^r z^d$ for $r < m$, its multiplicity",
        "none",
        "algebra.Root",
        "scalar",
    ),
    Row("$m$", "order of a Jordan block: its complex channels", "count", "order", "scalar"),
    Row(
        "$\\gamma$",
        "damping rate, $e^{-\\gamma d}$; $\\gamma = c/L$",
        "per token",
        "gamma",
        "(H_k, blocks)",
    ),
    Row(
        "$\\eta$",
        "shear of a Jordan block: $(\\eta d)^r/r!$ couples slots $r$ apart",
        "per token; none for the scaled form",
        "eta",
        "(H_k, blocks)",
    ),
    Row("$c$", "damping, $e^{-c\\,d/L}$", "none", "damping", "(H,)"),
    Row("$m_h$", "ALiBi slope, $-m_h d$", "nats per token", "slopes", "(H,)"),
    Row("$g$", "sector gate, softmax over the enabled sectors", "none", "gates", "(H, sectors)"),
    Row("$\\alpha_r$", "weight of order $r$, softmax over the orders", "none", "alpha", "(H, R+1)"),
    Row(
        "$\\mu_r$",
        "effective mass, $g\\,\\alpha_r\\lvert\\zeta_r\\rvert$",
        "nats",
        "effective_mass",
        "(H, R+1)",
    ),
]


def wide(tensor: Tensor) -> torch.dtype:
    """Number type in which phases and tables that serve ``tensor`` are handed over.

    fp64 for fp64 tensors, else fp32: ``wide(bf16) = fp32``.
    """
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def phase_dtype(device: torch.device) -> torch.dtype:
    """Number type in which phases are computed: fp64, or fp32 on devices without it (MPS)."""
    return torch.float32 if device.type == "mps" else torch.float64


def exporting() -> bool:
    """True within ``torch.export``, which must not choose by a length that it leaves open."""
    if hasattr(torch.compiler, "is_exporting"):
        return torch.compiler.is_exporting()
    # Before torch 2.7 the strict export reads as a compilation and fixes the length.
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()


def untraced(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that stays outside compiled graphs, as under ``torch.compiler.disable``.

    Torch's own decorator loads the compiler at once, which takes two seconds and half of the time
    in which pjrope starts; here it is loaded by the first call that is traced.
    """
    outside = torch._disable_dynamo(function)

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return (outside if torch.compiler.is_compiling() else function)(*args, **kwargs)

    return call


def own_types(device: torch.device) -> AbstractContextManager[object]:
    """A context in which autocast leaves number types alone; the meta device has none to leave."""
    if device.type == "meta":
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def as_tensor(values: Tensor | ArrayLike, name: str, like: Tensor | None = None) -> Tensor:
    """A tensor as it is; an array, list, range or number as a tensor on the device of ``like``.

    Raises:
        ValueError: values that make no array of numbers.
    """
    if isinstance(values, Tensor):
        return values
    try:
        array = np.asarray(values)
        if array.size == 0 and not hasattr(values, "dtype"):  # an empty list says no type
            array = array.astype(np.int64)
        found = torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is a {type(values).__name__} that makes no tensor: "
            + str(error).splitlines()[0]
        ) from None
    return found if like is None else found.to(like.device)


def as_positions(
    positions: Tensor | ArrayLike, name: str = "positions", like: Tensor | None = None
) -> Tensor:
    """``positions``, a tensor, an array or a list, as int64, shape kept.

    Args:
        positions: integers.
        name: of the argument, for the error.
        like: where positions go that are no tensor yet, default the CPU.

    Raises:
        ValueError: positions that are not integers, since a cast would merge neighbours
            (bf16 holds no odd integer above 256).
    """
    positions = as_tensor(positions, name, like)
    if (
        positions.dtype.is_floating_point
        or positions.dtype.is_complex
        or positions.dtype == torch.bool
    ):
        raise ValueError(
            f"{name} have dtype {positions.dtype}, positions are integers: pass torch.arange(n) or "
            f"{name}.round().long()"
        )
    return positions.to(torch.int64)
