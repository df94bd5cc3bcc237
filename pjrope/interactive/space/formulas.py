"""The formulas of the explorer, from the package's own parts; ``formulas.js`` has the same ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...kernels import jets
from ...kernels.affine import RHO
from ...kernels.characteristic import Root, merge_roots, turning_roots
from ...positions import NTK, PI, Llama3, YaRN, coordinates, geometric
from .state import Space

__all__ = ["NUMBERS", "amplitude", "digits", "ladder", "parts", "roots", "temperature", "weights"]

# Number type -> (unit roundoff, largest finite number).
NUMBERS = {
    "fp32": (2.0**-24, torch.finfo(torch.float32).max),
    "fp16": (2.0**-11, torch.finfo(torch.float16).max),
    "bf16": (2.0**-8, torch.finfo(torch.bfloat16).max),
}


def _yarn(s: Space) -> YaRN:
    return YaRN(
        s.scale,
        s.length,
        beta_fast=max(s.fast, s.slow),
        beta_slow=s.slow,
        truncate=s.whole == "yes",
    )


def ladder(s: Space) -> Tensor:
    """Frequencies of the pairs of the ladder, stretched and then cut: ``(dim/2,)`` radians per token."""
    omega = geometric(s.dim, s.base)
    if s.stretch == "PI":
        omega = PI(s.scale).frequencies(omega, s.scale)
    elif s.stretch == "NTK":
        omega = NTK(s.scale).frequencies(omega, s.scale)
    elif s.stretch == "YaRN":
        omega = _yarn(s).frequencies(omega, s.scale)
    elif s.stretch == "Llama 3":
        by_turns = Llama3(
            s.scale, s.length, low_freq_factor=s.slow, high_freq_factor=max(s.fast, s.slow)
        )
        omega = by_turns.frequencies(omega, s.scale)
    omega[int(s.share * s.dim // 2) :] = 0.0
    return omega


def temperature(s: Space) -> float:
    """What q and k are each multiplied by: YaRN's factor, or 1."""
    if s.stretch == "YaRN" and s.sharpen == "yes":
        return float(_yarn(s).temperature(s.scale))
    return 1.0


def _orders(s: Space) -> list[int]:
    return sorted({int(r) for r in s.orders})


def _bounded(s: Space, lags: Tensor) -> Tensor:
    """``sum_r beta^r`` over the orders present."""
    return jets.lightcone_amplitudes(lags, s.length, 3)[0, _orders(s)].sum(0)


def _swing(s: Space, lags: Tensor) -> Tensor:
    """``sum_r A_r`` of the Fourier jet in its coordinates."""
    if s.coords == "light cone":
        return _bounded(s, lags)
    unit = 1.0 if s.coords == "raw" else float(s.length)
    made = jets.fourier_amplitudes(lags, unit, 3, None)[0, _orders(s)].sum(0)
    return made * torch.exp(-s.damping * coordinates.linear(lags, s.length))


def _rho(s: Space, lags: Tensor) -> Tensor:
    if s.coords == "raw":
        return lags
    return RHO["linear" if s.coords == "scaled" else "lightcone"](lags, s.length)


def _angle(s: Space, lags: Tensor, bent: bool) -> Tensor:
    omega = 2 * math.pi * s.cycles / s.length
    return omega * (coordinates.phase(lags, s.length) if bent else lags)


def parts(s: Space, lags: Tensor) -> dict[str, Tensor]:
    """What each sector adds to the logit, and the sum.

    Args:
        s: point of the space.
        lags: ``(n,)`` fp64, tokens, 0 or more.

    Returns:
        sector -> ``(n,)`` nats: rotation, jet, line, light cone, near lags, sum.
    """
    omega = ladder(s)
    turned = torch.cos(lags[:, None] * omega).sum(1) + s.still
    found = {
        "rotation": s.rot * temperature(s) ** 2 * turned / (len(omega) + s.still),
        "jet": s.jet * _swing(s, lags) * torch.cos(_angle(s, lags, s.coords == "light cone")),
        "line": -s.slope * _rho(s, lags),
        "light cone": s.cone * _bounded(s, lags) * torch.cos(_angle(s, lags, True)),
        "near lags": s.near * (lags < s.size).double(),
    }
    return {**found, "sum": torch.stack(list(found.values())).sum(0)}


def roots(s: Space) -> list[Root]:
    """Characteristic roots of all sectors that have some; light cones have none."""
    found: list[Root] = []
    if s.rot:
        omega = ladder(s)
        found += turning_roots(omega.tolist(), [0.0] * len(omega), 1)
        found += [Root(1)] if s.still else []
    if s.jet and s.orders and s.coords != "light cone":
        turn = 2 * math.pi * s.cycles / s.length
        found += turning_roots([turn], [s.damping / s.length], _orders(s)[-1] + 1)
    if s.slope and s.coords != "light cone":
        found.append(Root(1, 2))
    if s.near:
        found.append(Root(0, s.size))
    return merge_roots(found)


def amplitude(s: Space, lags: Tensor) -> Tensor:
    """Bound of the logit at each lag: every phase taken as 1, ``(n,)`` nats."""
    return (
        s.rot * temperature(s) ** 2
        + s.jet * _swing(s, lags)
        + s.slope * _rho(s, lags)
        + s.cone * _bounded(s, lags)
        + abs(s.near) * (lags < s.size)
    )


def digits(s: Space, lags: Tensor, number: str) -> Tensor:
    """Decimals of a nat that survive where each angle and each sector is rounded once.

    ``-log10 u sum A (1 + |theta|)`` to first order in the unit roundoff u, from 0 on; 0 where the
    bound of :func:`amplitude` leaves the number type.

    Args:
        s: point of the space.
        lags: ``(n,)`` fp64, tokens, 0 or more.
        number: of ``NUMBERS``.

    Returns:
        ``(n,)`` decimals; infinite where nothing is rounded.
    """
    unit, most = NUMBERS[number]
    omega = ladder(s)
    pairs = len(omega) + s.still
    error = (
        s.rot * temperature(s) ** 2 * (1 + lags * omega.sum() / pairs)
        + s.jet * _swing(s, lags) * (1 + _angle(s, lags, s.coords == "light cone"))
        + s.slope * _rho(s, lags)
        + s.cone * _bounded(s, lags) * (1 + _angle(s, lags, True))
        + abs(s.near) * (lags < s.size)
    )
    left = -torch.log10(unit * error)
    return torch.where(amplitude(s, lags) > most, 0.0, left.clamp(min=0))


def weights(s: Space, lags: Tensor) -> Tensor:
    """Attention of a query by position alone: softmax of the sum over these lags, ``(n,)``.

    Lags further apart than a token stand for the lags up to the next one.
    """
    width = torch.diff(lags, append=lags[-1:] + 1)
    logits = parts(s, lags)["sum"] + width.log()
    return torch.softmax(logits, 0) / width
