"""Backend ``fold``: a bias of finite rank as extra channels of q and k.

Jets and affine recency solve a difference equation with constant coefficients, so ``b(i-j)`` is a
dot product ``phi_q(i) . phi_k(j)`` on the past, and any fused attention that knows nothing of biases
computes it. Its gradients to every position parameter come out of the fused backward pass. The
price is precision: channels grow with the distance from their origin and cancel in the product, and
gradients of frequencies, which weigh errors by position, lose more than the logits do. "auto" takes
the table, which on the CPU is no slower; a fold is for kernels that can add no bias at all.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from ...conventions import wide
from ..problem import Problem
from .blocks import blocked, first

TOLERANCE = 2e-3  # largest error of a logit that this backend may cause, in nats


def refuses(problem: Problem) -> str | None:
    """Why this backend cannot take the call, or None if it can. Precision is checked in the run."""
    reasons = (
        ("the kernel adds no bias", not problem.kernel.biases),
        ("the kernel's bias has no finite rank", not problem.kernel.folds),
        ("the kernel defines whole scores", problem.kernel.scored),
        ("the kernel needs an origin per block", problem.local),
        ("a fold equals its bias on the past only", problem.causal is False),
        ("there is a mask beside causality", problem.masked),
        ("positions differ between rows", problem.q_pos.ndim > 1),
        ("there are more queries than keys", problem.queries > problem.keys),
        ("torch.compile cannot check its precision", torch.compiler.is_compiling()),
        ("keys stand behind queries that see them", not _in_order(problem)),
    )
    return first(reasons)


def _in_order(problem: Problem) -> bool:
    """True if every visible pair has a lag >= 0."""
    if problem.plain or problem.q_pos.ndim > 1 or problem.queries > problem.keys:
        return True  # or refused for another reason
    seen = problem.k_pos.cummax(0).values[problem.keys - problem.queries :]
    return bool((problem.q_pos >= seen).all())


def error_bound(phi_q: Tensor, phi_k: Tensor) -> Tensor:
    """Largest rounding error of ``phi_q . phi_k`` in fp32 by key, over all queries.

    Channels are computed in fp64 and rounded once, products are summed in fp32: a few half-ulps of
    the largest products.

    Returns:
        ``(H, K)``, nats.
    """
    largest = phi_q.detach().abs().amax(1, keepdim=True)
    return (largest * phi_k.detach().abs()).sum(-1) * torch.finfo(torch.float32).eps * 2


def _tolerance(problem: Problem) -> float:
    """Largest :func:`error_bound` a call may have; in fp64 any that is finite."""
    return TOLERANCE if problem.q.dtype != torch.float64 else torch.finfo(torch.float64).max


def _extended(x: Tensor, phi: Tensor, width: int) -> Tensor:
    channels = phi.to(x.dtype).expand(len(x), -1, -1, -1)
    return pad(torch.cat([x, channels], dim=-1), (0, width - x.shape[-1] - phi.shape[-1]))


def _rows(
    problem: Problem, start: int, stop: int, keys: int, phi_q: Tensor, phi_k: Tensor
) -> Tensor:
    q, k = problem.rotated(start, stop, keys)
    number, v = wide(problem.q), problem.spread(problem.v[:, :, :keys])
    q, k, v = (x.to(number) for x in (q, problem.spread(k), v))
    # Fused kernels want one width for q, k and v, a multiple of 8.
    width = -(-max(q.shape[-1] + phi_q.shape[-1], v.shape[-1]) // 8) * 8
    # The call multiplies everything by the scale; the bias must come out as it is.
    q, k = _extended(q, phi_q / problem.scale, width), _extended(k, phi_k, width)
    aligned = stop - start == keys
    out = scaled_dot_product_attention(
        q,
        k,
        pad(v, (0, width - v.shape[-1])),
        attn_mask=None if aligned else problem.kept(start, stop, keys),
        is_causal=aligned,
        scale=problem.scale,
    )
    return out[..., : v.shape[-1]]


def _step(problem: Problem, start: int, stop: int, keys: int) -> Tensor:
    q_pos, k_pos = problem.q_pos[start:stop], problem.k_pos[:keys]
    phi = problem.kernel.fold(q_pos, k_pos)
    # A logit of size b is rounded by eps b whatever computes it: only more than that counts.
    bias = problem.kernel.lag_bias(q_pos[0] - k_pos).detach().abs()
    excess = error_bound(*phi) - 4 * torch.finfo(torch.float32).eps * bias
    if not (worst := float(excess.max())) <= _tolerance(problem):
        raise ValueError(
            f"backend 'fold' would round logits by up to {worst:.1e} nats here, more than "
            f"{TOLERANCE}: use backend='toeplitz' or fp64 inputs"
            if math.isfinite(worst)
            else "backend 'fold' would overflow: damping moves a channel by more than "
            f"{torch.finfo(phi[0].dtype).max:.0e} within {stop - start} queries: use "
            "backend='toeplitz'"
        )
    return _rows(problem, start, stop, keys, *phi)


def run(problem: Problem) -> Tensor:
    """Attention with the bias folded into the channels: ``(B, H, Q, Dv)``.

    One fused call while one origin is precise enough, else query blocks with an origin each.

    Raises:
        ValueError: a call that would lose precision, or overflow even within a block.
    """
    phi = problem.kernel.fold(problem.q_pos, problem.k_pos)
    if not float(error_bound(*phi).max()) <= _tolerance(problem):  # nan where inf meets 0
        return blocked(problem, _step)
    problem.prepare()
    out = _rows(problem, 0, problem.queries, problem.keys, *phi)
    return out.to(problem.q.dtype)
