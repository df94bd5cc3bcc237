"""Codes of a lag: eight ways to put amplitude and phase on a distance, and phases alone.

A code of lag d holds, for each frequency w and order r, ``e u^r [/r!] (cos w p, sin w p)`` with an
amplitude coordinate u(d), a phase coordinate p(d) and an envelope e(d). The eight variants are
those of the PJ-RoPE paper's light-cone study; the phase-only codes keep order 0, so that every
code has the same norm and nothing but the phase tells lags apart.

The study is run twice. "paper" follows the reference: whole turns of every frequency in L tokens,
which makes all unbent phases exactly L-periodic, and a query that is the stored row itself. "fair"
has frequencies without a common period, and a query that no cache has rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...kernels.jets import powers
from ...positions import coordinates

__all__ = [
    "BUCKETS",
    "CYCLES",
    "FOCUS",
    "PHASES",
    "PRECISIONS",
    "PROTOCOLS",
    "VARIANTS",
    "Variant",
    "amplitudes",
    "bucket",
    "code",
    "even_lags",
    "noisy",
    "normalized",
    "path",
    "reached",
    "standardized",
]

PROTOCOLS = ("paper", "fair")
CYCLES = {"paper": (5.0, 17.0, 61.0), "fair": (5.31, 17.73, 61.17)}  # turns in L tokens
MAX_ORDER = 3
DAMPING = 0.1  # c of e^{-c d/L}, on `scaled` alone
PRECISIONS = {"fp32": 0, "int8": 8, "int4": 4}
BUCKETS = {"train": (0, 1), "x1_4": (1, 4), "x4_16": (4, 16), "x16_32": (16, 32)}
GOLDEN = (math.sqrt(5) - 1) / 2

Coordinate = Callable[[Tensor, float], Tensor]


@dataclass(frozen=True)
class Variant:
    """One way to write a lag.

    Args:
        meaning: its formula in words.
        amplitude: u, (lags, L) → same shape; None for order 0 alone.
        path: p, (lags, L) → same shape; multiplied by w it is the phase in radians.
        factorial: orders are divided by r!.
        damped: the envelope is ``e^{-0.1 d/L}``, else 1.
    """

    meaning: str
    amplitude: Coordinate | None
    path: Coordinate
    factorial: bool = False
    damped: bool = False


def _tokens(d: Tensor, length: float) -> Tensor:
    return coordinates.linear(d, 1)


def _clipped(d: Tensor, length: float) -> Tensor:
    return coordinates.linear(d, length).clamp(max=1)  # what the variant is, not a safeguard


def _log(d: Tensor, length: float) -> Tensor:
    return torch.log1p(coordinates.linear(d, length))


VARIANTS: dict[str, Variant] = {
    "raw": Variant("d^r/r!, phase d", _tokens, _tokens, factorial=True),
    "scaled": Variant("x^r/r! e^(-0.1x), phase d", coordinates.linear, _tokens, True, True),
    "clipped": Variant("min(x, 1)^r/r!, phase d", _clipped, _tokens, factorial=True),
    "log": Variant("ln(1+x)^r/r!, phase d", _log, _tokens, factorial=True),
    "lc_amp_only": Variant("beta^r, phase d", coordinates.velocity, _tokens),
    "lc_phase_only": Variant(
        "x^r/r!, phase phi", coordinates.linear, coordinates.phase, factorial=True
    ),
    "lc": Variant("beta^r, phase phi", coordinates.velocity, coordinates.phase),
    "lc_wrong_scale": Variant("beta^r, phase phi/L", coordinates.velocity, coordinates.rapidity),
}
PHASES: dict[str, Variant] = {
    "phase_linear": Variant("order 0, phase d", None, _tokens),
    "phase_lightcone": Variant("order 0, phase phi", None, coordinates.phase),
    "phase_wrong_scale": Variant("order 0, phase phi/L", None, coordinates.rapidity),
}
FOCUS = ("raw", "scaled", "lc_phase_only", "lc", "lc_wrong_scale")


def _variant(name: str) -> Variant:
    known = {**VARIANTS, **PHASES}
    if name not in known:
        raise ValueError(f"no code {name!r}; choose from: {', '.join(known)}")
    return known[name]


def amplitudes(name: str, lags: Tensor, length: float, max_order: int = MAX_ORDER) -> Tensor:
    """Amplitude of each order, ``e u^r [/r!]``.

    Args:
        name: of a code.
        lags: ``(n,)`` >= 0, tokens; floating point sets the number type of every step, integers
            are computed in fp64.
        length: L, tokens.
        max_order: R.

    Returns:
        ``(n, R+1)``; ``(n, 1)`` for a phase-only code.

    Raises:
        ValueError: for an unknown name, or a lag below 0.

    Limits: `raw`, `scaled`, `log` and `lc_phase_only` have no bound; see ``lightcone_stability``
    for the lag at which each leaves a number type.
    """
    variant = _variant(name)
    if bool((lags < 0).any()):
        raise ValueError(f"a lag is {lags.min().item()}: codes are of lags from 0 on")
    x = coordinates.linear(lags, length)
    if variant.amplitude is None:
        return torch.ones_like(x)[:, None]
    u = variant.amplitude(lags, length)
    made = powers(u, max_order, factorial=variant.factorial).T
    return made * torch.exp(-DAMPING * x)[:, None] if variant.damped else made


def path(name: str, lags: Tensor, length: float) -> Tensor:
    """Phase coordinate p(d): ``(n,)``, tokens (for a wrong scale: no unit)."""
    return _variant(name).path(lags, length)


def code(name: str, lags: Tensor, length: float, cycles: Sequence[float]) -> Tensor:
    """The code of each lag: per frequency and order, amplitude times cos and sin of the phase.

    Args:
        name: of a code.
        lags: ``(n,)`` >= 0, tokens.
        length: L, tokens.
        cycles: turns of each of the C frequencies in L tokens.

    Returns:
        ``(n, 2 C (R+1))``: frequency slowest, then order, then cos before sin; ``(n, 2 C)`` for a
        phase-only code. In the dtype of floating-point lags, fp64 for integer ones.
    """
    heights, p = amplitudes(name, lags, length), path(name, lags, length)
    turns = [2 * math.pi * c / length * p for c in cycles]
    waves = torch.stack([torch.stack([t.cos(), t.sin()], -1) for t in turns], 1)  # (n, C, 2)
    return (heights[:, None, :, None] * waves[:, :, None, :]).flatten(1)


def normalized(values: Tensor) -> Tensor:
    """Rows of unit length."""
    return values / values.norm(dim=1, keepdim=True).clamp_min(1e-12)


def standardized(rows: Tensor, like: Tensor) -> Tensor:
    """Rows by the mean and standard deviation that each channel has in `like`.

    Limits: a channel that rounding left without a spread is divided by 1e-6, as in the reference:
    outside `like` it then takes values of 1e6 and more.
    """
    return (rows - like.mean(0)) / like.std(0).clamp_min(1e-6)


def noisy(rows: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """Rows of unit length, each moved in a random direction by about `noise`, and unit again."""
    rows = normalized(rows)
    shift = torch.randn(rows.shape, generator=generator, dtype=torch.float64).to(rows)
    return normalized(rows + noise / rows.shape[1] ** 0.5 * shift)


def bucket(name: str, length: int) -> tuple[int, int]:
    """First and last lag of a bucket: x1_4 holds L … 4L - 1; train starts at lag 1.

    Raises:
        ValueError: for an unknown bucket.
    """
    if name not in BUCKETS:
        raise ValueError(f"no bucket {name!r}; choose from: {', '.join(BUCKETS)}")
    low, high = BUCKETS[name]
    return max(1, low * length), high * length - 1


def even_lags(name: str, length: int, count: int, seed: int) -> Tensor:
    """``(count,)`` evenly spaced lags of a bucket; seed 0 from end to end, others moved along.

    The reference's lags are those of seed 0. Other seeds move all of them by a part of their
    distance, so that a mean over seeds does not hang on where the lags fall.

    Raises:
        ValueError: for an unknown bucket, or fewer than 2 lags.
    """
    if count < 2:
        raise ValueError(f"count is {count}: at least 2 lags are needed to reach both ends")
    low, high = bucket(name, length)
    lags = torch.linspace(0, high - low, count, dtype=torch.float64)
    moved = lags + seed * GOLDEN % 1 * (high - low) / (count - 1)
    return low + moved.round().long() % (high - low + 1)


def reached(times: int) -> list[str]:
    """The buckets that lie below `times` L."""
    return [name for name, (_, high) in BUCKETS.items() if high <= times]
