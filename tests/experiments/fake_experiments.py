"""Tiny experiments that the runner is tested with; worker processes import them by name."""

from __future__ import annotations

import json
import os
import time

import torch

from pjrope.experiments import Cell, CellResult, Experiment, Preset, Table

PLACES = {
    f"fake/{name}": f"fake_experiments:{name.upper()}" for name in ("quick", "slow", "broken")
}


def _quick_cells(preset, seeds):
    kinds = ("none", ["rope", "ntk"])
    return [Cell({"seed": seed, "method": method}) for seed in seeds for method in kinds]


def _quick(cell, context):
    generator = torch.Generator().manual_seed(cell.seed)
    weight = torch.randn(64, 64, generator=generator)
    methods = cell.key["method"]
    rows = []
    for shift, method in enumerate((methods,) if isinstance(methods, str) else methods):
        for length in context.settings["lengths"]:
            loss = (weight @ weight).std() * context.settings["scale"] + shift + length
            row = {"method": method, "seed": cell.seed, "length": length, "loss": loss}
            rows.append({**row, "threads": torch.get_num_threads(), "stray": torch.rand(()).item()})
    return CellResult(rows, data=[{"name": "toy", "sha256": "00", "stand_in": True}])


QUICK = Experiment(
    name="fake/quick",
    question="Does the runner keep order?",
    claims=("T-1",),
    presets={
        "smoke": Preset("smoke", (0, 1), {"scale": 0.5, "lengths": [8, 1024]}, "a blink"),
        "book": Preset("book", (0, 1, 2), {"scale": 0.5, "lengths": [8]}, "two blinks"),
    },
    cells=_quick_cells,
    run_cell=_quick,
    baseline="none",
    tables=(Table("Loss", "loss", columns="length", smallest_effect=0.01),),
)


def _slow(cell, context):
    """Add numbers in 12 steps, with a checkpoint after each and a line in the log of the test."""
    checkpoint = context.workdir / "state.json"
    state = {"step": 0, "total": 0.0}
    if checkpoint.exists():
        state = json.loads(checkpoint.read_text())
    while state["step"] < context.settings["steps"]:
        time.sleep(float(os.environ.get("FAKE_SLEEP", "0")))
        noise = torch.rand((), generator=torch.Generator().manual_seed(state["step"])).item()
        state = {"step": state["step"] + 1, "total": state["total"] + noise * (cell.seed + 1)}
        temporary = checkpoint.with_suffix(".new")
        temporary.write_text(json.dumps(state))
        temporary.replace(checkpoint)
        if log := os.environ.get("FAKE_LOG"):
            with open(log, "a") as file:
                file.write(f"{cell.seed} {state['step']}\n")
    return [{"method": "sum", "seed": cell.seed, "total": state["total"]}]


SLOW = Experiment(
    name="fake/slow",
    question="Does a killed run go on?",
    claims=(),
    presets={"smoke": Preset("smoke", (0, 1, 2, 3), {"steps": 12}, "a second")},
    cells=lambda preset, seeds: [Cell({"seed": seed}) for seed in seeds],
    run_cell=_slow,
)


def _broken(cell, context):
    if cell.seed == 1:
        raise ValueError("the loss exploded")
    if cell.seed == 2:
        os._exit(7)
    return [{"method": "sum", "seed": cell.seed, "loss": float("nan")}]


BROKEN = Experiment(
    name="fake/broken",
    question="Is a failure told?",
    claims=(),
    presets={"smoke": Preset("smoke", (0, 1, 3), {}, "a blink")},
    cells=lambda preset, seeds: [Cell({"seed": seed}) for seed in seeds],
    run_cell=_broken,
)
