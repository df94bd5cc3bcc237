"""Which backend takes a call, and why."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..conventions import exporting
from .backends import BACKENDS, fold, sdpa, toeplitz, triton
from .blocks import rows_of
from .call import Call

# In training, below so many queries masks and torch's own gradient of them cost less than the table;
# twice as many where the bias has nothing to learn. `pjrope bench` measures both on a 2-core CPU.
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


def choose(call: Call, backend: str = "auto") -> tuple[str, str]:
    """The backend for a checked call, and why.

    Args:
        call: the checked call.
        backend: "auto" or a name.

    Raises:
        ValueError: an unknown backend, or one that refuses the call.
    """
    broken = "keys or values are not finite and are hidden from some queries"
    if backend == "auto":
        return ("eager", broken) if call.broken else _choice(call)
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}, this version has {('auto', *BACKENDS)}")
    why = BACKENDS[backend].refuses(call)
    if why is None and call.broken and backend != "eager":
        why = broken
    if why:
        raise ValueError(f"backend {backend!r} cannot take this call, since {why}: use 'auto'")
    return backend, "asked for"


def make_plan(call: Call, backend: str) -> Plan:
    """The plan for a checked call.

    Raises:
        ValueError: as :func:`choose`.
    """
    name, reason = choose(call, backend)
    fused = name in ("fold", "toeplitz", "triton") or (name == "sdpa" and sdpa.fuses(call))
    return Plan(name, reason, _estimate(call, fused))


def _choice(call: Call) -> tuple[str, str]:
    if call.scored:
        return "eager", "the kernel defines whole scores"
    if sdpa.fuses(call):
        return "sdpa", "no bias and no mask: one fused call"
    if call.q.device.type == "cuda":
        return choose_on_gpu(call, triton.gpu_of(call.q.device))
    if not call.biases:
        return "sdpa", f"query blocks of {rows_of(call)}: {_obstacle(call)}"
    if exporting():
        return "sdpa", "one block: an exported graph leaves the length open"
    short = SHORT if any(p.requires_grad for p in call.kernel.parameters()) else 2 * SHORT
    if call.training and call.queries < short:
        return "sdpa", f"a bias in training, short: fewer than {short} queries"
    if why := toeplitz.refuses(call):
        return "sdpa", f"query blocks of {rows_of(call)}: a bias, and {why}"
    return "toeplitz", "a bias: one table, read as a strided view"


def choose_on_gpu(call: Call, gpu: triton.Gpu) -> tuple[str, str]:
    """The backend for a call that no single call of torch's attention can take, on a GPU.

    Never one that goes through heads one by one: each would start kernels of its own.

    Args:
        call: the checked call.
        gpu: what the device can do.
    """
    if (why := triton.refuses(call, gpu)) is None:
        if not call.biases:
            return "triton", f"one fused kernel: {_obstacle(call)}"
        return "triton", "a bias: one table, read by a fused kernel"
    if fold.refuses(call) is None and fold.is_precise(call):
        return "fold", f"a bias of finite rank as extra channels, since {why}"
    what = "a bias" if call.biases else _obstacle(call)
    return "sdpa", f"query blocks of {rows_of(call)}, all heads at once: {what}, and {why}"


def _obstacle(call: Call) -> str:
    if call.masks.masked:
        return "there is a mask beside causality"
    if call.local:
        return "the kernel needs an origin per block"
    return "there is a window" if call.masks.window else "queries and keys differ in number"


def _estimate(call: Call, fused: bool) -> int:
    """Bytes that the forward pass allocates beside its inputs."""
    copies = call.q.numel() + (call.k.numel() + call.v.numel()) * call.groups
    heads = call.q.shape[0] * call.q.shape[1]
    total = copies + heads * call.queries * call.v.shape[3]
    if not fused:
        low, high = call.masks.seen(0, min(rows_of(call), call.queries))
        seen = call.keys if call.masks.window is None else high - low
        total += 3 * heads * min(rows_of(call), call.queries) * seen
    if call.biases:
        total += 2 * call.q.shape[1] * call.keys
    return total * (8 if call.q.dtype == torch.float64 else 4)
