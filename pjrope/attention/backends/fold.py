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
from torch.nn.functional import pad

from ...conventions import wide
from ..blocks import Block
from ..call import Call
from ..scores import Scores, bias_at
from .fused import fused_attention
from .loop import blocked, first

TOLERANCE = 2e-3  # largest error of a logit that this backend may cause, in nats


def refuses(call: Call) -> str | None:
    """Why this backend cannot take the call, or None if it can. Precision is checked in the run."""
    reasons = (
        ("the kernel adds no bias", not call.biases),
        ("the kernel's bias has no finite rank", not call.kernel.folds),
        ("the kernel defines whole scores", call.scored),
        ("the kernel needs an origin per block", call.local),
        ("a fold equals its bias on the past only", call.masks.causal is False),
        ("there is a mask beside causality", call.masks.masked),
        ("there is a window", call.masks.window is not None),
        ("positions differ between rows", call.q_pos.ndim > 1),
        ("there are more queries than keys", call.queries > call.keys),
        ("torch.compile cannot check its precision", torch.compiler.is_compiling()),
        ("keys stand behind queries that see them", not _in_order(call)),
    )
    return first(reasons)


def _in_order(call: Call) -> bool:
    """True if every visible pair has a lag >= 0."""
    if call.default_positions or call.q_pos.ndim > 1 or call.queries > call.keys:
        return True  # or refused for another reason
    seen = call.k_pos.cummax(0).values[call.masks.apart :]
    return bool((call.q_pos >= seen).all())


def error_bound(phi_q: Tensor, phi_k: Tensor) -> Tensor:
    """Largest rounding error of ``phi_q . phi_k`` in fp32 by key, over all queries.

    Channels are computed in fp64 and rounded once, products are summed in fp32: a few half-ulps of
    the largest products.

    Returns:
        ``(H, K)``, nats.
    """
    largest = phi_q.detach().abs().amax(1, keepdim=True)
    return (largest * phi_k.detach().abs()).sum(-1) * torch.finfo(torch.float32).eps * 2


def _tolerance(call: Call) -> float:
    """Largest :func:`error_bound` a call may have; in fp64 any that is finite."""
    return TOLERANCE if call.q.dtype != torch.float64 else torch.finfo(torch.float64).max


def _extended(x: Tensor, phi: Tensor, width: int) -> Tensor:
    channels = phi.to(x.dtype).expand(len(x), -1, -1, -1)
    return pad(torch.cat([x, channels], dim=-1), (0, width - x.shape[-1] - phi.shape[-1]))


def _channels(call: Call, block: Block) -> tuple[Tensor, Tensor]:
    """The bias of a block as channels of its queries and keys."""
    start, stop, low, high = block
    phi = call.kernel.fold(call.q_pos[start:stop], call.k_pos[low:high])
    if phi is None:
        raise TypeError(f"{type(call.kernel).__name__}.fold() gave None and folds is True")
    return phi


def _rows(scores: Scores, block: Block, phi_q: Tensor, phi_k: Tensor) -> Tensor:
    call = scores.call
    q, k = scores.rotated(block)
    number, v = wide(call.q), call.spread(call.v[:, :, block.low : block.high])
    q, k, v = (x.to(number) for x in (q, call.spread(k), v))
    # Fused kernels want one width for q, k and v, a multiple of 8.
    width = -(-max(q.shape[-1] + phi_q.shape[-1], v.shape[-1]) // 8) * 8
    # The call multiplies everything by the scale; the bias must come out as it is.
    q, k = _extended(q, phi_q / call.scale, width), _extended(k, phi_k, width)
    aligned = block.stop - block.start == block.high
    out = fused_attention(
        q,
        k,
        pad(v, (0, width - v.shape[-1])),
        attn_mask=None if aligned else scores.mask(block),
        is_causal=aligned,
        scale=call.scale,
    )
    return out[..., : v.shape[-1]]


def _step(scores: Scores, block: Block) -> Tensor:
    call = scores.call
    phi = _channels(call, block)
    # A logit of size b is rounded by eps b whatever computes it: only more than that counts.
    bias = bias_at(call, call.q_pos[block.start] - call.k_pos[: block.high]).detach().abs()
    excess = error_bound(*phi) - 4 * torch.finfo(torch.float32).eps * bias
    if not (worst := float(excess.max())) <= _tolerance(call):
        raise ValueError(
            f"backend 'fold' would round logits by up to {worst:.1e} nats here, more than "
            f"{TOLERANCE}: use backend='toeplitz' or fp64 inputs"
            if math.isfinite(worst)
            else "backend 'fold' would overflow: damping moves a channel by more than "
            f"{torch.finfo(phi[0].dtype).max:.0e} within {block.stop - block.start} queries: use "
            "backend='toeplitz'"
        )
    return _rows(scores, block, *phi)


def _are_precise(call: Call, phi: tuple[Tensor, Tensor]) -> bool:
    return float(error_bound(*phi).max()) <= _tolerance(call)  # false for nan, where inf meets 0


def is_precise(call: Call) -> bool:
    """True if one origin serves the whole call, which this backend must not refuse."""
    return _are_precise(call, _channels(call, Block(0, call.queries, 0, call.keys)))


def run(call: Call) -> Tensor:
    """Attention with the bias folded into the channels: ``(B, H, Q, Dv)``.

    One fused call while one origin is precise enough, else query blocks with an origin each.

    Raises:
        ValueError: a call that would lose precision, or overflow even within a block.
    """
    whole = Block(0, call.queries, 0, call.keys)
    phi = _channels(call, whole)
    if not _are_precise(call, phi):
        return blocked(call, _step)
    return _rows(Scores(call), whole, *phi).to(call.q.dtype)
