"""Can a small network, trained on near lags, tell a far lag from the one most like it?

The network sees the absolute difference of two codes and says whether their lags are the same.
"paper": codes are standardised by the training window, equal lags give exactly zero, and the
network learns from random pairs. What it learns is a distance, so a code wins whose features grow
beyond the window. "fair": every bucket is standardised by itself, so no code wins by its size; one
side of every pair is not rounded and has noise, so equal lags are no longer zero; half of the
negatives are neighbours; the three phases alone stand beside the eight codes.

What a network accepts hangs on where training put its threshold. `best_threshold` is what the one
best for the bucket would reach on the same pairs: there the code is judged, not the training.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from ...training import stream
from ..engine.grids import SCIENTIFIC, tables_of
from ..engine.plain_json import significant
from ..engine.result import Result
from ..engine.spec import Cell, CellContext, Experiment, Table
from .grids import cells_of, codes_of, presets_of, training_seed
from .lag_codes import FOCUS, PHASES, PRECISIONS, VARIANTS, bucket, even_lags, reached, standardized
from .resolution_claims import SMALLEST_EFFECT, phase_sentence, resolution_claim
from .rounding import quantize

__all__ = ["EXPERIMENT", "best_threshold"]

VALUES = ("hard_pair_accuracy", "best_threshold")  # of the network, and of the code itself
CHANCE = 0.5  # of both
NEIGHBOURS = 8  # tokens: how far a near negative may lie from its query


def _network(channels: int, seed: int) -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(channels, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 1)
        )


def _shaken(rows: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    return rows + noise * torch.randn(rows.shape, generator=generator).to(rows)


def _pairs(
    stored: Tensor, clean: Tensor, batch: int, noise: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Differences of equal and of other lags of the training window, and which are which."""
    half, count = batch // 2, len(stored)
    if not noise:
        a, b = torch.randint(count, (2, half), generator=generator)
        same = torch.cat([torch.ones(half), (a == b).float()])
        return torch.cat([torch.zeros_like(stored[a]), (stored[a] - stored[b]).abs()]), same
    a = torch.randint(count, (batch,), generator=generator)
    b = torch.randint(count, (batch,), generator=generator)
    step = torch.randint(1, NEIGHBOURS + 1, (batch,), generator=generator)
    step = step * (1 - 2 * torch.randint(2, (batch,), generator=generator))
    order = torch.arange(batch)
    b = torch.where(order % 4 == 1, (a + step) % count, b)  # every other negative is a neighbour
    b = torch.where(order % 2 == 0, a, b)
    return (_shaken(clean[a], noise, generator) - stored[b]).abs(), (a == b).float()


def _trained(
    stored: Tensor, clean: Tensor, settings: Mapping[str, Any], noise: float, seed: int
) -> nn.Module:
    network = _network(stored.shape[1], seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(settings["steps"]):
        inputs, same = _pairs(stored, clean, settings["batch"], noise, generator)
        loss = binary_cross_entropy_with_logits(network(inputs)[:, 0], same)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def best_threshold(own: Tensor, hard: Tensor) -> float:
    """Half the share of `own` below plus half that of `hard` above the best single threshold.

    Args:
        own, hard: distances of equal lags and of the nearest others, each ``(q,)``.

    Returns:
        0.5 … 1; 0.5 also for distances of which none is finite.
    """
    own, hard = own.sort().values, hard.sort().values
    cuts = torch.cat([own, hard])
    below = torch.searchsorted(own, cuts, right=True) / len(own)
    refused = 1 - torch.searchsorted(hard, cuts, right=True) / len(hard)
    return max(0.5, float(((below + refused) / 2).max()))


@torch.no_grad()
def _exam(
    network: nn.Module, asked: Tensor, stored: Tensor, rows: Tensor, hidden: Tensor, exact: bool
) -> dict[str, float]:
    """Acceptance of equal lags, of others and of the nearest other.

    Args:
        network: differences → logits.
        asked: ``(q, channels)`` what is asked, with its noise.
        stored: ``(n, channels)`` codes of the bucket.
        rows: ``(q,)`` row of each query.
        hidden: ``(q, channels)`` what is asked without noise, by which the nearest is chosen.
        exact: distances from differences; else from inner products in fp32, the usual fast way,
            which among channels of 1e6 picks a neighbour that is not the nearest.
    """
    mode = "donot_use_mm_for_euclid_dist" if exact else "use_mm_for_euclid_dist"
    distances = torch.cdist(hidden, stored, compute_mode=mode)
    nearest = distances.scatter(1, rows[:, None], torch.inf).min(1)
    other = (rows + len(stored) // 3 + 1) % len(stored)

    def accepted(to: Tensor) -> float:
        return float((network((asked - stored[to]).abs())[:, 0] > 0).double().mean())

    def apart(to: Tensor) -> Tensor:
        return (asked - stored[to]).double().norm(dim=1)

    own, hard = accepted(rows), accepted(nearest.indices)
    return {
        "hard_pair_accuracy": (own + 1 - hard) / 2,
        "own_accepted": own,
        "hard_accepted": hard,
        "random_accepted": accepted(other),
        "best_threshold": best_threshold(apart(rows), apart(nearest.indices)),
        "nearest": float(nearest.values.mean()),
    }


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, fair = context.settings, cell.key["protocol"] == "fair"
    length, noise = settings["length"], settings["noise"] if fair else 0.0
    clean = codes_of(cell, settings, settings["times"])
    rounded = quantize(clean, PRECISIONS[cell.key["precision"]], dim=0)

    def sides(name: str) -> tuple[Tensor, Tensor]:
        low, high = bucket(name, length)
        part, window = slice(low - 1, high), slice(0, length - 1)
        if fair:  # by the clean codes, which no rounding leaves without a spread
            by = clean[part]
            return standardized(rounded[part], by).float(), standardized(clean[part], by).float()
        stored = standardized(rounded[part], rounded[window])
        return stored, stored

    stored, asked = sides("train")
    network = _trained(
        stored, asked, settings, noise, training_seed(cell, "pairs", tuple(VARIANTS))
    )
    rows = []
    for name in reached(settings["times"]):
        stored, asked = sides(name)
        own = even_lags(name, length, settings["queries"], cell.seed) - bucket(name, length)[0]
        hidden = asked[own]
        shaken = _shaken(hidden, noise, stream(cell.seed, "noise", name)) if fair else hidden
        found = _exam(network, shaken, stored, own, hidden, exact=fair)
        row = {**cell.key, "bucket": name}
        rows.append(row | {key: significant(value) for key, value in found.items()})
    return rows


def _sentences(result: Result) -> list[str]:
    """Phases alone by the networks and by the best threshold; where a distance was no number."""
    lost = [r for r in result.where(protocol="paper", bucket="x16_32").rows if r["nearest"] is None]
    where = sorted({f"{row['method']} at {row['precision']}" for row in lost})
    return [
        *(s for value in VALUES for s in phase_sentence(result, value, chance=CHANCE)),
        *(
            f"paper: distances of {name} leave fp32, so no pair of it is accepted and every one "
            "counts as told apart."
            for name in where
        ),
    ]


def _tables() -> tuple[Table, ...]:
    both: dict[str, Any] = {"columns": ("protocol", "precision"), "better": "higher"}
    far = {"bucket": "x16_32"}
    near = {"precision": "fp32", "method": [*FOCUS, *PHASES]}
    fair = {"columns": "precision", "where": {**far, "protocol": "fair"}, "better": "higher"}
    return tables_of(
        (
            "Hard-pair accuracy on lags from 16 L to 32 L: half the share of equal lags accepted "
            "plus half the share of nearest other lags refused (chance 0.5)",
            "hard_pair_accuracy",
            {**both, "where": far},
        ),
        (
            "The same pairs with the best threshold on the distance in place of the network",
            "best_threshold",
            {**both, "where": far},
        ),
        (
            "Paired with scaled, fair protocol",
            "hard_pair_accuracy",
            {**fair, "smallest_effect": SMALLEST_EFFECT},
        ),
        ("Nearest other lags accepted, fp32", "hard_accepted", {}),
        ("Equal lags accepted, fp32", "own_accepted", {}),
        (
            "Mean distance to the nearest other lag, fp32, in standard deviations of the "
            "training window (paper) or of the bucket (fair, where the noise is 0.01 a channel)",
            "nearest",
            SCIENTIFIC,
        ),
        columns=("protocol", "bucket"),
        where=near,
    )


EXPERIMENT = Experiment(
    name="pair_resolution",
    question="Can a network trained on near lags tell a far lag from the one most like it?",
    claims=("P-F4",),
    presets=presets_of(
        {"steps": 10, "batch": 64, "queries": 8},
        {"times": 32, "steps": 320, "batch": 512, "queries": 96, "noise": 0.01},
        ("3 core-seconds", "3 core-minutes"),
    ),
    cells=cells_of({"paper": tuple(VARIANTS), "fair": (*VARIANTS, *PHASES)}, tuple(PRECISIONS)),
    run_cell=_run_cell,
    baseline="scaled",
    tables=_tables(),
    sentences=_sentences,
    verdicts={"P-F4": partial(resolution_claim, values=VALUES, chance=CHANCE)},
)
