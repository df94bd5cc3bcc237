"""Grid ``byte_lm/allocation``: what language selects among sectors, told apart from where they started.

The union and the light cone with recency start from equal gates or from the paper's, which favour
recency, and gates learn at the rate of everything else or ten times as fast. Each model is then read for
the size of its sectors on d < L and d < T beside their size before training, and for its loss with a
sector or an order left out, at 1, 8 and 32 times L.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...data import load_or_stand_in
from ...diagnostics import attention_statistics, leave_one_out_loss, sector_summary
from ...kernels import PJBias, PJInit
from ...models import Decoder, DecoderConfig
from ...training import evaluate
from ..engine.spec import Cell, CellContext, CellResult, Experiment, Preset, Table
from .allocation_claims import RULES
from .byte_lm import byte_config, card_of
from .methods import SECTORS
from .study import RATE, SMOKE_SETTINGS, book_settings, corpus_card, fit, loss_row, scored_windows

METHODS = ("full", "lc_affine")
KEYS = ("method", "start", "gate_rate", "order", "corpus")
FACTS = ("rms", "gate", "mass", "slope_per_token")


def _settings(base: Mapping[str, Any], corpora: Sequence[str], **more: Any) -> dict[str, Any]:
    rest = {k: v for k, v in base.items() if k != "corpus"}
    factors = {"starts": ["affine", "uniform"], "gate_rates": [1.0, 10.0], "orders": [3]}
    return rest | factors | {"corpora": list(corpora), "attention": 4} | more


def grid(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    s = preset.settings
    return [
        Cell(dict(zip(KEYS, (method, start, rate, order, corpus), strict=True)) | {"seed": seed})
        for seed in seeds
        for corpus in s["corpora"]
        for start in s["starts"]
        for rate in s["gate_rates"]
        for order in s["orders"]
        for method in METHODS
    ]


def make_union(cell: Cell, settings: Mapping[str, Any], vocab: int) -> Decoder:
    """The byte model of a cell; backbones and amplitudes of equal seeds are equal."""
    kernel = PJBias(
        settings["heads"],
        settings["length"],
        max_order=cell.key["order"],
        sectors=SECTORS[cell.key["method"]],
        init=PJInit(gates=cell.key["start"]),
    )
    return Decoder(
        DecoderConfig(**byte_config(settings, vocab), kernel=kernel.spec), seed=cell.seed
    )


def run_cell(cell: Cell, context: CellContext) -> CellResult:
    """Rows of kind "loss", "training", "sectors", "left_out" and "attention"."""
    settings = context.settings
    corpus = load_or_stand_in(cell.key["corpus"])
    windows, lengths = scored_windows(corpus, settings), settings["lengths"]
    model = make_union(cell, settings, corpus.vocab_size).to(context.device)
    trained = fit(model, corpus, cell, context, lr=RATE, gate_lr=cell.key["gate_rate"])
    begun = make_union(cell, settings, corpus.vocab_size)
    few = windows.windows(settings["length"])[0][: settings["attention"], :-1]
    kinds = {
        "loss": [loss_row(row) for row in evaluate(model, windows, lengths=lengths)],
        "training": [trained],
        "sectors": sector_rows(model.cpu(), begun, settings),
        "left_out": _left_out(leave_one_out_loss(model, windows, lengths=settings["left_out_at"])),
        "attention": [
            {k: row[k] for k in ("layer", "mean_lag", "entropy", "share_near")}
            for row in attention_statistics(model, few, queries=settings["length"] // 2)
        ],
    }
    constant = {key: cell.key[key] for key in (*KEYS, "seed")}
    rows = [constant | {"kind": kind} | _rounded(row) for kind, of in kinds.items() for row in of]
    return CellResult(rows, data=card_of(corpus))


def sector_rows(
    model: Decoder, begun: Decoder, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Size, gate, mass and slope of sectors and orders, mean of the heads, now and at the start."""
    ends = [settings["length"], max(settings["lengths"])]
    now, before = (_by_layer(sector_summary(m, ends)) for m in (model, begun))
    return [
        dict(zip(("layer", "sector", "sector_order", "length"), key, strict=True))
        | now[key]
        | {f"{fact}_start": before[key][fact] for fact in FACTS}
        for key in now
    ]


def _by_layer(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], dict[str, float | None]]:
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["layer"], row["sector"], row["order"], row["length"]].append(row)
    return {
        key: {
            fact: None
            if heads[0][fact] is None
            else sum(float(h[fact]) for h in heads) / len(heads)
            for fact in FACTS
        }
        for key, heads in found.items()
    }


def _left_out(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "left_out": row["left_out"],
            "length": row["length"],
            "change": row["change"],
            "standard_error": row["standard_error"],
        }
        for row in rows
        if row["left_out"] != "nothing"
    ]


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()}


def _table(title: str, value: str, columns: Sequence[str], **where: Any) -> Table:
    return Table(title, value=value, columns=columns, where=where)


EXPERIMENT = Experiment(
    name="byte_lm/allocation",
    question=(
        "Which sectors does language select, from which start, and what does the loss say when one "
        "is left out?"
    ),
    claims=("P-L1", "P-L2", "P-L5", "P-L6"),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=_settings(
                SMOKE_SETTINGS, ["toy_language"], left_out_at=[64], gate_rates=[10.0]
            ),
            cost="6 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2),
            settings=_settings(
                book_settings("", "validation", 4000),
                ["tiny_shakespeare", "wikitext_2"],
                left_out_at=[128, 1024, 4096],
            ),
            cost="not run yet: 48 cells of about 8 core-minutes",
        ),
        "paper": Preset(
            "paper",
            seeds=(0, 1, 2),
            settings=_settings(
                book_settings("", "validation", 4000),
                ["tiny_shakespeare", "wikitext_2", "war_and_peace"],
                left_out_at=[128, 1024, 4096],
                orders=[0, 1, 3],
            ),
            cost="not run yet: 216 cells of about 8 core-minutes",
        ),
    },
    cells=grid,
    run_cell=run_cell,
    tables=(
        _table(
            "Loss, nats per byte", "loss", ("corpus", "start", "gate_rate", "length"), kind="loss"
        ),
        _table(
            "Gate of each sector, layer 1",
            "gate",
            ("start", "gate_rate", "sector"),
            kind="sectors",
            layer=1,
            sector_order=[None],
        ),
        _table(
            "Rms of each sector about its mean on d < L, layer 1",
            "rms",
            ("start", "gate_rate", "sector"),
            kind="sectors",
            layer=1,
            sector_order=[None],
        ),
        _table(
            "Loss with a part left out minus the loss, nats per byte",
            "change",
            ("start", "gate_rate", "left_out"),
            kind="left_out",
        ),
    ),
    verdicts=RULES,
    data=corpus_card,
)
