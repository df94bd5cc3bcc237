"""How well does a rotary kernel keep its relative law in fp32, bf16 and fp16, far from position 0?

A block of queries at positions P … meets keys 0 … 4095 tokens before each of them. The truth is the
score in fp64 from small positions. "paper": queries and keys are turned at their absolute positions
and rounded to the number type, as a cache that stores them would; "fair": positions are counted
from the block's first query, which changes no score of a relative kernel; "attend": what
``pjrope.attend`` gives, which does the latter by itself, compared by its output. Its truth
is the same call in fp64 near 0: kernels whose positions it shifts are off by 0 in fp64 by construction.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor

from ...attention import attend
from ...kernels import JordanRoPE, PJRotary, PositionKernel, RoPE
from ...training import stream
from ..engine.grids import SCIENTIFIC, cells_over, tables_of
from ..engine.plain_json import significant
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .rounding_claims import JUDGED, KERNELS, TYPES, rotary_claim, rotary_sentences

__all__ = ["EXPERIMENT", "KERNELS", "make", "precision"]

ROUTES = ("paper", "fair", "attend")
HEAD_DIM, HEADS, LENGTH = 24, 4, 512


def make(method: str, length: int = LENGTH) -> PositionKernel:
    """A kernel of this experiment; pj_rotary_3 has order 3, the Jordan kernels order 2."""
    match method:
        case "rope":
            return RoPE(HEAD_DIM)
        case "pj_rotary":
            return PJRotary(HEAD_DIM, length)
        case "pj_rotary_3":
            return PJRotary(HEAD_DIM, length, order=3)
        case "jordan_scaled":
            return JordanRoPE(HEAD_DIM, HEADS, length, gamma=0.0, eta=1.0)
        case "jordan_stabilized":
            return JordanRoPE(HEAD_DIM, HEADS, length, form="stabilized", gamma=0.0, eta=1 / length)
    raise ValueError(f"no kernel {method!r}; choose from: {', '.join(KERNELS)}")


def _scores(
    kernel: PositionKernel, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor, number: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores ``(H, Q, K)`` in fp64 of turned rows rounded to a type, and the rows."""
    wide = torch.float64 if number == torch.float64 else torch.float32
    turned_q, turned_k = kernel.rotate(q.to(wide), k.to(wide), q_pos, k_pos)
    assert turned_q is not None and turned_k is not None  # both were given
    turned_q, turned_k = turned_q.to(number), turned_k.to(number)
    scores = turned_q.double() @ turned_k.double().transpose(-1, -2)
    return scores[0], turned_q, turned_k


@torch.no_grad()
def precision(
    method: str, position: int, number: str, route: str, settings: Any, seed: int
) -> dict[str, float]:
    """Error of a block of queries that starts at a position.

    Args:
        method: in `KERNELS`.
        position: of the first query, tokens, at least the number of keys.
        number: in `TYPES`.
        route: "paper", "fair" or "attend".
        settings: block, keys and length.
        seed: of standard normal queries, keys and values.

    Returns:
        error: largest over lags and heads, over the root mean square of the true scores (of the
        true outputs for "attend"); absolute: the same, not divided; for the first two routes also
        q_norm and k_norm, mean length of the last query and key as stored.
    """
    block, keys, kernel = settings["block"], settings["keys"], make(method, settings["length"])
    generator = stream(seed, "rows")
    q = torch.randn(1, HEADS, block, HEAD_DIM, generator=generator, dtype=torch.float64)
    k, v = torch.randn(2, 1, HEADS, keys + block, HEAD_DIM, generator=generator).double()
    # The relative law: scores at any position are those of a block near 0.
    near_q = torch.arange(keys, keys + block)
    near_k = torch.arange(keys + block)
    dtype, shift = TYPES[number], position - keys
    rows = [x.to(dtype) for x in (q, k, v)]
    exact = [x.double() for x in rows]  # the rounding of what comes in is not the kernel's fault
    norms: dict[str, float] = {}
    if route == "attend":

        def read(parts: list[Tensor], moved: int) -> Tensor:
            q, k, v = parts
            q_pos, k_pos = near_q + moved, near_k + moved
            return attend(q, k, v, kernel, q_pos=q_pos, k_pos=k_pos).double()

        truth, got = read(exact, 0), read(rows, shift)
    else:
        truth, *_ = _scores(kernel, exact[0], exact[1], near_q, near_k, torch.float64)
        origin = shift if route == "paper" else -keys
        got, stored_q, stored_k = _scores(
            kernel, rows[0], rows[1], near_q + origin, near_k + origin, dtype
        )
        norms = {
            "q_norm": significant(stored_q[0, :, -1].double().norm(dim=-1).mean()),
            "k_norm": significant(stored_k[0, :, -1].double().norm(dim=-1).mean()),
        }
        seen = near_k <= near_q[:, None]
        truth, got = truth[:, seen], got[:, seen]
    absolute = float((got - truth).abs().max())
    error = absolute / float(truth.square().mean().sqrt())
    return {"error": significant(error, 3), "absolute": significant(absolute, 3), **norms}


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, rows = context.settings, []
    for number, position, route in product(settings["types"], settings["positions"], ROUTES):
        found = precision(cell.key["method"], position, number, route, settings, cell.seed)
        row = {**cell.key, "type": number, "position": position, "protocol": route}
        rows.append(row | found)
    return rows


def _tables() -> tuple[Table, ...]:
    last, routes = {"position": 1048576}, {"protocol": ["paper", "fair"]}
    by_type, by_place = {"columns": ("type", "protocol")}, {"columns": ("position", "protocol")}
    return tables_of(
        (
            "Largest error of a score over the scores' root mean square, position 1,048,576 "
            "(paper: turned there; fair: counted from the block's first query), L = 512",
            "error",
            {**by_type, "where": {**last, **routes, "type": ["fp32", "bf16"]}},
        ),
        (
            "The same, fp64 and fp16",
            "error",
            {**by_type, "where": {**last, **routes, "type": ["fp64", "fp16"]}},
        ),
        *(
            (
                f"The same by position, {number}",
                "error",
                {**by_place, "where": {"type": number, **routes}},
            )
            for number in ("fp32", "bf16")
        ),
        (
            "Largest error of attend()'s output over its root mean square, position 1,048,576",
            "error",
            {"columns": "type", "where": {**last, "protocol": "attend"}},
        ),
        (
            "Length of a query turned at its absolute position",
            "q_norm",
            {"columns": "position", "where": {"type": "fp32", "protocol": "paper"}},
        ),
        **SCIENTIFIC,
    )


POSITIONS = [4096, 32767, 131072, 1048576]
SEEDS = (0, 1, 2, 3, 4)
EXPERIMENT = Experiment(
    name="rotary_precision",
    question="How well do rotary kernels keep their relative law far out in narrow number types?",
    claims=("P-R1",),
    presets={
        name: Preset(
            name,
            seeds,
            {"length": LENGTH, "keys": keys, "block": block, "positions": at, "types": types},
            cost,
        )
        for name, seeds, keys, block, at, types, cost in (
            ("smoke", (0,), 256, 2, POSITIONS[-1:], list(JUDGED), "3 core-seconds"),
            ("book", SEEDS, 4096, 4, POSITIONS, list(TYPES), "15 core-seconds"),
            ("paper", SEEDS, 4096, 4, POSITIONS, list(TYPES), "as book: beyond the reference's"),
        )
    },
    cells=cells_over(method=KERNELS),
    run_cell=_run_cell,
    baseline="rope",
    tables=_tables(),
    sentences=rotary_sentences,
    verdicts={"P-R1": rotary_claim},
)
