"""Section memory: how far a process grows beyond its imports, each in a process of its own.

    python -m pjrope.bench.memory '{"kernel": "full", "n": 4096, "train": false, "settings": {}}'

prints what one call took, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from ..experiments.engine.plain_json import ExperimentError
from .cases import PLAIN, inputs, ours, plain
from .pairing import Contestant, row_head
from .settings import Settings

__all__ = ["SQUARE", "measure", "memory", "peaks"]

SQUARE = "one N x N matrix, fp32"
PASSES = {False: "forward", True: "forward + backward"}


def memory(settings: Settings) -> Iterator[dict[str, Any]]:
    """Rows of peak memory against plain causal attention, and of the backward against N x N."""
    for n in settings.memory:
        for train, name in PASSES.items():
            theirs, *found = peaks(["none", *settings.kernels], n, settings, train=train)
            for kernel, took in zip(settings.kernels, found, strict=True):
                yield _row(kernel, took, PLAIN, theirs["bytes"], n, name)
                if train:
                    yield _row(kernel, took, SQUARE, 4 * n * n, n, name)


def _row(
    kernel: str, took: dict[str, Any], against: str, theirs: int, n: int, name: str
) -> dict[str, Any]:
    contestant = Contestant(kernel, lambda: lambda: None, "auto", took["chosen"])
    return {
        **row_head("memory", contestant, against, n=n, batch=1, passes=name),
        "ratio": took["bytes"] / max(1, theirs),
        "pairs": 1,
        "bytes": took["bytes"],
        "reference_bytes": theirs,
    }


def peaks(
    kernels: Sequence[str], n: int, settings: Settings, *, train: bool
) -> list[dict[str, Any]]:
    """What each kernel's call takes, "none" being plain attention; in processes side by side."""
    at_once = 1 if settings.device == "cuda" else os.cpu_count() or 1
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda name: _child(name, n, settings, train), kernels))


def _child(kernel: str, n: int, settings: Settings, train: bool) -> dict[str, Any]:
    order = {"kernel": kernel, "n": n, "train": train, "settings": settings.to_json()}
    command = [sys.executable, "-m", "pjrope.bench.memory", json.dumps(order)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ExperimentError(f"memory of {kernel} at N={n} was not measured: {last}")
    return json.loads(done.stdout)


def measure(kernel: str, n: int, settings: Settings, *, train: bool) -> dict[str, Any]:
    """Peak of this process during one call, minus what it held before any tensor; bytes."""
    cuda = settings.device == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if cuda else resident()
    qkv = inputs(settings, n, train=train)
    contestant = plain(qkv, train=train)
    if kernel != "none":
        contestant = ours(kernel, qkv, settings, train=train)
    contestant.prepare()()
    if cuda:
        torch.cuda.synchronize()
    after = torch.cuda.max_memory_allocated() if cuda else peak()
    return {"bytes": after - before, "chosen": contestant.chosen}


def resident() -> int:
    """Bytes this process has in memory now; where the system does not tell, the most it ever had."""
    return _status("VmRSS") or peak()


def peak() -> int:
    """Most bytes this process ever had in memory."""
    # ru_maxrss of a new process starts at the size of the one that started it; VmHWM does not.
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith(f"{name}:")), None)


def _main(text: str) -> None:
    order = json.loads(text)
    settings = Settings(**order["settings"])
    torch.set_num_threads(settings.threads)
    print(json.dumps(measure(order["kernel"], order["n"], settings, train=order["train"])))


if __name__ == "__main__":
    _main(sys.argv[1])
