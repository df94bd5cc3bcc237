"""Which jet orders a bias is made of: by size of amplitude, by function, by what they are worth."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels import PositionKernel
from .views import JETS, jets_of, padded


def effective_mass(kernel: PositionKernel) -> dict[str, Tensor]:
    """Size of each order's amplitude, ``m_r = gate x alpha_r x |zeta_r|``.

    Kernels without gates and order weights (FourierJet, LightCone) have ``m_r = |zeta_r|``.

    Args:
        kernel: :class:`PJBias`, :class:`FourierJet`, :class:`LightCone`, or a sum that contains
            one.

    Returns:
        enabled jet sectors only: "fj" and "lc" to ``(H, R+1)``. Differentiable also where an
        amplitude is 0; the gradient of its mass there is 0.

    Raises:
        ValueError: a kernel without jets; a sum in which two parts bring the same sector.

    Limits: ignores 1/r!, damping and length, so masses of two orders, or of "fj" and "lc", are not
    sizes of functions: order 3 of a Fourier jet needs six times the mass of order 0 to reach the
    same value at lag L. Never 0 after a random start; compare it with the mass at initialisation
    (:func:`change_from`).

    Reference: PJ-RoPE paper, effective mass. Chapter: ch-gates.
    """
    return {name: sector.mass() for name, sector in jets_of(kernel).items()}


def order_mass(kernel: PositionKernel) -> Tensor:
    """Share of each order in the mass of both jet sectors, ``m_r / sum_s m_s``.

    Here ``m_r`` is the sum of :func:`effective_mass` over "fj" and "lc".

    Args:
        kernel: as for :func:`effective_mass`.

    Returns:
        ``(H, R+1)``, rows sum to 1; zeros for a head whose amplitudes are all 0.

    Raises:
        ValueError: as :func:`effective_mass`.

    Limits: the affine sector has no order and is left out of the sum. A head that learned nothing
    but a slope still names a "top order", made of what is left of its random start: read the shares
    beside :func:`sector_summary`. What holds for masses holds here.

    Reference: PJ-RoPE paper, order spectra. Chapter: ch-gates.
    """
    mass = padded(list(effective_mass(kernel).values()))
    total = mass.sum(-1, keepdim=True)
    return mass / torch.where(total > 0, total, 1.0)


def order_components(
    kernel: PositionKernel, lags: Tensor, sectors: tuple[str, ...] = JETS, *, gated: bool = True
) -> Tensor:
    """What each order adds to the bias, ``C_r = g_fj FJ_r + g_lc LC_r``.

    Args:
        kernel: as for :func:`effective_mass`.
        lags: ``(n,)`` tokens.
        sectors: which jet sectors to add; those that the kernel has not are passed over.
        gated: False leaves the gates away.

    Returns:
        ``(H, R+1, n)``, R the highest order of the sectors.

    Raises:
        ValueError: as :func:`effective_mass`; no sector asked for that the kernel has.
    """
    found = jets_of(kernel, sectors).values()
    return padded([s.gated(lags) if gated else s.components(lags) for s in found])


def functional_energy(
    kernel: PositionKernel,
    lags: Tensor,
    sectors: tuple[str, ...] = JETS,
    gated: bool = True,
) -> Tensor:
    """Size of each order as a function, ``E_r = |C_r|_2 / |sum_s C_s|_2`` over the lags.

    ``C_r = g_fj FJ_r + g_lc LC_r`` merges the sectors asked for.

    Args:
        kernel: as for :func:`effective_mass`.
        lags: ``(n,)`` tokens; the window, for instance ``torch.arange(L)``.
        sectors: "fj", "lc" or both; a sector that the kernel has not is passed over.
        gated: False leaves the gates away.

    Returns:
        ``(H, R+1)``; zeros where all orders are 0.

    Raises:
        ValueError: as :func:`effective_mass`; no sector asked for that the kernel has.

    Limits: does not sum to 1, for orders overlap and cancel. The affine sector is not in the
    denominator. Undamped orders grow with the lag, so the window decides the ranking. A constant
    counts, though softmax cannot see it.

    Reference: PJ-RoPE paper, functional energy. Chapter: ch-gates.
    """
    orders = order_components(kernel, lags, sectors, gated=gated)
    whole = torch.linalg.vector_norm(orders.sum(1), dim=-1)
    return torch.linalg.vector_norm(orders, dim=-1) / (whole[:, None] + 1e-12)


def leave_one_order_out(kernel: PositionKernel, lags: Tensor, target: Tensor) -> Tensor:
    """What an order is worth to a fit, ``mse(b - C_r, y) - mse(b, y)``; above 0 it helps.

    ``b`` is the whole bias, affine sector included; ``C_r`` merges both jet sectors.

    Args:
        kernel: as for :func:`effective_mass`.
        lags: ``(n,)`` tokens.
        target: y, ``(n,)`` for all heads or ``(H, n)``, nats.

    Returns:
        ``(H, R+1)``, squared nats; below 0 where the fit is better without the order.

    Raises:
        ValueError: as :func:`effective_mass`; a target of another shape.

    Limits: the other orders are not fitted anew, so of two orders that cancel each looks important.
    What an order is worth to a model's loss is :func:`leave_one_out_loss`.

    Reference: PJ-RoPE paper, leave-one-order-out. Chapter: ch-gates.
    """
    orders = order_components(kernel, lags)
    bias = kernel.lag_bias(lags)
    assert bias is not None, "a kernel with jets has a bias"
    if target.shape not in (bias.shape, bias.shape[1:]):
        raise ValueError(
            f"target has shape {tuple(target.shape)}, {tuple(bias.shape[1:])} or "
            f"{tuple(bias.shape)} is needed: a value per lag"
        )
    residual = bias - target.to(bias)
    without = (residual[:, None] - orders).square().mean(-1)
    return without - residual.square().mean(-1, keepdim=True)
