"""Does the Jordan mode of a trained model survive a rounded cache, and at how many bits?

Models are trained on the distance-modulated phase language of ``phase_lm`` and then served, without
further training, from caches whose keys, values, or both are rounded in every layer; keys after the
position action, as a plain cache holds them, or before it. Sequences are the same for all.

Departures from the reference: logits and noise of SNR_J are divided by the same sqrt(D), and the
mode's part is that of the model's own logits (the reference's two columns are shown beside it);
codes lie symmetric about 0 and use all 2^b levels; the step is rounded to the fp16 that it is
charged as; exams are of the language itself, 256 sequences each; a rotation is drawn from its seed
and not charged. Kac rotations, mixed bits and TurboQuant are not tried. Size and steps of the
training come from unrounded pilots of two seeds, in which the exact form led at 2 L and 4 L.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ....training import stream
from ...codes.rounding import Quantizer
from ...engine.plain_json import significant
from ...engine.spec import Cell, CellContext, Experiment, Preset
from ..methods import kernel_of
from ..phase_lm import train_language
from ..training import LastToken, examine, method_cells, presets, settings_of
from .claims import claim_k9
from .metrics import Seen, capture, growth, rounding, survival
from .serving import PLAIN, Variant, served, variants
from .tables import BUCKETS, SHEARED, TABLES

__all__ = ["EXPERIMENT"]

METHODS = ["rope", "rope_trunc", *SHEARED]
AT_ALL_LENGTHS = ("nothing", "keys, values")  # other stores: at `stores_times` of L


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, length = context.settings, context.settings["length"]
    kernel = kernel_of(cell.key["method"], settings)
    model, sample, found_in = train_language(cell, context, "mixed_raw", kernel)
    model.eval()
    exams = {
        times: sample(stream(cell.seed, "exam", times), settings["sequences"], times * length)
        for times in settings["times"]
    }
    longest, shorter = max(exams), max(settings["stores_times"])
    few = exams[longest][0][: settings["diagnosed"]].to(context.device)
    layers = capture(model, few, settings["rows"])
    lags = {name: (low * length, high * length) for name, (low, high) in BUCKETS.items()}
    sheared = found_in["shear"] > 0
    mode = survival(layers, lags) if sheared else {}
    rows: list[dict[str, Any]] = []
    clean: dict[str, float] = {}
    for variant in variants(settings["bits"]):
        quantizer = variant.quantizer(_head_dim(settings), settings["rotation_seed"])
        at = exams if variant.store in AT_ALL_LENGTHS else settings["stores_times"]
        found = _examined(model, variant, quantizer, {times: exams[times] for times in at})
        clean = clean or found
        drops = {
            f"drop_x{times}": clean[f"accuracy_x{times}"] - found[f"accuracy_x{times}"]
            for times in (shorter, longest)
            if times in at and variant.bits
        }
        row = {**_key(variant), **found, **drops}
        if sheared and variant.store in AT_ALL_LENGTHS and variant.basis == PLAIN:
            with served(model, variant, quantizer, shear=False):
                row[f"unsheared_x{shorter}"] = examine(model, *exams[shorter])["accuracy"]
        if variant.store == "nothing":
            row |= _whole(model, layers, mode, few, (variant, quantizer))
            row |= found_in
        elif variant.store in ("keys", "content keys"):
            row |= _inside(layers, variant, quantizer, mode, lags)
        else:
            row["storage"] = quantizer.storage(_head_dim(settings))
        rows.append({**cell.key, **{k: _short(v) for k, v in row.items()}})
    return rows


def _short(value: Any) -> Any:
    return significant(value, 4) if isinstance(value, float) else value


def _key(variant: Variant) -> dict[str, Any]:
    return {"store": variant.store, "basis": variant.basis, "bits": variant.bits}


def _head_dim(settings: Mapping[str, Any]) -> int:
    return settings["width"] // settings["heads"]


def _examined(
    model: LastToken,
    variant: Variant,
    quantizer: Quantizer,
    exams: Mapping[int, tuple[Tensor, Tensor]],
) -> dict[str, float]:
    """Accuracy and loss at each length."""
    found: dict[str, float] = {}
    with served(model, variant, quantizer):
        for times, exam in exams.items():
            seen = examine(model, *exam)
            found |= {f"{name}_x{times}": seen[name] for name in ("accuracy", "loss")}
    return found


@torch.no_grad()
def _whole(
    model: LastToken,
    layers: Sequence[Seen],
    mode: Mapping[str, float],
    few: Tensor,
    control: tuple[Variant, Quantizer],
) -> dict[str, float]:
    """What is known of a model before anything is rounded; the control is to change nothing."""
    plain = model(few)
    with served(model, *control):
        cached = model(few)
    return {
        # 0 but for kernels that attend() turns about another origin than position 0
        "control_error": float((plain - cached).abs().max()),
        **growth(layers),
        **{name: x for name, x in mode.items() if name.endswith(("error", "share"))},
    }


def _inside(
    layers: Sequence[Seen],
    variant: Variant,
    quantizer: Quantizer,
    mode: Mapping[str, float],
    lags: Mapping[str, tuple[int, int]],
) -> dict[str, float]:
    found = rounding(layers, variant, quantizer, lags)
    row = {name: found[name] for name in ("logit_error", "attention_kl")}
    if not mode:
        return row
    own = {f"snr_{b}": mode[f"mode_{b}"] / found[f"noise_{b}"] for b in lags}
    if variant.store == "content keys" or variant.basis != PLAIN:
        return {**row, **own}
    paper = {f"paper_snr_{b}": mode[f"paper_mode_{b}"] / found[f"noise_{b}"] for b in lags}
    return {**row, **own, **paper}


def _settings(length: int, width: int, heads: int, steps: int, **changes: Any) -> dict[str, Any]:
    own = {
        "width": width,
        "heads": heads,
        "target_index": 3,
        "lengths": None,
        "times": [1, 2, 4, 8],
        "stores_times": [1, 4],
        "bits": [8, 4, 3, 2],
        "rotation_seed": 2026,
        "diagnosed": 8,
        "rows": 64,
        "methods": METHODS,
    }
    training = {"steps": steps, "batch": 32, "lr": 2e-3}
    return settings_of(length, training, **{**own, **changes})


SMALL = {
    "target_index": 1,
    "sequences": 64,
    "bits": [4, 2],
    "methods": ["rope_trunc", "direct_sum_grid", "exact"],
}

EXPERIMENT = Experiment(
    name="cache_survival",
    question="Does the Jordan mode of a trained model survive a rounded cache of keys and values?",
    claims=("J-K9",),
    presets=presets(
        Preset("smoke", (0,), _settings(16, 32, 2, 60, **SMALL), "5 core-seconds"),
        Preset("book", (0, 1, 2, 3, 4), _settings(128, 64, 2, 500), "36 core-minutes"),
    ),
    cells=method_cells,
    run_cell=_run_cell,
    baseline="rope_trunc",
    tables=TABLES,
    verdicts={"J-K9": claim_k9},
)
