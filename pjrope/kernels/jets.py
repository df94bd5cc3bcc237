"""The two families of lag functions that jets are made of, each written once.

A sector is ``sum_r A_r(d) (a_r cos theta(d) - b_r sin theta(d))``, the real part of
``sum_r zeta_r A_r e^{i theta}`` with ``zeta_r = a_r + i b_r``. Fourier jets take
``A_r = (d/L)^r / r! e^{-c d/L}`` and ``theta = omega d``; the light cone ``A_r = beta^r`` and
``theta = omega L asinh(d/L)``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..conventions import as_positions, phase_dtype
from ..positions import coordinates
from .characteristic import Root, turning_roots


def cycles_ladder(heads: int, length: float, cycles: float) -> Tensor:
    """Initial frequencies: ``linspace(1, cycles, heads)`` turns per L tokens; one head takes all.

    Returns:
        ``(H,)`` fp64, radians per token.
    """
    turns = torch.linspace(1.0, cycles, heads, dtype=torch.float64, device="cpu")
    if heads == 1:
        turns = torch.tensor([float(cycles)], dtype=torch.float64, device="cpu")
    return 2 * math.pi * turns / length


def powers(x: Tensor, max_order: int, *, factorial: bool) -> Tensor:
    """``x^r`` or ``x^r / r!`` for r = 0 … max_order, with ``0^0 = 1``.

    Args:
        x: ``(..., n)``.

    Returns:
        ``(..., max_order + 1, n)``.
    """
    terms = [torch.ones_like(x)]
    for r in range(1, max_order + 1):
        terms.append(terms[-1] * x / (r if factorial else 1))
    return torch.stack(terms, dim=-2)


def fourier_amplitudes(d: Tensor, length: float, max_order: int, damping: Tensor | None) -> Tensor:
    """``(d/L)^r / r! e^{-c d/L}``.

    Args:
        d: ``(n,)`` real lags >= 0, tokens.
        damping: ``(H,)`` c >= 0, or None.

    Returns:
        ``(H, R+1, n)``, or ``(1, R+1, n)`` without damping.
    """
    x = coordinates.linear(d, length)
    amplitudes = powers(x, max_order, factorial=True)[None]
    if damping is None:
        return amplitudes
    return amplitudes * torch.exp(-damping.to(x.dtype)[:, None] * x)[:, None]


def lightcone_amplitudes(d: Tensor, length: float, max_order: int) -> Tensor:
    """``beta^r`` with ``beta = d / sqrt(d^2 + L^2)``: ``(1, R+1, n)``."""
    return powers(coordinates.velocity(d, length), max_order, factorial=False)[None]


def components(amplitudes: Tensor, theta: Tensor, re: Tensor, im: Tensor) -> Tensor:
    """Each order's share of a sector, ``A_r (a_r cos theta - b_r sin theta)``.

    Args:
        amplitudes: ``(H or 1, R+1, n)``.
        theta: ``(H, n)`` phases, radians.
        re: ``(H, R+1)`` a_r.
        im: ``(H, R+1)`` b_r.

    Returns:
        ``(H, R+1, n)``.
    """
    re, im = re.to(theta.dtype)[..., None], im.to(theta.dtype)[..., None]
    return amplitudes * (re * theta.cos()[:, None] - im * theta.sin()[:, None])


def fourier_roots(
    omega: Tensor, damping: Tensor | None, length: float, max_order: int
) -> list[list[Root]]:
    """``e^{-c/L +- i omega}`` of multiplicity R+1, one list a head.

    Args:
        omega: ``(H,)``, radians per token.
        damping: ``(H,)`` c, or None.
    """
    frequencies = omega.detach().tolist()
    decays = [0.0] * len(frequencies)
    if damping is not None:
        decays = [c / length for c in damping.detach().tolist()]
    return [
        turning_roots([w], [c], max_order + 1) for w, c in zip(frequencies, decays, strict=True)
    ]


def fold_jets(
    re: Tensor,
    im: Tensor,
    omega: Tensor,
    damping: Tensor | None,
    length: float,
    q_pos: Tensor,
    k_pos: Tensor,
) -> tuple[Tensor, Tensor]:
    """Fourier jets as 2(R+1) channels a side.

    With ``lambda = i omega - c/L`` and ``x = p/L`` the binomial theorem splits
    ``e^{lambda (i-j)} (x_i - x_j)^r / r!`` into ``x_i^{r-s}/(r-s)!`` times ``(-x_j)^s/s!``; real
    and imaginary parts of the two factors are the channels.

    Args:
        re: ``(H, R+1)`` real parts of zeta, gates worked in.
        im: ``(H, R+1)`` imaginary parts.
        omega: ``(H,)``, radians per token.
        damping: ``(H,)`` c, or None.
        length: L, tokens.
        q_pos: ``(Q,)`` tokens.
        k_pos: ``(K,)`` tokens.

    Returns:
        ``(H, Q, 2(R+1))`` and ``(H, K, 2(R+1))`` in the phase dtype.

    Limits: channels grow like (N/L)^R e^{cN/L} from the last key backwards and cancel in the
    product; take a local origin where N >> L.
    """
    max_order = re.shape[-1] - 1
    q_pos, k_pos = as_positions(q_pos, "q_pos"), as_positions(k_pos, "k_pos")
    real = phase_dtype(q_pos.device)
    origin = k_pos.max()  # damped keys then shrink, not grow, with their distance from it
    i, j = (q_pos - origin).to(real), (k_pos - origin).to(real)
    omega = omega.to(real)[:, None]
    decay = torch.zeros_like(omega) if damping is None else damping.to(real)[:, None] / length
    zeta = torch.complex(re.to(real), im.to(real))
    x_i = powers(i / length, max_order, factorial=True)  # (R+1, Q)
    x_j = powers(-j / length, max_order, factorial=True)
    polynomial = torch.stack(
        [
            (zeta[:, s:, None] * x_i[: max_order + 1 - s].to(zeta.dtype)).sum(1)
            for s in range(max_order + 1)
        ],
        dim=1,
    )  # (H, R+1, Q): what multiplies (-x_j)^s / s!
    turn_q = torch.polar(torch.exp(-decay * i), omega * i)
    turn_k = torch.polar(torch.exp(decay * j), -omega * j)
    side_q, side_k = polynomial * turn_q[:, None], x_j.to(zeta.dtype) * turn_k[:, None]
    phi_q = torch.cat([side_q.real, -side_q.imag], dim=1).transpose(1, 2)
    phi_k = torch.cat([side_k.real, side_k.imag], dim=1).transpose(1, 2)
    return phi_q, phi_k
