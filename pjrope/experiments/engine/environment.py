"""Where a cell ran: versions, commit, processor. Nothing that names a person or a path."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from ... import record

__all__ = ["commit", "describe", "processor"]

PACKAGE = Path(__file__).resolve().parents[2]


def describe(device: str) -> dict[str, Any]:
    """Return what a run card says about the machine and the code.

    Args:
        device: torch device the cells run on.

    Returns:
        version, commit, dirty (True when the package differs from the commit; None without one),
        device, cpu, torch, numpy, python, threads.
    """
    import torch

    revision, dirty = commit()
    return {
        "version": metadata.version("pjrope"),
        "commit": revision,
        "dirty": dirty,
        "device": _device(device),
        "cpu": processor(),
        "torch": torch.__version__,
        "numpy": metadata.version("numpy"),
        "python": platform.python_version(),
        "threads": 1,
    }


def _device(device: str) -> str:
    """The device's name; with the number type of trainings, unless it is a CPU's usual one."""
    import torch

    from ...training.precision import resolve_precision

    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    precision = resolve_precision("auto", device)
    return name if (device, precision) == ("cpu", "fp32") else f"{name}, {precision}"


def commit() -> tuple[str | None, bool | None]:
    """Return the commit of the checkout that holds the package, and whether it was changed.

    Both are None for an installed package, even one whose environment lies inside some other
    repository, and without git. New records do not count as a change: they are output.
    """
    root = PACKAGE.parent
    top = _git(root, "rev-parse", "--show-toplevel")
    revision = _git(root, "rev-parse", "--verify", "HEAD")
    if not top or not revision or Path(top).resolve() != root or not record.in_checkout():
        return None, None
    changed = _git(
        root, "status", "--porcelain", "--", PACKAGE.name, f":(exclude){PACKAGE.name}/record"
    )
    return revision, bool(changed)


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def processor() -> str:
    """Return the processor's model name, or the architecture where the system tells no more."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine() or "unknown"
