"""What does a rotary kernel lose along a light cone? Its relative law, and far out the lag itself.

One query and one key stand the same lag apart at several origins, the key's position. All in fp64,
so that what moves is the kernel's law and not the rounding of its channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...kernels import JordanRoPE, PJRotary, PositionKernel, RoPE
from ...training import stream
from ..analysis.statistics import summary
from ..analysis.words import listed
from ..engine.grids import SCIENTIFIC, tables_of
from ..engine.plain_json import significant
from ..engine.result import Result, select
from ..engine.spec import Cell, CellContext, Experiment, Preset
from .rotary_precision import HEAD_DIM, HEADS, LENGTH

__all__ = ["EXPERIMENT", "KERNELS", "PATHS", "make", "moved"]

KERNELS = ("rope", "jordan", "pj_rotary")
PATHS = ("linear", "phase", "amplitude", "both")
ALL_LAGS = "all"  # the lag of a cell's summary row


def make(method: str, path: str, length: int = LENGTH) -> PositionKernel:
    """A kernel of this grid; jordan and pj_rotary have order 2, eta 1 and no damping.

    Args:
        method: in `KERNELS`.
        path: in `PATHS`: linear, or the part of the kernel that follows the light cone.
        length: L, tokens.

    Raises:
        ValueError: an unknown word, or amplitudes of RoPE, which has none.
    """
    if method not in KERNELS or path not in PATHS:
        raise ValueError(f"no kernel {method!r} along {path!r}: there are {KERNELS} and {PATHS}")
    if method == "rope" and path not in _paths(method):
        raise ValueError(f"path is {path!r}: RoPE has a phase alone")
    cone: dict[str, Any] = {} if path == "linear" else {"coordinate": "lightcone"}
    if cone:
        cone |= {"length": length} if method == "rope" else {"parts": path}
    if method == "rope":
        return RoPE(HEAD_DIM, **cone)
    if method == "jordan":
        return JordanRoPE(HEAD_DIM, HEADS, length, gamma=0.0, eta=1.0, **cone)
    return PJRotary(HEAD_DIM, length, **cone)


def _paths(method: str) -> Sequence[str]:
    return PATHS[:2] if method == "rope" else PATHS


@torch.no_grad()
def moved(method: str, path: str, settings: Any, seed: int) -> list[dict[str, Any]]:
    """Scores of the same lags at several origins.

    Args:
        method: in `KERNELS`.
        path: in `PATHS`.
        settings: length, lags (tokens), origins (tokens, the first one the reference), pairs.
        seed: of standard normal queries and keys.

    Returns:
        one row a lag and origin: moved, the largest change of a score from the first origin, and
        lag_left, its largest distance from the same pair at lag 0, both over the largest score of
        the cell; and one row over all lags: spread, the largest range of a score over the origins.
    """
    kernel = make(method, path, settings["length"]).double()
    generator = stream(seed, "pairs")
    shape = (2, settings["pairs"], HEADS, 1, HEAD_DIM)
    q, k = torch.randn(shape, generator=generator, dtype=torch.float64)
    still = (q * k).sum(-1)[..., 0]
    lags, origins = settings["lags"], settings["origins"]

    def scores(lag: int, origin: int) -> torch.Tensor:
        at_i, at_j = torch.tensor([origin + lag]), torch.tensor([origin])
        a, b = kernel.rotate(q, k, at_i, at_j)
        assert a is not None and b is not None  # both were given
        return (a * b).sum(-1)[..., 0]

    found = torch.stack([torch.stack([scores(d, p) for p in origins]) for d in lags])
    largest = float(found.abs().max())
    rows = []
    for lag, of_lag in zip(lags, found, strict=True):
        for origin, values in zip(origins, of_lag, strict=True):
            numbers = {
                "moved": (values - of_lag[0]).abs().max() / largest,
                "lag_left": (values - still).abs().max() / largest,
            }
            rounded = {name: significant(value, 3) for name, value in numbers.items()}
            rows.append({"lag": lag, "origin": origin, **rounded})
    spread = (found.amax(1) - found.amin(1)).max() / largest
    return [*rows, {"lag": ALL_LAGS, "spread": significant(spread, 3)}]


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell({"method": method, "path": path, "seed": seed})
        for method in KERNELS
        for path in _paths(method)
        for seed in seeds
    ]


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    rows = moved(cell.key["method"], cell.key["path"], context.settings, cell.seed)
    return [{**cell.key, **row} for row in rows]


def _mean(rows: Iterable[dict[str, Any]], value: str, where: dict[str, Any]) -> float:
    found = [row[value] for row in select(rows, where) if value in row]
    mean = summary(found).mean if found else None
    return math.nan if mean is None else mean


def not_relative(result: Result) -> list[str]:
    """Sentences with the spread of every kernel and what is left of a lag at the last origin.

    A path is called relative if the spread of no kernel exceeds 1e-6 of the largest score. The lag
    that is followed to the last origin is the training length, or the longest in a shorter run.
    """
    origins = sorted({row["origin"] for row in result.rows if "origin" in row})
    lag = max((row["lag"] for row in result.rows if row.get("origin") == 0), default=0)
    lag = min(lag, LENGTH)
    spreads = {
        (m, p): _mean(result.rows, "spread", {"method": m, "path": p})
        for m in KERNELS
        for p in _paths(m)
    }
    if any(map(math.isnan, spreads.values())):  # a filtered run
        return []
    left = {
        (p, origin): _mean(
            result.rows,
            "lag_left",
            {"method": "pj_rotary", "lag": lag, "origin": origin, "path": p},
        )
        for p in ("linear", "both")
        for origin in (origins[0], origins[-1])
    }
    kept = [p for p in PATHS if max(s for (_, q), s in spreads.items() if p == q) <= 1e-6]
    straight = max(s for (_, p), s in spreads.items() if p == "linear")
    bent = listed(f"{m} ({p}) {s:.2g}" for (m, p), s in spreads.items() if p != "linear")
    return [
        f"Relative are, of {listed(PATHS)}: {listed(kept) if kept else 'none'}. In fp64, scores of "
        f"one lag at origins {origins[0]:,} to {origins[-1]:,} spread by at most {straight:.1e} of "
        f"the largest score along the straight path, and along the light cone by: {bent}.",
        f"How far scores of pj_rotary at lag {lag:,} lie from those at lag 0, over its largest "
        f"score: {left['both', origins[0]]:.2g} at origin {origins[0]:,} and "
        f"{left['both', origins[-1]]:.2g} at {origins[-1]:,} with phase and shear along the light "
        f"cone, {left['linear', origins[0]]:.2g} and {left['linear', origins[-1]]:.2g} along the "
        "straight path.",
    ]


SETTINGS: dict[str, Any] = {"length": LENGTH, "lags": [1, 64, 512, 4096]}
SETTINGS["origins"] = [0, 1024, 32768, 131072, 1048576]
EXPERIMENT = Experiment(
    name="rotary_precision/lightcone",
    question="How far from relative is a rotary kernel whose phase or shear follows a light cone?",
    claims=("P-R1",),
    presets={
        name: Preset(name, seeds, {**SETTINGS, "pairs": pairs}, cost)
        for name, seeds, pairs, cost in (
            ("smoke", (0,), 4, "1 core-second"),
            ("book", (0, 1, 2, 3, 4), 64, "3 core-seconds"),
            ("paper", (0, 1, 2, 3, 4), 64, "as book: the papers have no such kernel"),
        )
    },
    cells=_cells,
    run_cell=_run_cell,
    tables=tables_of(
        (
            "Spread of a score over origins 0 to 1,048,576 at one lag, over the largest score, fp64, "
            "L = 512",
            "spread",
            {"columns": "path", "where": {"lag": ALL_LAGS}},
        ),
        *(
            (
                f"{title}, {method}",
                value,
                {"rows": "path", "columns": "origin", "where": {"method": method, "lag": 512}},
            )
            for title, value in (
                ("Change of a score from origin 0 by origin, lag 512", "moved"),
                ("Distance of a score at lag 512 from that at lag 0", "lag_left"),
            )
            for method in ("rope", "pj_rotary")
        ),
        **SCIENTIFIC,
    ),
    sentences=not_relative,
)
