"""Run sections and put their rows on a card that says where and when."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import torch

from .. import record
from ..experiments.engine.environment import describe
from ..experiments.engine.plain_json import ExperimentError, digest, plain
from ..experiments.engine.result import Result, check_row
from ..experiments.engine.store import write
from . import attention, decoding, memory, models
from .peers import PEERS
from .settings import SECTIONS, Settings, chosen_sections
from .targets import target_of, verdict

__all__ = ["NAME", "bench", "no_device", "save_record"]

NAME = "bench"
RUNNERS: dict[str, Callable[[Settings], Iterator[dict[str, Any]]]] = {
    "forward": attention.forward,
    "backward": attention.backward,
    "rotate": attention.rotate,
    "decode": decoding.decode,
    "memory": memory.memory,
    "training": models.training,
    "evaluation": models.evaluation,
}
assert RUNNERS.keys() == SECTIONS.keys()


def no_device(settings: Settings) -> str | None:
    """Why nothing can run on the wanted device, or None."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        return "not run: no CUDA device"
    return None


def bench(
    settings: Settings,
    only: Sequence[str] = (),
    *,
    command: str = "pjrope bench",
    say: Callable[[dict[str, Any]], None] = lambda row: None,
) -> Result:
    """Measure.

    Args:
        settings: sizes, device, threads.
        only: sections, default all.
        command: what to type to do it again; goes on the card.
        say: called with each row as soon as it is there.

    Returns:
        a :class:`~pjrope.experiments.engine.result.Result`. Rows have section, method, backend, chosen,
        against, n, batch and either ``skipped`` (why) or ratio, ratio_low, ratio_high (quartiles),
        cpu_ratio, pairs, every reading in seconds, must, strive and verdict (None without a
        target). Memory rows have bytes and reference_bytes instead of readings.

    Raises:
        ExperimentError: an unknown section, or no such device.
    """
    names = chosen_sections(only)
    if why := no_device(settings):
        raise ExperimentError(why)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    begun, worked, date = time.perf_counter(), time.process_time(), datetime.now(UTC)
    rows = []
    with threads(settings.threads):
        for name in names:
            for row in RUNNERS[name](settings):
                rows.append(check_row(_judged(row, settings), f"row of {name}"))
                say(rows[-1])
    card = {
        **describe(settings.device),
        "experiment": NAME,
        "preset": settings.device,
        "spec_id": digest({"settings": settings.to_json(), "sections": names}),
        "revision": 1,
        "settings": plain(settings.to_json()),
        "sections": names,
        "seeds": [0],
        "data": [],
        "cells": len(rows),
        "date": date.isoformat(timespec="seconds"),
        "wall_seconds": time.perf_counter() - begun,
        "cpu_seconds": time.process_time() - worked,
        "threads": settings.threads,
        "cores": os.cpu_count(),
        "load": load,
        "peers": {package: _version(package) for package in PEERS},
        "command": command,
    }
    return Result(rows, card)


def _judged(row: dict[str, Any], settings: Settings) -> dict[str, Any]:
    target = None if row["skipped"] else target_of(row, settings.device)
    if target is None:
        return {**row, "must": None, "strive": None, "verdict": None}
    judged = verdict(row["ratio"], target)
    return {**row, "must": target.must, "strive": target.strive, "verdict": judged}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use so many threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def save_record(result: Result) -> str:
    """Write a result into the package's record; returns the path to show.

    Raises:
        ExperimentError: outside a checkout, where a record would be lost.
    """
    if not record.in_checkout():
        raise ExperimentError("only a source checkout has a record to write: use --json FILE")
    preset = result.card["preset"]
    write(record.path(NAME, preset), {"card": result.card, "rows": result.rows})
    return f"pjrope/record/{NAME}/{preset}.json"
