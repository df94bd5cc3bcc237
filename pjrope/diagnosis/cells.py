"""One training of a diagnosis: trained, read and kept, so that a stopped diagnosis goes on."""

from __future__ import annotations

import math
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data.batches import EvaluationWindows
from ..diagnostics import (
    Part,
    kernels_by_layer,
    leave_one_out_loss,
    sector_functions,
    sector_summary,
    sectors_of,
)
from ..experiments.engine.store import parse, write
from ..kernels import PJBias
from ..models import Decoder
from ..training import evaluate, train
from .arms import SINGLES, UNION, Cell, build
from .plan import Data, Plan, training_config

__all__ = ["finished", "run_cell"]

DRAWN = 2  # kernels are kept up to this many times L
FACTS = ("rms", "gate", "mass", "slope_per_token")


def finished(folder: Path, cell: Cell) -> dict[str, Any] | None:
    """What a cell found, if it has been run in this folder."""
    path = _path(folder, cell)
    return parse(path) if path.is_file() else None


def _path(folder: Path, cell: Cell) -> Path:
    return folder / "cells" / f"{cell.name}.json"


def run_cell(
    cell: Cell,
    plan: Plan,
    data: Data,
    omega: Mapping[str, Tensor],
    *,
    folder: Path | None,
    device: str,
) -> dict[str, Any]:
    """Train the model of a cell, or go on with it, and read it.

    Args:
        cell: which.
        plan: steps and shape.
        data: what it is trained and read on.
        omega: jet sector → ``(H,)`` starting frequencies, radians per token.
        folder: where checkpoints and findings are kept; None keeps nothing.
        device: torch device.

    Returns:
        plain data: ``losses`` by length and segment, the learning ``curve``, and for kernels with
        sectors their ``sectors``, ``left_out`` and drawn ``kernel``.
    """
    shape = plan.shape
    model = build(cell, shape, data.vocab, omega).to(device)
    work = None if folder is None else folder / "training" / cell.name

    def held_out(of: nn.Module) -> float:
        return evaluate(of, data.windows, lengths=[shape.length])[0]["loss"]

    training = train(
        model,
        data.train,
        training_config(shape, plan.steps),
        seed=cell.seed,
        out=work,
        progress=False,
        watch=held_out,
    )
    found: dict[str, Any] = {"curve": _curve(training.rows), **_losses(model, data, plan)}
    found |= {"arm": cell.arm, "start": cell.start, "seed": cell.seed}
    if cell.arm in (*SINGLES, UNION):
        begun = build(cell, shape, data.vocab, omega)
        found |= _reading(model, begun, data.windows, plan, whole=cell.arm == UNION)
    if folder is not None and work is not None:
        write(_path(folder, cell), found)
        shutil.rmtree(work, ignore_errors=True)
    return found


def _curve(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, float]]:
    return [{"step": r["step"], "train": r["loss"], "held_out": r["watched"]} for r in rows]


def _losses(model: Decoder, data: Data, plan: Plan) -> dict[str, Any]:
    rows = evaluate(model, data.windows, lengths=plan.shape.lengths)
    return {"losses": {str(row["length"]): _short(row["segments"]) for row in rows}}


def _reading(
    model: Decoder, begun: Decoder, windows: EvaluationWindows, plan: Plan, *, whole: bool
) -> dict[str, Any]:
    """What the position kernels of a model are made of."""
    shape, ends = plan.shape, [plan.shape.length, max(plan.shape.lengths)]
    left_out = []
    if whole:
        parts = [Part(s) for s in SINGLES]
        parts += [Part(s, r) for s in ("fj", "lc") for r in range(shape.max_order + 1)]
        left_out = [
            {key: row[key] for key in ("sector", "order", "length", "change", "standard_error")}
            for row in leave_one_out_loss(model, windows, lengths=ends, parts=parts)
            if row["left_out"] != "nothing"
        ]
    model = model.cpu()
    now, before = (_by_sector(sector_summary(m, ends)) for m in (model, begun))
    sectors = [
        dict(zip(("sector", "order", "length"), key, strict=True))
        | now[key]
        | {f"{fact}_start": value for fact, value in before[key].items()}
        for key in now
    ]
    return {"sectors": sectors, "left_out": left_out, "kernel": _drawn(model, shape.length)}


def _by_sector(
    rows: Iterable[Mapping[str, Any]],
) -> dict[tuple[Any, ...], dict[str, float | None]]:
    """Mean of heads and layers."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["sector"], row["order"], row["length"]].append(row)
    return {
        key: {
            fact: None
            if heads[0][fact] is None
            else float(f"{sum(float(h[fact]) for h in heads) / len(heads):.5g}")
            for fact in FACTS
        }
        for key, heads in groups.items()
    }


@torch.no_grad()
def _drawn(model: Decoder, length: int) -> list[dict[str, Any]]:
    """Each layer's bias by head, and its sectors, at the lags 0 ... 2L - 1; nats."""
    lags = torch.arange(DRAWN * length)
    found = []
    for layer, kernel in kernels_by_layer(model):
        assert isinstance(kernel, PJBias)
        sectors = sector_functions(kernel, lags)
        total = torch.stack(list(sectors.values())).sum(0)
        found.append(
            {
                "layer": layer,
                "total": [_short(row) for row in total.tolist()],
                "turns": {
                    name: _short((sector.omega * length / (2 * math.pi)).tolist())
                    for name, sector in sectors_of(kernel).items()
                    if sector.omega is not None
                },
            }
        )
    return found


def _short(values: Iterable[float]) -> list[float]:
    return [float(f"{v:.5g}") for v in values]
