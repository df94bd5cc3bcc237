"""What grows with the lag, what is bounded, and what a bound on amplitude or phase costs.

No training: the features, the bias of highest order, the softmax it makes and its phases, for eight
variants to 1,048,576 positions. "paper": fp32 and 17 turns in L tokens. "fair": fp64 and 17.73
turns; lags are compared by three phases together, not by one; condition numbers are not those of
fp32 rounding. The reference stops at 32,768 positions; the rows to there are its own.

Besides, for each number type: the lag at which a variant's features leave it, said beforehand from
the formula and found by looking at every lag; and the first lag whose code is equal to the next
one's once rounded.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..engine.grids import SCIENTIFIC, cells_over, tables_of
from ..engine.plain_json import significant
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .lag_codes import (
    CYCLES,
    PROTOCOLS,
    VARIANTS,
    amplitudes,
)
from .lag_codes import path as phase_path
from .rounding import TYPES, first_overflow, predicted_overflow, quantize
from .stability_claims import RULES, stability_sentences

__all__ = ["EXPERIMENT", "TYPES", "first_overflow", "predicted_overflow", "stability"]

NUMBERS = {"paper": torch.float32, "fair": torch.float64}
THRESHOLD = 1e-3  # radians: closer phases collide
SAMPLES = 4096


def _condition(columns: Tensor) -> float:
    """Largest over smallest singular value of the standardised columns."""
    spread = columns.std(0).clamp_min(1e-8)
    values = torch.linalg.svdvals((columns - columns.mean(0)) / spread)
    return float(values[0] / values[-1].clamp_min(1e-12))


def _collisions(angles: Tensor) -> tuple[float, float]:
    """Share of lags whose nearest other is closer than the threshold, on a circle and a torus.

    Args:
        angles: ``(frequencies, n)`` radians; the circle is that of the middle frequency.

    Limits: on the torus nearness is looked for among the 64 nearest on the circle; lags that share
    one of its angles beyond those (whole cycles) count among the nearest by the other two.
    """
    circle = angles.remainder(2 * math.pi)
    one, order = circle[len(circle) // 2].sort()
    gaps = torch.cat([one[1:] - one[:-1], one[:1] + 2 * math.pi - one[-1:]])
    alone = torch.minimum(gaps, gaps.roll(1))
    closest = torch.full_like(one, torch.inf)
    torus = circle[:, order]
    for step in range(1, 65):
        apart = (torus - torus.roll(step, 1)).abs()
        apart = torch.minimum(apart, 2 * math.pi - apart).amax(0)
        closest = torch.minimum(closest, torch.minimum(apart, apart.roll(-step)))
    shares = [float((near < THRESHOLD).double().mean()) for near in (alone, closest)]
    return shares[0], shares[1]


def _attention(bias: Tensor, lags: Tensor) -> dict[str, float | Tensor]:
    """Entropy, support and mean distance of the softmax of a bias."""
    weights = bias.softmax(0)
    entropy = float(torch.special.entr(weights).sum())
    distance = (weights * lags).sum()
    return {"entropy": entropy, "support": math.exp(entropy), "distance": distance}


def stability(name: str, count: int, length: int, protocol: str) -> dict[str, float]:
    """Every number of one variant over the lags 0 … count - 1.

    Args:
        name: of a variant.
        count: positions T, at least 4.
        length: L, tokens.
        protocol: "paper" or "fair".

    Returns:
        norm, bias, entropy, support, distance, phase_ratio, span, local, wrapped, joint,
        condition, int8, int4. Angles of the middle of three frequencies, except joint.

    Raises:
        ValueError: for fewer than 4 positions.
        OverflowError: where a number is not finite. Nothing is recorded then: a norm that silently
            is infinite makes an error over it 0.
    """
    if count < 4:
        raise ValueError(f"positions is {count}: at least 4 are needed, half of them is looked at")
    cycles = CYCLES[protocol]
    lags = torch.arange(count).to(NUMBERS[protocol])
    heights, p = amplitudes(name, lags, length), phase_path(name, lags, length)
    omegas = [2 * math.pi * c / length for c in cycles]
    omega = omegas[len(omegas) // 2]
    bias = heights[:, -1] * torch.cos(omega * p)
    far = slice(count // 2, count)
    steps = omega * (p[far][1:] - p[far][:-1])
    picked = torch.linspace(count // 2, count - 1, min(SAMPLES, count - count // 2))
    angles = torch.stack([w * p[picked.double().round().long()] for w in omegas])
    wrapped, joint = _collisions(angles)
    turns = omega * p[far, None]
    columns = torch.cat([heights[far] * turns.cos(), heights[far] * turns.sin()], 1)
    found: dict[str, float | Tensor] = {
        "norm": _norm(heights[-1]),
        "bias": bias.abs().max(),
        **_attention(bias, lags),
        "phase_ratio": p[-1] - p[-2],
        "span": omega * (p[-1] - p[count // 2]),
        "local": (steps < THRESHOLD).double().mean(),
        **{"wrapped": wrapped, "joint": joint, "condition": _condition(columns)},
        "int8": _rounded(heights, 8),
        "int4": _rounded(heights, 4),
    }
    # A bound of 2 or 1 that is met from below to the sixth digit must not look like a breach.
    digits = {"norm": 9, "bias": 9}
    numbers = {key: significant(value, digits.get(key, 6)) for key, value in found.items()}
    if lost := [key for key, value in numbers.items() if not math.isfinite(value)]:
        raise OverflowError(
            f"{name} over {count:,} positions, {protocol}: {', '.join(lost)} left "
            f"{NUMBERS[protocol]}; use fewer positions or a larger length"
        )
    return numbers


def _norm(values: Tensor) -> Tensor:
    """In fp64: squares of fp32 numbers leave fp32 above 1.8e19 in sum, and below 1e-23 vanish.

    Raises:
        OverflowError: for values whose norm is not finite.
    """
    found = values.double().norm()
    if not torch.isfinite(found):
        largest = float(values.abs().max())
        raise OverflowError(f"a norm is {float(found)}, of values to {largest:.3g}")
    return found


def _rounded(heights: Tensor, bits: int) -> Tensor:
    return _norm(quantize(heights, bits) - heights) / _norm(heights)


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    method, settings = cell.key["method"], context.settings
    length, rows = settings["length"], []
    for protocol in PROTOCOLS:
        for count in settings["positions"]:
            found = stability(method, count, length, protocol)
            rows.append({**cell.key, "protocol": protocol, "positions": count, **found})
    for name, dtype in TYPES.items():
        lost, same = first_overflow(method, length, settings["looked_at"], dtype)
        said = predicted_overflow(method, length, dtype)
        said = significant(said) if said < settings["looked_at"] else -1
        row = {**cell.key, "type": name, "predicted": said, "overflow": lost, "equal": same}
        rows.append(row)
    return rows


def _tables() -> tuple[Table, ...]:
    rough: dict[str, Any] = {"digits": 3, "form": "scientific"}
    by_type: dict[str, Any] = {"columns": "type", "digits": 0, "where": {}}
    return tables_of(
        ("Norm of the features at the last lag, L = 1024", "norm", rough),
        ("Largest bias of order 3", "bias", rough),
        ("Support e^H of the softmax of the bias", "support", rough),
        ("Mean distance under that softmax, tokens", "distance", {"digits": 0}),
        ("Phase step at the last lag, in steps at lag 0", "phase_ratio", rough),
        ("Phase passed over the farther half of the lags, radians (17 or 17.73 turns)", "span", {}),
        ("Share of farther lags less than 1e-3 rad from the next", "local", {}),
        (
            "Share of 4096 farther lags less than 1e-3 rad from another, one phase (paper: at "
            "1,048,576 fp32 phases are themselves off by more)",
            "wrapped",
            {},
        ),
        ("The same, three phases together (5, 17, 61 or 5.31, 17.73, 61.17 turns)", "joint", {}),
        (
            "Condition number of the columns on the farther half (paper fp32, fair fp64)",
            "condition",
            SCIENTIFIC,
        ),
        ("Relative error of the features in int8, one step for all", "int8", {"digits": 4}),
        (
            "First lag below 1,048,576 at which the features leave the number type (-1: none)",
            "overflow",
            by_type,
        ),
        ("The same, said beforehand from the formula", "predicted", by_type),
        ("First lag whose rounded code equals the next one's (-1: none)", "equal", by_type),
        columns=("protocol", "positions"),
        where={"positions": [1024, 32768, 1048576]},
    )


LENGTHS = [2**n for n in range(10, 21)]
EXPERIMENT = Experiment(
    name="lightcone_stability",
    question="What grows with the lag, what stays bounded, and what does the bound cost?",
    claims=("P-F1", "P-F2", "P-F3", "P-U1", "P-U2"),
    presets={
        name: Preset(name, (0,), {"length": 1024, "positions": counts, "looked_at": looked}, cost)
        for name, counts, looked, cost in (
            ("smoke", [1024, 32768], 1 << 15, "4 core-seconds"),
            ("book", LENGTHS, 1 << 20, "20 core-seconds"),
            ("paper", LENGTHS, 1 << 20, "as book: the reference's six lengths, and five more"),
        )
    },
    cells=cells_over(method=tuple(VARIANTS)),
    run_cell=_run_cell,
    tables=_tables(),
    sentences=stability_sentences,
    verdicts=RULES,
    deterministic=True,
    revision=2,  # norms are taken in fp64
)
