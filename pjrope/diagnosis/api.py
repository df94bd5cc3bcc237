"""``pjrope.diagnose``: from tokens to a report."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from ..data.home import expanded
from ..experiments.engine.store import held, parse, write
from .arms import STARTS, Shape, starting_frequencies
from .cells import finished, run_cell
from .decision import FEWEST_TOKENS, too_little
from .evidence import gather
from .plan import Plan, make_plan, split
from .report import Report
from .rules import decide
from .source import InputError, Source, source_of

__all__ = ["checked_device", "diagnose"]


def diagnose(
    tokens: Any,
    *,
    name: str | None = None,
    minutes: float = 10.0,
    steps: int | None = None,
    seeds: Sequence[int] = (0, 1),
    starts: Sequence[str] = STARTS,
    shape: Shape | None = None,
    out: Path | str | None = None,
    fresh: bool = False,
    device: str = "auto",
    progress: bool = True,
) -> Report:
    """Find which kind of relative position a sequence of tokens uses, by training small models.

    Trains models without position, with ALiBi, with RoPE, with each sector of :class:`~pjrope.PJBias`
    alone and with all of them from several starts, reads them on the last tenth of the tokens at L,
    2L and 4L, and applies the rule of :func:`pjrope.diagnosis.decide`.

    Args:
        tokens: ``(n,)`` integers >= 0 (tensor, array or sequence), a text (read as UTF-8 bytes), bytes, or a
            :class:`pjrope.diagnosis.Source`, as :func:`pjrope.diagnosis.read_files` returns it.
        name: how the report calls them.
        minutes: budget; seconds per step are measured first, and steps follow from them.
        steps: of each training, instead of a budget: the same on every machine.
        seeds: of the trainings, each with every arm.
        starts: gates of the union at the start: "uniform" or a sector.
        shape: a :class:`pjrope.diagnosis.Shape`; None takes windows of 128 tokens if the budget allows,
            else 64.
        out: folder for findings and checkpoints: a diagnosis that was stopped goes on from there, with
            the plan it began with. None keeps nothing.
        fresh: forget what ``out`` holds.
        device: "cpu", "cuda" or "auto".
        progress: show a bar.

    Returns:
        a :class:`pjrope.diagnosis.Report`; ``report.save(folder)`` writes its HTML page and JSON.

    Raises:
        InputError: tokens that are none, a budget too small, or a folder of another diagnosis.
        ExperimentError: a folder that cannot be written, or that another diagnosis writes to.

    Limits: small models on little data. What they find of near lags and recency usually carries over;
    structure that takes depth, such as induction, is not looked for. Fewer than 20,000 tokens get the
    verdict "too little data" without a training.
    """
    source = _source(tokens, name)
    if len(source) < FEWEST_TOKENS:
        return Report(source, too_little(len(source)))
    device = checked_device(device)
    folder = None if out is None else expanded(out, InputError)
    asked = {
        "minutes": None if steps else float(minutes),
        "steps": steps,
        "seeds": [int(s) for s in seeds],
        "starts": list(starts),
        "shape": shape.to_json() if shape else None,
        "data": source.sha256,
    }
    cells = []
    with nullcontext() if folder is None else held(folder):
        if folder is not None and fresh:
            _forget(folder)
        plan = _plan(source, shape, asked, folder, device)
        data = split(source, plan.shape)
        omega = starting_frequencies(data.train, plan.shape)
        for cell in (bar := tqdm(plan.cells, "diagnosing", unit="model", disable=not progress)):
            bar.set_postfix_str(cell.name)
            found = finished(folder, cell) if folder else None
            cells.append(found or run_cell(cell, plan, data, omega, folder=folder, device=device))
    evidence = gather(cells, plan, data, len(source))
    return Report(source, decide(evidence), plan=plan, evidence=evidence, cells=cells)


def _forget(folder: Path) -> None:
    for part in ("cells", "training"):
        shutil.rmtree(folder / part, ignore_errors=True)
    (folder / "plan.json").unlink(missing_ok=True)


def _source(tokens: Any, name: str | None) -> Source:
    if isinstance(tokens, Source):
        return tokens
    if isinstance(tokens, str | bytes):
        raw = tokens.encode("utf-8") if isinstance(tokens, str) else tokens
        note = "Tokens are the bytes of the text in UTF-8."
        return source_of(
            np.frombuffer(raw, np.uint8), name=name or "text", kind="text", notes=[note]
        )
    return source_of(tokens, name=name or "tokens")


def checked_device(device: str) -> str:
    """Turn "auto" into what there is; an InputError for another device than cpu and cuda."""
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"device is {device!r}: choose from auto, cpu, cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device is 'cuda' and torch finds none: use cpu or auto")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def _plan(
    source: Source, shape: Shape | None, asked: dict[str, Any], folder: Path | None, device: str
) -> Plan:
    """The plan a folder began with, or a new one."""
    kept = folder / "plan.json" if folder else None
    if kept and kept.is_file():
        before = parse(kept)
        if differing := [key for key in asked if before["asked"].get(key) != asked[key]]:
            raise InputError(
                f"{folder} holds a diagnosis with other {', '.join(differing)}: add --fresh to forget it, "
                "or choose another folder (--out)"
            )
        return Plan.from_json(before["plan"])
    seeds, starts = tuple(asked["seeds"]), tuple(asked["starts"])
    if not seeds or not starts or not set(starts) <= set(STARTS):
        raise InputError(
            f"seeds are {list(seeds)} and starts {list(starts)}: at least one of each is needed, starts "
            f"from {', '.join(STARTS)}"
        )
    if asked["steps"] is not None:
        steps = int(asked["steps"])
        plan = Plan(shape or Shape(), steps, seeds, starts, None, {}, source.sha256)
        split(source, plan.shape)
    else:
        plan = make_plan(
            source,
            shape,
            minutes=asked["minutes"],
            seeds=seeds,
            starts=starts,
            device=device,
        )
    if kept:
        write(kept, {"asked": asked, "plan": plan.to_json()})
    return plan
