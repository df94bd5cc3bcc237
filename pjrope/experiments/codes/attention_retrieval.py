"""Can one attention read-out fetch the value that stands at a far lag?

Every lag 1 … T - 1 carries a random token. A query is the code of one lag; weights are
``softmax(tau cos(query, key))`` over all lags, and the weighted mean of the tokens' embeddings is
read out linearly. Only tau, the embedding and the read-out are trained, on lags below L.

"paper": the query is the stored row, so that the highest weight is its own by construction; codes
are standardised by the training window, as in ``pair_resolution``; the step of the rounding depends
on T; cycles are whole. "fair": codes as they are, of unit length; the query is not rounded and has
noise, also in training; one step, that of the longest T, serves every T; frequencies have no common
period; one seed serves all codes; the three phases alone stand beside the codes. The reference's
second mode, with projections of query and key, is not run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...training import stream
from ...training.seeding import stream_seed
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from ..engine.store import Result
from .lag_codes import (
    BUCKETS,
    CYCLES,
    FOCUS,
    PHASES,
    PRECISIONS,
    PROTOCOLS,
    code,
    even_lags,
    normalized,
    quantize,
    significant,
)
from .pair_resolution import standardized
from .resolution_claim import resolution_claim
from .retrieval_resolution import noisy

__all__ = ["EXPERIMENT", "ReadOut"]

TOKENS = 64
LARGEST_TAU = 1000.0


class ReadOut(nn.Module):
    """Attention from cosines to tokens; tau starts at 32.

    The mean of embeddings is taken as (weight of each token) times (embedding), the same number
    without a vector for every lag.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.log_tau = nn.Parameter(torch.tensor(math.log(32.0)))
        self.embedding = nn.Embedding(TOKENS, width)
        self.out = nn.Linear(width, TOKENS)

    def forward(self, queries: Tensor, keys: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the token and of the lag.

        Args:
            queries: ``(q, channels)`` of unit length.
            keys: ``(n, channels)`` of unit length.
            tokens: ``(q, n)`` token at each lag, another draw for every query.

        Returns:
            ``(q, 64)`` and ``(q, n)``.
        """
        scores = self.log_tau.exp().clamp(max=LARGEST_TAU) * (queries @ keys.T)
        weights = scores.softmax(-1)
        shares = weights.new_zeros(len(queries), TOKENS).scatter_add(1, tokens, weights)
        return self.out(shares @ self.embedding.weight), scores


def _trained(
    stored: Tensor, clean: Tensor, settings: Mapping[str, Any], noise: float, seed: int
) -> ReadOut:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        model = ReadOut()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator, batch = torch.Generator().manual_seed(seed), settings["batch"]
    for _ in range(settings["steps"]):
        rows = torch.randint(len(stored), (batch,), generator=generator)
        tokens = torch.randint(TOKENS, (batch, len(stored)), generator=generator)
        asked = noisy(clean[rows], noise, generator) if noise else stored[rows]
        answers, scores = model(asked, stored, tokens)
        wanted = tokens.gather(1, rows[:, None])[:, 0]
        loss = cross_entropy(answers, wanted) + cross_entropy(scores, rows)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


@torch.no_grad()
def _exam(
    model: ReadOut, asked: Tensor, stored: Tensor, rows: Tensor, generator: torch.Generator
) -> dict[str, float]:
    tokens = torch.randint(TOKENS, (len(asked), len(stored)), generator=generator)
    answers, scores = model(asked, stored, tokens)
    wanted = tokens.gather(1, rows[:, None])[:, 0]
    return {
        "accuracy": float((answers.argmax(1) == wanted).double().mean()),
        "top1": float((scores.argmax(1) == rows).double().mean()),
        "weight": float(scores.double().softmax(-1).gather(1, rows[:, None]).mean()),
    }


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell({"protocol": protocol, "method": method, "precision": precision, "seed": seed})
        for protocol in PROTOCOLS
        for method in (FOCUS if protocol == "paper" else (*FOCUS, *PHASES))
        for precision in PRECISIONS
        for seed in seeds
    ]


def _seed(cell: Cell) -> int:
    if cell.key["protocol"] == "fair":
        return stream_seed(cell.seed, "attention")
    place = (FOCUS.index(cell.key["method"]), list(PRECISIONS).index(cell.key["precision"]))
    return cell.seed + 1009 * place[0] + 9176 * place[1]


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, fair = context.settings, cell.key["protocol"] == "fair"
    length, noise = settings["length"], settings["noise"] if fair else 0.0
    bits, longest = PRECISIONS[cell.key["precision"]], max(settings["times"]) * length
    lags = torch.arange(1, longest).to(torch.float64 if fair else torch.float32)
    clean = code(cell.key["method"], lags, length, settings["cycles"][cell.key["protocol"]])
    rounded = quantize(clean, bits, dim=0)

    def sides(upto: int) -> tuple[Tensor, Tensor]:
        if fair:
            return normalized(rounded[: upto - 1]).float(), normalized(clean[: upto - 1]).float()
        stored = quantize(clean[: upto - 1], bits, dim=0)
        stored = normalized(standardized(stored, stored[: length - 1]))
        return stored, stored

    model = _trained(*sides(length), settings, noise, _seed(cell))
    rows = []
    for times in settings["times"]:
        stored, asked = sides(times * length)
        for name, (_, high) in BUCKETS.items():
            if high > times:
                continue
            own = even_lags(name, length, settings["queries"], cell.seed) - 1
            asking = asked[own]
            if fair:
                asking = noisy(asking, noise, stream(cell.seed, "noise", name))
            found = _exam(model, asking, stored, own, stream(cell.seed, "exam", name, times))
            row = {**cell.key, "length": times * length, "bucket": name}
            rows.append(row | {key: significant(value) for key, value in found.items()})
    return rows


def _settings(steps: int, batch: int, queries: int, times: Sequence[int]) -> dict[str, Any]:
    return {
        **{"length": 1024, "times": list(times), "steps": steps, "batch": batch},
        **{"queries": queries, "noise": 0.01},
        "cycles": {key: list(value) for key, value in CYCLES.items()},
    }


def _sentences(result: Result) -> list[str]:
    """P-F4 from the place of the highest weight, which dilution by far lags leaves alone."""
    return resolution_claim(result, "top1", {"length": max(r["length"] for r in result.rows)})


def _tables() -> tuple[Table, ...]:
    both = ("protocol", "precision")
    far, near = {"length": 32768, "bucket": "x16_32"}, {"length": 4096, "bucket": "x1_4"}
    return (
        Table(
            "Share of lags from 16 L to 32 L whose own key has the highest weight, T = 32,768 "
            "(paper: the query is the stored row; fair: it is not rounded and has noise 0.01)",
            "top1",
            columns=both,
            where=far,
            better="higher",
        ),
        Table(
            f"Accuracy of the token, lags from L to 4 L, T = 4,096 (chance 1/{TOKENS})",
            "accuracy",
            columns=both,
            where=near,
            better="higher",
        ),
        Table(
            f"Accuracy of the token by bucket, fp32, T = 32,768 (chance 1/{TOKENS})",
            "accuracy",
            columns=("protocol", "bucket"),
            where={"length": 32768, "precision": "fp32"},
            better="higher",
        ),
        Table(
            "Weight on the own key by bucket, fp32, T = 32,768",
            "weight",
            columns=("protocol", "bucket"),
            where={"length": 32768, "precision": "fp32"},
            better="higher",
        ),
    )


EXPERIMENT = Experiment(
    name="attention_retrieval",
    question="Can one attention read-out, trained on lags below L, fetch a value from 32 L back?",
    claims=("P-F4",),
    presets={
        "smoke": Preset("smoke", (0,), _settings(3, 8, 4, [4, 32]), "3 core-seconds"),
        "book": Preset("book", (0, 1, 2, 3, 4), _settings(360, 96, 192, [4, 32]), "5 core-minutes"),
        "paper": Preset(
            "paper",
            (0, 1, 2, 3, 4),
            _settings(360, 96, 192, [4, 8, 16, 32]),
            "the reference's four lengths; it has seed 0 alone",
        ),
    },
    cells=_cells,
    run_cell=_run_cell,
    baseline="scaled",
    tables=_tables(),
    sentences=_sentences,
)
