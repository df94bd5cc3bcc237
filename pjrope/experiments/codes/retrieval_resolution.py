"""Is a lag's code nearest to itself among the codes of all lags, near and far, rounded or not?

Codes of the lags 1 … T - 1 are the keys. A query is a lag's code once more, and the answer the key
of highest cosine. "paper": the query is the very row that is stored, rounded as it is, so it finds
itself unless another row is the same to the last digit. "fair": the query is not rounded and has
noise of a hundredth of its length, frequencies have no common period, everything is fp64; besides
the eight codes there are the three phases alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...training import stream
from ..engine.grids import SCIENTIFIC, tables_of
from ..engine.plain_json import significant
from ..engine.spec import Cell, CellContext, Experiment, Table
from .grids import cells_of, codes_of, presets_of
from .lag_codes import FOCUS, PHASES, PRECISIONS, VARIANTS, even_lags, noisy, normalized, reached
from .resolution_claims import phase_sentence, resolution_claim
from .rounding import quantize

__all__ = ["EXPERIMENT", "NEAR", "retrieve"]

NEAR = 64  # tokens


def retrieve(keys: Tensor, queries: Tensor, rows: Tensor) -> dict[str, float]:
    """Ask for the key of highest cosine.

    Args:
        keys: ``(n, channels)`` rows of unit length.
        queries: ``(q, channels)`` of unit length.
        rows: ``(q,)`` the row that each query should find.

    Returns:
        top1: share that finds it; near: share within `NEAR` rows; error: mean distance in rows;
        margin: mean of its cosine minus the best other.
    """
    scores = queries @ keys.T
    off = (scores.argmax(1) - rows).abs().double()
    own = scores.gather(1, rows[:, None])[:, 0]
    others = scores.scatter(1, rows[:, None], -torch.inf).amax(1)
    return {
        "top1": float((off == 0).double().mean()),
        "near": float((off <= NEAR).double().mean()),
        "error": float(off.mean()),
        "margin": float((own - others).double().mean()),
    }


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, fair = context.settings, cell.key["protocol"] == "fair"
    length, seed = settings["length"], cell.seed
    clean = codes_of(cell, settings, settings["times"], context.device)
    rows = []
    for precision, bits in PRECISIONS.items():
        stored = normalized(quantize(clean, bits, dim=0))
        for name in reached(settings["times"]):
            own = even_lags(name, length, settings["queries"], seed).to(clean.device) - 1
            asked = stored[own]
            if fair:  # the same noise for every code of as many channels
                asked = noisy(clean[own], settings["noise"], stream(seed, "noise", name))
            found = retrieve(stored, asked, own)
            row = {**cell.key, "precision": precision, "bucket": name}
            rows.append(row | {key: significant(value) for key, value in found.items()})
    return rows


def _tables() -> tuple[Table, ...]:
    focus = [*FOCUS, *PHASES]
    return tables_of(
        (
            "Share of lags from 16 L to 32 L that find their own key (paper: the query is the "
            "stored row; fair: it is not rounded and has noise 0.01)",
            "top1",
            {},
        ),
        *(
            (
                f"Share that finds its own key by bucket, {precision}",
                "top1",
                {
                    "columns": ("protocol", "bucket"),
                    "where": {"precision": precision, "method": focus},
                },
            )
            for precision in PRECISIONS
        ),
        (f"Share of lags from 16 L to 32 L that find a key within {NEAR} tokens", "near", {}),
        (
            "Cosine of the own key minus the best other, lags from 16 L to 32 L",
            "margin",
            SCIENTIFIC,
        ),
        columns=("protocol", "precision"),
        where={"bucket": "x16_32"},
        better="higher",
    )


EXPERIMENT = Experiment(
    name="retrieval_resolution",
    question="Does a lag's code find its own key among the keys of all lags to 32 L?",
    claims=("P-F4",),
    presets=presets_of(
        {"queries": 16},
        {"times": 32, "queries": 128, "noise": 0.01},
        ("3 core-seconds", "1 core-minute"),
    ),
    cells=cells_of({"paper": tuple(VARIANTS), "fair": (*VARIANTS, *PHASES)}),
    run_cell=_run_cell,
    baseline="scaled",
    tables=_tables(),
    sentences=partial(phase_sentence, value="top1"),
    verdicts={"P-F4": partial(resolution_claim, values=["top1"])},
)
