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
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...training import stream
from ..analysis.claims import Verdict
from ..engine.grids import tables_of
from ..engine.plain_json import significant
from ..engine.result import Result
from ..engine.spec import Cell, CellContext, Experiment, Table
from .grids import cells_of, codes_of, presets_of, training_seed
from .lag_codes import (
    FOCUS,
    PHASES,
    PRECISIONS,
    even_lags,
    noisy,
    normalized,
    reached,
    standardized,
)
from .resolution_claims import phase_sentence, resolution_claim
from .rounding import quantize

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


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, fair = context.settings, cell.key["protocol"] == "fair"
    length, noise = settings["length"], settings["noise"] if fair else 0.0
    bits = PRECISIONS[cell.key["precision"]]
    clean = codes_of(cell, settings, max(settings["times"]))
    rounded = quantize(clean, bits, dim=0)

    def sides(upto: int) -> tuple[Tensor, Tensor]:
        if fair:
            return normalized(rounded[: upto - 1]).float(), normalized(clean[: upto - 1]).float()
        stored = quantize(clean[: upto - 1], bits, dim=0)
        stored = normalized(standardized(stored, stored[: length - 1]))
        return stored, stored

    model = _trained(*sides(length), settings, noise, training_seed(cell, "attention", FOCUS))
    rows = []
    for times in settings["times"]:
        stored, asked = sides(times * length)
        for name in reached(times):
            own = even_lags(name, length, settings["queries"], cell.seed) - 1
            asking = asked[own]
            if fair:
                asking = noisy(asking, noise, stream(cell.seed, "noise", name))
            found = _exam(model, asking, stored, own, stream(cell.seed, "exam", name, times))
            row = {**cell.key, "length": times * length, "bucket": name}
            rows.append(row | {key: significant(value) for key, value in found.items()})
    return rows


def _longest(result: Result) -> dict[str, int]:
    return {"length": max(row["length"] for row in result.rows)}


def _claim(result: Result) -> Verdict:
    """P-F4 is asked of the place of the highest weight, which dilution by far lags leaves alone."""
    return resolution_claim(result, ["top1"], _longest(result))


def _sentences(result: Result) -> list[str]:
    return phase_sentence(result, "top1", _longest(result))


def _tables() -> tuple[Table, ...]:
    both = ("protocol", "precision")
    far, near = {"length": 32768, "bucket": "x16_32"}, {"length": 4096, "bucket": "x1_4"}
    where = {"length": 32768, "precision": "fp32"}
    by_bucket = {"columns": ("protocol", "bucket"), "where": where}
    chance = f"(chance 1/{TOKENS})"
    return tables_of(
        (
            "Share of lags from 16 L to 32 L whose own key has the highest weight, T = 32,768 "
            "(paper: the query is the stored row; fair: it is not rounded and has noise 0.01)",
            "top1",
            {"columns": both, "where": far},
        ),
        (
            f"Accuracy of the token, lags from L to 4 L, T = 4,096 {chance}",
            "accuracy",
            {"columns": both, "where": near},
        ),
        (f"Accuracy of the token by bucket, fp32, T = 32,768 {chance}", "accuracy", by_bucket),
        ("Weight on the own key by bucket, fp32, T = 32,768", "weight", by_bucket),
        better="higher",
    )


EXPERIMENT = Experiment(
    name="attention_retrieval",
    question="Can one attention read-out, trained on lags below L, fetch a value from 32 L back?",
    claims=("P-F4",),
    presets=presets_of(
        {"steps": 3, "batch": 8, "queries": 4},
        {"times": [4, 32], "steps": 360, "batch": 96, "queries": 192, "noise": 0.01},
        ("3 core-seconds", "5 core-minutes", "the reference's four lengths; it has seed 0 alone"),
        {"times": [4, 8, 16, 32]},
    ),
    cells=cells_of({"paper": FOCUS, "fair": (*FOCUS, *PHASES)}, tuple(PRECISIONS)),
    run_cell=_run_cell,
    baseline="scaled",
    tables=_tables(),
    sentences=_sentences,
    verdicts={"P-F4": _claim},
)
