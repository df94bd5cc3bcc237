"""Grid ``near_lags/samples``: what two trained heads look at, and what their models write.

Two methods of ``near_lags`` are trained as there, with the seed of its first cells. Each then continues
the same test text from one and from 32 training lengths of context, and shows its attention: a map of a
short piece and the mean weight by lag. It shows, and claims nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...data import load_or_stand_in
from ...diagnostics import attention_maps
from ...models import Decoder
from ..engine.spec import Cell, CellContext, CellResult, Experiment, Preset, Table
from .byte_lm import card_of, make_model
from .near_lags import SETTINGS
from .study import RATE, SMOKE_SETTINGS, corpus_card, fit

METHODS = ("rope_alibi", "alibi_t5")
MAPPED = 32  # tokens of the piece whose map is kept
SAMPLED = {"times": [1, 32], "written": 240, "temperature": 0.7, "windows": 8}


def run_cell(cell: Cell, context: CellContext) -> CellResult:
    """Rows of kind "sample" by length of context, and "attention" by layer and head."""
    settings = context.settings
    corpus = load_or_stand_in(settings["corpus"])
    text = corpus.split(settings["split"])
    model = make_model(cell.key["method"], settings, corpus.vocab_size, cell.seed)
    fit(model.to(context.device), corpus, cell, context, lr=cell.key["rate"])
    model = model.cpu().eval()
    kinds = {
        "sample": [
            _sample(model, text, n * settings["length"], settings) for n in settings["times"]
        ],
        "attention": _attention(model, text, settings),
    }
    constant = {"method": cell.key["method"], "seed": cell.seed}
    rows = [constant | {"kind": kind} | row for kind, of in kinds.items() for row in of]
    return CellResult(rows, data=card_of(corpus))


def _sample(
    model: Decoder, text: Tensor, length: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A continuation of the text before one fixed place, from ``length`` tokens of context."""
    end = max(settings["times"]) * settings["length"]
    found = model.generate(
        text[end - length : end].long(),
        settings["written"],
        temperature=settings["temperature"],
        seed=0,
        progress=False,
    )
    words = [
        bytes(part.tolist()).decode("utf8", "replace")
        for part in (found[:length][-60:], found[length:])
    ]
    return {"length": length, "prompt_end": words[0], "text": words[1]}


def _attention(model: Decoder, text: Tensor, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Map of one piece and mean weight by lag, of every head."""
    length, count = settings["length"], settings["windows"]
    windows = text[: count * length].view(count, length).long()
    rows = []
    for layer, weights in enumerate(attention_maps(model, windows)):
        for head in range(weights.shape[1]):
            of = weights[:, head]
            # Queries of the second half see every lag of the profile.
            late = of[:, length // 2 :]
            by_lag = [
                float(late.diagonal(length // 2 - d, 1, 2).mean()) for d in range(length // 2)
            ]
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "near": _short(sum(by_lag[:4])),
                    "by_lag": [_short(w) for w in by_lag],
                    "piece": bytes(windows[0, :MAPPED].tolist()).decode("utf8", "replace"),
                    "map": [
                        [_short(x) for x in row[: i + 1]]
                        for i, row in enumerate(of[0, :MAPPED].tolist())
                    ],
                }
            )
    return rows


def _short(x: float) -> float:
    return round(x, 3)


EXPERIMENT = Experiment(
    name="near_lags/samples",
    question="What do trained heads look at, and what do their models write at 1 and at 32 times the training length?",
    claims=(),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=SMOKE_SETTINGS | SAMPLED | {"written": 16, "windows": 2, "times": [1, 4]},
            cost="5 core-seconds",
        ),
        "book": Preset(
            "book", seeds=(0,), settings=SETTINGS | SAMPLED, cost="2 cells of about 7 core-minutes"
        ),
    },
    cells=lambda preset, seeds: [
        Cell({"method": m, "rate": RATE, "seed": seed}) for seed in seeds for m in METHODS
    ],
    run_cell=run_cell,
    baseline="rope_alibi",
    tables=(
        Table(
            "Attention on the four nearest tokens, by layer and head",
            value="near",
            columns=["layer", "head"],
            where={"kind": "attention"},
        ),
    ),
    data=corpus_card,
)
