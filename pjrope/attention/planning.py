"""Which backend takes a call, and why."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .backends import BACKENDS, sdpa, toeplitz
from .problem import Problem

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


def make_plan(problem: Problem, backend: str) -> Plan:
    """The plan for a checked call.

    Raises:
        ValueError: an unknown backend, or one that refuses the call.
    """
    if backend not in ("auto", *BACKENDS):
        raise ValueError(f"backend is {backend!r}, this version has {('auto', *BACKENDS)}")
    if backend != "auto" and (why := BACKENDS[backend].refuses(problem)):
        raise ValueError(f"backend {backend!r} cannot take this call, since {why}: use 'auto'")
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
    short = SHORT if any(p.requires_grad for p in problem.kernel.parameters()) else 2 * SHORT
    if problem.training and problem.queries < short:
        return "sdpa", f"a bias in training, short: fewer than {short} queries"
    if why := toeplitz.refuses(problem):
        return "sdpa", f"query blocks of {problem.block}: a bias, and {why}"
    return "toeplitz", "a bias: one table, read as a strided view"


def _obstacle(problem: Problem) -> str:
    if problem.masked:
        return "there is a mask beside causality"
    if problem.local:
        return "the kernel needs an origin per block"
    return "queries and keys differ in number"


def run_plan(problem: Problem, backend: str) -> Tensor:
    """Choose a backend and run it: ``(B, H, Q, Dv)``."""
    return BACKENDS[make_plan(problem, backend).backend].run(problem)
