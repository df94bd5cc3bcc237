"""The kernels as operators of torch: compiled graphs, checkpointing and DDP each see one node.

``pjrope::lag_attention`` computes ``softmax(scale q.k + table[head, lag]) v``, and
``pjrope::lag_attention_backward`` its gradients. Where torch must be deterministic
(``torch.use_deterministic_algorithms``) the table's gradient is summed without atomics.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import launch

_INPUTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? q_seg, Tensor? k_seg, Tensor? keep, "
    "int causal, int window, float scale"
)
Arguments = tuple[Any, ...]


def _call(arguments: Arguments) -> launch.Call:
    q, k, v, table, q_seg, k_seg, keep, causal, window, scale = arguments
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    table = None if table is None else table.contiguous()
    segments = None if q_seg is None else (q_seg.contiguous(), k_seg.contiguous())
    keep = None if keep is None else keep.contiguous()
    return launch.Call(q, k, v, table, segments, keep, causal, window, scale)


@torch.library.custom_op(
    "pjrope::lag_attention", mutates_args=(), schema=f"({_INPUTS}) -> (Tensor, Tensor)"
)
def _forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    return launch.forward(_call(arguments))


@_forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    out = q.new_empty(*q.shape[:3], v.shape[3])
    return out, q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op(
    "pjrope::lag_attention_backward",
    mutates_args=(),
    schema=f"(Tensor grad, Tensor out, Tensor lse, {_INPUTS}, bool learns) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
)
def _backward(
    grad: Tensor, out: Tensor, lse: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *inputs, learns = arguments
    repeats = torch.are_deterministic_algorithms_enabled()
    found = launch.backward(_call(tuple(inputs)), out, lse, grad, learns, repeats)
    dq, dk, dv, d_table = found
    return dq, dk, dv, lse.new_empty(0) if d_table is None else d_table


@_backward.register_fake
def _(
    grad: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    return dq, dk, dv, lse.new_empty(others[0].shape if others[-1] else (0,))


def _keep_for_backward(ctx: Any, inputs: Arguments, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:7], *output)
    ctx.options = inputs[7:]


def _gradients(ctx: Any, grad: Tensor, grad_of_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    *inputs, out, lse = ctx.saved_tensors
    learns = inputs[3] is not None and ctx.needs_input_grad[3]
    found = _backward(grad, out, lse, *inputs, *ctx.options, learns)
    wanted = zip(found, ctx.needs_input_grad, strict=False)
    return (*(x if needed else None for x, needed in wanted), *(None,) * 6)


_forward.register_autograd(_gradients, setup_context=_keep_for_backward)


def lag_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor | None,
    *,
    causal: int = 1,
    window: int = 0,
    scale: float,
    segments: tuple[Tensor, Tensor] | None = None,
    keep: Tensor | None = None,
) -> Tensor:
    """``softmax(scale q.k + table[head, lag]) v`` in one kernel, with all gradients.

    Pairs are aligned at the bottom right: the lag is ``i + K - Q - j``.

    Args:
        q: ``(B, H, Q, D)`` in fp16, bf16 or fp32.
        k: ``(B, Hk, K, D)``, Hk divides H; query head h reads key head ``h // (H/Hk)``.
        v: ``(B, Hk, K, Dv)``.
        table: ``(H, lags)`` fp32, nats; lags ``0 … K-1`` with causality, else ``1-Q … K-1``.
        causal: 0, 1, or 2 for strict.
        window: lags below it are seen, looking forward too if not causal; 0 = all.
        scale: multiplies q . k.
        segments: int32 document ids ``(B, Q)`` and ``(B, K)``.
        keep: ``(B, K)`` int8, 0 = hidden.

    Returns:
        ``(B, H, Q, Dv)`` in the dtype of q; a row that sees nothing gives zeros.

    Limits: fp32 products take three tf32 ones (about 1e-6); D and Dv to 256; no second derivative.
    """
    q_seg, k_seg = segments or (None, None)
    return _forward(q, k, v, table, q_seg, k_seg, keep, causal, window, scale)[0]


@torch.library.custom_op(
    "pjrope::lag_decoding",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? keep, int window, float scale, "
    "int splits) -> Tensor",
)
def lag_decoding(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor | None,
    keep: Tensor | None,
    window: int,
    scale: float,
    splits: int,
) -> Tensor:
    """Causal :func:`lag_attention` of few queries, keys shared out to ``splits`` programs a head.

    At most 16 queries over the heads that share a key head; no gradients.
    """
    return launch.decode(_call((q, k, v, table, None, None, keep, 1, window, scale)), splits)


@lag_decoding.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *others: Any) -> Tensor:
    return q.new_empty(*q.shape[:3], v.shape[3])
