"""How well does a rotary kernel keep its relative law in fp32, bf16 and fp16, far from position 0?

A block of queries at positions P … meets keys 0 … 4095 tokens before each of them. The truth is the
score in fp64 from small positions. "paper": queries and keys are turned at their absolute positions
and rounded to the number type, as a cache that stores them would; "fair": positions are counted
from the block's first query, which changes no score of a relative kernel; "attend": what
``pjrope.attend`` gives, which does the latter by itself, compared by its output. Its truth
is the same call in fp64 near 0: kernels whose positions it shifts are off by 0 in fp64 by construction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...attention import attend
from ...kernels import JordanRoPE, PJRotary, PositionKernel, RoPE
from ...training import stream
from ..analysis.compare import summary
from ..analysis.words import listed
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from ..engine.store import Result, select
from .lag_codes import significant

__all__ = ["EXPERIMENT", "KERNELS", "make", "precision"]

TYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16}
TYPES["fp16"] = torch.float16
KERNELS = ("rope", "pj_rotary", "pj_rotary_3", "jordan_scaled", "jordan_stabilized")
ROUTES = ("paper", "fair", "attend")
HEAD_DIM, HEADS, LENGTH = 24, 4, 512
AS_ROPE = 10  # how many times the error of plain RoPE still counts as keeping the law


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


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [Cell({"method": method, "seed": seed}) for method in KERNELS for seed in seeds]


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, rows = context.settings, []
    for number in settings["types"]:
        for position in settings["positions"]:
            for route in ROUTES:
                found = precision(cell.key["method"], position, number, route, settings, cell.seed)
                row = {**cell.key, "type": number, "position": position, "protocol": route}
                rows.append(row | found)
    return rows


def _settings(positions: Sequence[int], types: Sequence[str], keys: int, block: int) -> Any:
    return {
        **{"length": LENGTH, "keys": keys, "block": block},
        **{"positions": list(positions), "types": list(types)},
    }


def rotary_claim(result: Result) -> list[str]:
    """Sentences on P-R1: exact PJ-rotary depends on the lag alone.

    Errors are over the root mean square of the true scores, mean over seeds, at the farthest
    position. A kernel keeps its law in a number type if its error is at most ten times that of rope
    in the same type, by the same route. P-R1 is *reproduced* if pj_rotary does so at absolute
    positions in fp64, fp32 and bf16; *with a caveat* if there in fp64 alone, and in all three with
    positions counted from the block; *not reproduced* otherwise. A kernel is cured in a type if it
    does not keep its law at absolute positions and does from the block's origin.

    The rule first had one limit of 1e-2 for fp32 and bf16. A trial with two seeds showed that rope
    itself misses that in bf16 (1.1e-2), so the limit became a multiple of rope's error.
    """
    far = max(row["position"] for row in result.rows)

    def error(method: str, number: str, route: str) -> float:
        where = {"method": method, "type": number, "protocol": route, "position": far}
        mean = summary(row["error"] for row in select(result.rows, where)).mean
        return math.inf if mean is None else mean

    if not {"fp64", "fp32", "bf16"} <= {row["type"] for row in result.rows}:
        return []
    if not {*KERNELS} <= {row["method"] for row in result.rows}:
        return []

    def keeps(method: str, number: str, route: str) -> bool:
        return error(method, number, route) <= AS_ROPE * error("rope", number, route)

    tried = ("fp64", "fp32", "bf16")
    kept = {(r, t): keeps("pj_rotary", t, r) for r in ("paper", "fair") for t in tried}
    word = "not reproduced"
    if all(kept["paper", t] for t in tried):
        word = "reproduced"
    elif kept["paper", "fp64"] and all(kept["fair", t] for t in tried):
        word = "reproduced with a caveat"

    def line(route: str, method: str = "pj_rotary") -> str:
        return listed(f"{error(method, t, route):.1e} in {t}" for t in tried)

    types = [t for t in TYPES if t in {row["type"] for row in result.rows}]
    cured = [
        f"{m} in {t}"
        for m in KERNELS
        for t in types
        if keeps(m, t, "fair") and not keeps(m, t, "paper")
    ]
    last = select(result.rows, {"method": "pj_rotary", "type": "fp32", "position": far})
    norms = {
        route: summary(row["q_norm"] for row in select(last, {"protocol": route})).mean
        for route in ("paper", "fair")
    }
    bent = error("jordan_stabilized", "fp64", "paper")
    # In fp64 the truth is that very call, once attend has counted positions from the block.
    narrow = [t for t in types if t != "fp64"]
    outputs = listed(f"{error('pj_rotary', t, 'attend'):.1e} in {t}" for t in narrow)
    return [
        f"P-R1, {word}: at position {far:,}, turned there, scores of pj_rotary are off by "
        f"{line('paper')} of their root mean square (rope: "
        f"{line('paper', 'rope')}).",
        f"Counted from the block's first query they are off by {line('fair')}; a query's length is "
        f"then {norms['fair']:.1f} and not {norms['paper']:,.0f}.",
        f"More than ten times as far off as rope at absolute positions, and not from the block's: "
        f"{listed(cured) if cured else 'none'}.",
        f"attend() at that position: outputs of pj_rotary are off by {outputs}.",
        f"jordan_stabilized is off by {bent:.2g} even in fp64: it is not relative, and no origin "
        "is a cure.",
    ]


def _tables(types: Sequence[str]) -> tuple[Table, ...]:
    numbers: dict[str, Any] = {"digits": 1, "form": "scientific"}
    last = {"position": 1048576}
    return (
        Table(
            "Largest error of a score over the scores' root mean square, position 1,048,576 "
            "(paper: turned there; fair: counted from the block's first query), L = 512",
            "error",
            columns=("type", "protocol"),
            where={**last, "protocol": ["paper", "fair"], "type": ["fp32", "bf16"]},
            **numbers,
        ),
        Table(
            "The same, fp64 and fp16",
            "error",
            columns=("type", "protocol"),
            where={**last, "protocol": ["paper", "fair"], "type": ["fp64", "fp16"]},
            **numbers,
        ),
        *(
            Table(
                f"The same by position, {number}",
                "error",
                columns=("position", "protocol"),
                where={"type": number, "protocol": ["paper", "fair"]},
                **numbers,
            )
            for number in types
        ),
        Table(
            "Largest error of attend()'s output over its root mean square, position 1,048,576",
            "error",
            columns="type",
            where={**last, "protocol": "attend"},
            **numbers,
        ),
        Table(
            "Length of a query turned at its absolute position",
            "q_norm",
            columns="position",
            where={"type": "fp32", "protocol": "paper"},
            **numbers,
        ),
    )


POSITIONS = [4096, 32767, 131072, 1048576]
EXPERIMENT = Experiment(
    name="rotary_precision",
    question="How well do rotary kernels keep their relative law far out in narrow number types?",
    claims=("P-R1",),
    presets={
        "smoke": Preset(
            "smoke", (0,), _settings([1048576], ["fp64", "fp32", "bf16"], 256, 2), "3 core-seconds"
        ),
        "book": Preset(
            "book", (0, 1, 2, 3, 4), _settings(POSITIONS, list(TYPES), 4096, 4), "15 core-seconds"
        ),
        "paper": Preset(
            "paper",
            (0, 1, 2, 3, 4),
            _settings(POSITIONS, list(TYPES), 4096, 4),
            "as book: beyond the reference's 32,767 positions",
        ),
    },
    cells=_cells,
    run_cell=_run_cell,
    baseline="rope",
    tables=_tables(("fp32", "bf16")),
    sentences=rotary_claim,
)
