"""One attention call for every kernel: it picks a backend and can say which and why."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernels.base import PositionKernel
from ..kernels.nope import NoPE
from ..positions.lags import Causal
from .backends import BACKENDS, fold, sdpa, toeplitz
from .problem import Problem, make_problem

_NOPE = NoPE()

# Measured on a 2-core CPU, forward and backward against plain causal attention, fp32, 4 heads of 24
# to 32 channels. Below so many queries torch's own mask gradient is cheapest (1.0-1.9x); from there
# on a fold (1.15-1.3x) beats the table (1.4-1.6x), and the table beats masks (2-7x). Without
# gradients the table wins throughout (1.1-1.2x against 1.2-7x).
SHORT = 256


@dataclass(frozen=True)
class Plan:
    """What :func:`attend` would do.

    Attributes:
        backend: name of the backend.
        reason: why, in one sentence.
        peak_bytes: estimate of what the forward pass allocates beside its inputs.
    """

    backend: str
    reason: str
    peak_bytes: int


def _estimate(problem: Problem, fused: bool) -> int:
    wide = 8 if problem.q.dtype == torch.float64 else 4
    copies = (
        problem.q.numel() + problem.k.numel() * problem.groups + problem.v.numel() * problem.groups
    )
    output = problem.q.shape[0] * problem.q.shape[1] * problem.queries * problem.v.shape[3]
    total = copies + output
    if not fused:
        heads = problem.q.shape[0] * problem.q.shape[1]
        total += 3 * heads * min(problem.block, problem.queries) * problem.keys
    if problem.kernel.biases:
        total += 2 * problem.q.shape[1] * problem.keys
    return total * wide


def _plan(problem: Problem, backend: str) -> Plan:
    if backend not in ("auto", *BACKENDS):
        raise ValueError(f"backend is {backend!r}, this version has {('auto', *BACKENDS)}")
    if problem.kernel.scored and backend not in ("auto", "eager"):
        raise ValueError(
            f"{type(problem.kernel).__name__} defines whole scores, which only backend='eager' "
            f"computes, not {backend!r}"
        )
    name, reason = _choice(problem) if backend == "auto" else (backend, "asked for")
    fused = name in ("fold", "toeplitz") or (name == "sdpa" and sdpa.fuses(problem))
    return Plan(name, reason, _estimate(problem, fused))


def _choice(problem: Problem) -> tuple[str, str]:
    """The backend for a call and why."""
    if problem.kernel.scored:
        return "eager", "the kernel defines whole scores"
    if sdpa.fuses(problem):
        return "sdpa", "no bias and no mask: one fused call"
    if not problem.kernel.biases:
        return "sdpa", f"query blocks of {problem.block}: {_obstacle(problem)}"
    if problem.training and problem.queries < SHORT:
        return "sdpa", f"a bias in training, short: fewer than {SHORT} queries"
    if why := toeplitz.refuses(problem):
        return "sdpa", f"query blocks of {problem.block}: a bias, and {why}"
    if problem.training and fold.suits(problem):
        return "fold", "a bias of finite rank in training: extra channels of one fused call"
    return "toeplitz", "a bias: one table, read as a strided view"


def _obstacle(problem: Problem) -> str:
    if problem.masked:
        return "there is a mask beside causality"
    if problem.local:
        return "the kernel needs an origin per block"
    return "queries and keys differ in number"


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
    segments: tuple[Tensor, Tensor] | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Plan:
    """What :func:`attend` would do with these arguments; nothing is computed.

    Args: as for :func:`attend`.

    Returns:
        a :class:`Plan`.

    Raises:
        ValueError: as for :func:`attend`.
    """
    problem = make_problem(
        q,
        k,
        v,
        _NOPE if kernel is None else kernel,
        q_pos=q_pos,
        k_pos=k_pos,
        causal=causal,
        keep=keep,
        segments=segments,
        scale=scale,
    )
    return _plan(problem, backend)


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
    segments: tuple[Tensor, Tensor] | None = None,
    scale: float | None = None,
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
        keep: boolean, broadcastable to ``(B, H, Q, K)``, True = may attend.
        segments: document ids ``(q_segments, k_segments)``, ``(B, Q)`` and ``(B, K)``.
        scale: default ``1/sqrt(D)``; the bias is added after it.
        backend: "auto"; "eager", the truth; "sdpa", torch's attention with masks; "toeplitz", the
            bias as a view of one table; "fold", the bias as extra channels.

    Returns:
        ``(B, H, Q, Dv)`` in the dtype of q; a query that may see nothing gives zeros.

    Raises:
        ValueError: shapes, dtypes, positions or a backend that do not fit.

    Limits: a mask given as ``keep`` is as large as its caller made it; nothing here allocates
    Q x K at once beyond a block.
    """
    problem = make_problem(
        q,
        k,
        v,
        _NOPE if kernel is None else kernel,
        q_pos=q_pos,
        k_pos=k_pos,
        causal=causal,
        keep=keep,
        segments=segments,
        scale=scale,
    )
    plan = _plan(problem, backend)
    with torch.autocast(q.device.type, enabled=False):
        return BACKENDS[plan.backend](problem)
