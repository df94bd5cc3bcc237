"""One attention call for every kernel: it picks a backend and can say which and why."""

from __future__ import annotations

from torch import Tensor

from ..conventions import own_types
from ..kernels.base import PositionKernel
from ..kernels.nope import NoPE
from ..positions.lags import Causal
from .backends import BACKENDS
from .call import make_call
from .planning import Plan, choose, make_plan

_NOPE = NoPE()


def attend_plan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    kernel: PositionKernel | None = None,
    *,
    q_pos: Tensor | None = None,
    k_pos: Tensor | None = None,
    causal: Causal = True,
    keep: Tensor | None = None,
    key_keep: Tensor | None = None,
    segments: tuple[Tensor, Tensor] | None = None,
    scale: float | Tensor | None = None,
    window: int | None = None,
    backend: str = "auto",
) -> Plan:
    """What :func:`attend` would do with these arguments; nothing is computed.

    Args: as for :func:`attend`.

    Returns:
        a :class:`Plan`.

    Raises:
        ValueError: as for :func:`attend`.
    """
    call = make_call(
        q,
        k,
        v,
        _NOPE if kernel is None else kernel,
        q_pos=q_pos,
        k_pos=k_pos,
        causal=causal,
        keep=keep,
        key_keep=key_keep,
        segments=segments,
        scale=scale,
        window=window,
    )
    return make_plan(call, backend)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    kernel: PositionKernel | None = None,
    *,
    q_pos: Tensor | None = None,
    k_pos: Tensor | None = None,
    causal: Causal = True,
    keep: Tensor | None = None,
    key_keep: Tensor | None = None,
    segments: tuple[Tensor, Tensor] | None = None,
    scale: float | Tensor | None = None,
    window: int | None = None,
    backend: str = "auto",
) -> Tensor:
    """Softmax attention with a position kernel, ``softmax(scale R(q).R(k) + b(i-j)) v``.

    Args:
        q: ``(B, H, Q, D)``.
        k: ``(B, Hk, K, D)``, Hk divides H; query head h reads key head ``h // (H/Hk)``.
        v: ``(B, Hk, K, Dv)``.
        kernel: position kernel, default none.
        q_pos: ``(Q,)`` or ``(B, Q)`` integers, tokens; default the last Q of ``0 … K-1``.
        k_pos: ``(K,)`` or ``(B, K)`` integers, tokens; default ``0 … K-1``.
        causal: True, "strict" (not itself) or False. By index, aligned at the bottom right:
            positions feed the kernel only.
        keep: boolean, broadcastable to ``(B, H, Q, K)``, True = may attend; two axes are (Q, K).
        key_keep: ``(B, K)`` boolean, True = may be attended to: a padding mask.
        segments: document ids ``(q_segments, k_segments)``, ``(B, Q)`` and ``(B, K)``.
        scale: default ``1/sqrt(D)``; the bias is added after it. A tensor ``()`` or ``(H,)`` may
            train.
        window: a query sees the keys less than so many tokens away, itself included; default all.
            By index, as causality; the cost is N times the window.
        backend: "auto"; "eager", the truth; "sdpa", torch's attention with masks; "toeplitz", the
            bias as a view of one table; "fold", the bias as extra channels; "triton", one fused
            kernel on a GPU.

    Returns:
        ``(B, H, Q, Dv)`` in the dtype of q; a query that may see nothing gives zeros.

    Raises:
        ValueError: shapes, dtypes, positions or a backend that do not fit.

    Limits: a mask given as ``keep`` is as large as its caller made it; nothing here allocates
    Q x K at once beyond a block.
    """
    call = make_call(
        q,
        k,
        v,
        _NOPE if kernel is None else kernel,
        q_pos=q_pos,
        k_pos=k_pos,
        causal=causal,
        keep=keep,
        key_keep=key_keep,
        segments=segments,
        scale=scale,
        window=window,
    )
    with own_types(q.device):
        name, _ = choose(call, backend)
        if not len(q):  # nothing to compute, but gradients still flow
            return q[..., :1].expand(*q.shape[:3], v.shape[3]) + 0 * (k.sum() + v.sum())
        return BACKENDS[name].run(call)
