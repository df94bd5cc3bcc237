"""Grid ``byte_lm/lightcone``: byte models of jets and light cones, read at 1 to 64 times L.

Besides the loss it tells what grows on the way out: norms of keys as a cache would hold them, the
spread and the largest of the logits, the entropy of attention, and how far it looks. ALiBi with a
light cone beside it is the control for the gated unions, whose slopes all start at the same value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ...data.batches import evaluation_windows
from ...diagnostics import attention_statistics, kernels_by_layer, sector_summary, sectors_of
from ...models import Decoder
from ...training import evaluate
from ..engine.spec import Cell, CellContext, CellResult, Experiment, Preset, Table
from .byte_lm import SMOKE, card_of, corpus_of, full_settings, grid, loss_table, trained_model
from .claims import bounded_in_a_model, enough, rotary_collapses, unions_are_flat
from .lightcone_words import NEEDED, lightcone_sentences

METHODS = ("alibi", "affine", "fj", "lc", "lc_affine", "full", "alibi_lc", "pj_rotary")
PROBED = {"probed": {"segments": 4, "queries": 64}}
# Rows keep the names they had when the grid was first recorded.
NAMES_IN_RECORDS = {
    "rotated_query_norm": "placed_query_norm",
    "rotated_key_norm": "placed_key_norm",
}


def run_cell(cell: Cell, context: CellContext) -> CellResult:
    """Train a method; rows of kind "loss", "attention" (by layer) and "sectors" (by layer)."""
    settings, (method,) = context.settings, cell.key["method"]
    corpus = corpus_of(context.preset)
    lengths, probed = settings["lengths"], settings["probed"]
    windows, asked = (
        evaluation_windows(
            corpus.validation, segments=n, scored=settings["scored"], longest=max(lengths)
        )
        for n in (settings["segments"], probed["segments"])
    )
    model, train_loss = trained_model(method, cell.seed, context, corpus)
    losses = [
        _told(row) | {"train_loss": train_loss} for row in evaluate(model, windows, lengths=lengths)
    ]
    attention = [
        {"length": length, **_rounded({NAMES_IN_RECORDS.get(k, k): v for k, v in row.items()})}
        for length in lengths
        for row in attention_statistics(
            model,
            asked.windows(length)[0][:, :-1].to(context.device),
            queries=min(probed["queries"], length),
            near=settings["length"],
        )
    ]
    kinds = {"loss": losses, "attention": attention, "sectors": _sectors(model, lengths)}
    rows = [
        {"method": method, "seed": cell.seed, "kind": kind, **row}
        for kind, found in kinds.items()
        for row in found
    ]
    return CellResult(rows, data=card_of(corpus))


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("length", "loss", "loss_all", "buckets")}


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}


def _sectors(model: Decoder, lengths: Iterable[int]) -> list[dict[str, Any]]:
    """Rms of each sector about its mean, over d < L and over the longest context, mean of heads."""
    if not all(sectors_of(kernel) for _, kernel in kernels_by_layer(model)):
        return []
    found: dict[tuple[int, str, int], list[float]] = defaultdict(list)
    for row in sector_summary(model, [min(lengths), max(lengths)]):
        if row["order"] is None:
            found[row["layer"], row["sector"], row["length"]].append(row["rms"])
    return [
        _rounded({"layer": layer, "sector": sector, "length": n, "rms": sum(rms) / len(rms)})
        for (layer, sector, n), rms in found.items()
    ]


def _by_layer(title: str, value: str, layer: int, **form: Any) -> Table:
    return Table(
        f"{title}, layer {layer}",
        value=value,
        columns="length",
        where={"kind": "attention", "layer": layer},
        **form,
    )


EXPERIMENT = Experiment(
    name="byte_lm/lightcone",
    question=(
        "Byte models of Fourier jets and of light cones: what do they predict, and what grows, up "
        "to 64 times their training length?"
    ),
    claims=("P-L5", "P-F1", "P-M6"),
    presets={
        "smoke": Preset(
            "smoke",
            seeds=(0,),
            settings=SMOKE | {"training": SMOKE["training"] | {"steps": 40}} | PROBED,
            cost="5 core-seconds",
        ),
        "book": Preset(
            "book",
            seeds=(0, 1, 2, 3, 4),
            settings=full_settings(128, [128, 512, 2048, 8192]) | PROBED,
            cost="about an hour on one core",
        ),
    },
    cells=lambda preset, seeds: grid([[m] for m in METHODS], seeds),
    run_cell=run_cell,
    baseline="alibi",
    tables=(
        loss_table("Loss at the end of the context, nats per byte", "loss", kind="loss"),
        _by_layer("Norm of keys with their positions worked in", "placed_key_norm", 1),
        _by_layer("Largest modulus of a logit", "logit_max", 1, digits=1),
        _by_layer("Spread of the logits over the keys of a query", "logit_std", 1, digits=2),
        _by_layer("Entropy of attention, nats", "entropy", 0, digits=2),
        _by_layer("Entropy of attention, nats", "entropy", 1, digits=2),
        _by_layer("Attention within L", "share_near", 1),
        Table(
            "Rms of a sector about its mean, layer 1",
            value="rms",
            columns=("sector", "length"),
            where={"kind": "sectors", "layer": 1},
        ),
    ),
    sentences=lightcone_sentences,
    verdicts={
        "P-L5": enough(unions_are_flat, "P-L5", *NEEDED),
        "P-F1": enough(bounded_in_a_model, "P-F1", *NEEDED),
        "P-M6": enough(rotary_collapses, "P-M6", "pj_rotary", "alibi"),
    },
    data=lambda preset: card_of(corpus_of(preset)),
)
