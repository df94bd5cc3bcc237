"""Paired timing: two contestants take turns, and only the ratio within a pair counts.

A machine that slows down slows both halves of a pair, so the median of the ratios stays when the
seconds do not.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .settings import Settings

__all__ = ["Clock", "Contestant", "Paired", "Race", "Skipped", "quartiles", "row_head", "rows_of"]

Run = Callable[[], Any]


class Skipped(Exception):
    """Why a contestant does not run here."""


@dataclass(frozen=True)
class Contestant:
    """Something to time.

    Attributes:
        name: what the table calls it: a kernel of ours, or a peer.
        prepare: makes the function that is timed; raises :class:`Skipped` where it cannot run.
        backend: backend of ours that was asked for, empty for peers.
        chosen: backend that ``auto`` takes.
    """

    name: str
    prepare: Callable[[], Run]
    backend: str = ""
    chosen: str = ""


@dataclass(frozen=True)
class Clock:
    """Two clocks and what to wait for before reading them (a GPU finishes later than its call)."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time
    wait: Callable[[], Any] = lambda: None

    @classmethod
    def of(cls, device: str) -> Clock:
        """The clock for a device."""
        if device == "cpu":
            return cls()
        import torch

        return cls(wait=torch.cuda.synchronize)

    def read(self, run: Run, calls: int = 1) -> tuple[float, float]:
        """Wall and processor seconds of one call, averaged over ``calls``."""
        self.wait()
        wall, cpu = self.wall(), self.cpu()
        for _ in range(calls):
            run()
        self.wait()
        return (self.wall() - wall) / calls, (self.cpu() - cpu) / calls


@dataclass(frozen=True)
class Paired:
    """Times of interleaved runs, pair by pair, in seconds.

    Attributes:
        seconds: wall time of the contestant.
        reference_seconds: wall time of the reference, right before.
        cpu_seconds: processor time of the contestant.
        reference_cpu_seconds: processor time of the reference.
    """

    seconds: list[float] = field(default_factory=list)
    reference_seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    reference_cpu_seconds: list[float] = field(default_factory=list)

    def add(self, reference: tuple[float, float], contestant: tuple[float, float]) -> None:
        """Append one pair of (wall, processor) readings."""
        self.reference_seconds.append(reference[0])
        self.reference_cpu_seconds.append(reference[1])
        self.seconds.append(contestant[0])
        self.cpu_seconds.append(contestant[1])

    def summary(self) -> dict[str, Any]:
        """Median and quartiles of the paired ratios, and every reading they come from."""
        low, middle, high = quartiles(_ratios(self.seconds, self.reference_seconds))
        worked = _ratios(self.cpu_seconds, self.reference_cpu_seconds)
        return {
            "ratio": middle,
            "ratio_low": low,
            "ratio_high": high,
            "cpu_ratio": quartiles(worked)[1] if worked else None,
            "pairs": len(self.seconds),
            "seconds": self.seconds,
            "reference_seconds": self.reference_seconds,
            "cpu_seconds": self.cpu_seconds,
            "reference_cpu_seconds": self.reference_cpu_seconds,
        }


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    # A coarse processor clock may not move during a short run.
    return [a / b for a, b in zip(ours, theirs, strict=True) if b > 0]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile; ends count, so none lies outside the values."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


class Race:
    """A reference that contestants are timed against, A B A B.

    Args:
        reference: the function that counts as 1.
        settings: budget and number of pairs.
        clock: default, the device's.
    """

    def __init__(self, reference: Run, settings: Settings, clock: Clock | None = None) -> None:
        self.reference, self.settings = reference, settings
        self.clock = Clock.of(settings.device) if clock is None else clock
        self._warm = self._first(reference)

    def against(self, run: Run) -> Paired:
        """Time ``run`` against the reference; the first call of each is not counted."""
        warm = self._first(run)
        calls = max(1, math.ceil(self.settings.least_seconds / max(1e-9, min(warm, self._warm))))
        paired = Paired()
        gc.collect()
        gc.disable()
        try:
            for _ in range(self._pairs((warm + self._warm) * calls)):
                reference = self.clock.read(self.reference, calls)
                paired.add(reference, self.clock.read(run, calls))
        finally:
            gc.enable()
        return paired

    def _first(self, run: Run) -> float:
        """Seconds of a call that does not count; on a GPU a call before it may have to compile."""
        if self.settings.device != "cpu":
            self.clock.read(run)
        return self.clock.read(run)[0]

    def _pairs(self, seconds: float) -> int:
        affordable = int(self.settings.budget / max(1e-9, seconds))
        return max(self.settings.least_pairs, min(self.settings.most_pairs, affordable))


def row_head(
    section: str, contestant: Contestant, against: str, skipped: str | None = None, **fields: Any
) -> dict[str, Any]:
    """What every row begins with; ``skipped`` says why there is nothing behind it."""
    return {
        "section": section,
        "method": contestant.name,
        "backend": contestant.backend,
        "chosen": contestant.chosen,
        "against": against,
        "seed": 0,
        "skipped": skipped,
        **fields,
    }


def rows_of(
    section: str,
    reference: Contestant,
    contestants: Sequence[Contestant],
    settings: Settings,
    *,
    clock: Clock | None = None,
    **fields: Any,
) -> Iterator[dict[str, Any]]:
    """Race every contestant against the reference, one row each.

    Args:
        section: name of the section.
        reference: what counts as 1.
        contestants: in the order of the rows.
        settings: budget and number of pairs.
        clock: default, the device's.
        fields: what the rows share, such as n.
    """

    def head(contestant: Contestant, skipped: str | None = None) -> dict[str, Any]:
        return row_head(section, contestant, reference.name, skipped, **fields)

    try:
        race = Race(reference.prepare(), settings, clock)
    except Skipped as why:
        for each in contestants:
            yield head(each, f"{reference.name}: {why}")
        return
    for each in contestants:
        try:
            paired = race.against(each.prepare())
        except Skipped as why:
            yield head(each, str(why))
        else:
            yield {**head(each), **paired.summary()}
