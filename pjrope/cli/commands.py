"""What `pjrope list`, `run`, `show` and `ledger` do.

Modules that import torch are imported inside the commands, so that --help answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import fail

if TYPE_CHECKING:
    from pjrope.experiments.engine.result import Result
    from pjrope.experiments.engine.spec import Experiment

__all__ = ["ledger", "list_experiments", "run", "show"]

BAD_INPUT, FAILED = 2, 1
SHOWN_FIRST = ("book", "paper", "smoke")


def list_experiments(args: argparse.Namespace) -> int:
    """Name every experiment with its question, claims, presets and costs."""
    from pjrope.experiments.engine import registry
    from pjrope.experiments.engine.plain_json import ExperimentError

    for name in registry.names():
        try:
            experiment = registry.get(name)
        except ExperimentError as error:
            print(f"{name}\n    not available: {error}")
            continue
        print(f"{name}\n    {experiment.question}")
        if experiment.claims:
            print(f"    claims: {', '.join(experiment.claims)}")
        for preset in experiment.presets.values():
            print(f"    --preset {preset.name:<6} {len(preset.seeds)} seeds, {preset.cost}")
    return 0


def run(args: argparse.Namespace) -> int:
    """Run an experiment and print its report."""
    from pjrope import experiments
    from pjrope.data.manifest import DataError
    from pjrope.experiments import CellsFailed, ExperimentError
    from pjrope.experiments.analysis.report import report
    from pjrope.experiments.engine import registry
    from pjrope.experiments.engine.store import DEFAULT_OUT, result_path
    from pjrope.training.precision import VARIABLE

    if args.precision != "auto":  # processes started for cells read it too
        os.environ[VARIABLE] = args.precision
    only: dict[str, list[Any]] = {}
    for key, value in args.only:
        only.setdefault(key, []).append(value)
    options = ["seeds", "device", "jobs", "launcher", "out", "record", "keep_work", "partial"]
    options.append("resume_record")
    try:
        experiment = registry.get(args.name)
        _name_substitutes(experiment, args.preset)
        result = experiments.run(
            args.name, args.preset, only=only, **{name: getattr(args, name) for name in options}
        )
    except (ExperimentError, DataError) as error:
        return fail(error, BAD_INPUT)
    except CellsFailed as error:
        print(f"pjrope: {error}", file=sys.stderr)
        return FAILED
    print(report(experiment, result))
    print(f"\nWritten to {result_path(args.out or DEFAULT_OUT, args.name, args.preset)}")
    if args.record:
        print(f"Recorded as pjrope/record/{args.name}/{args.preset}.json")
    return 0


def _name_substitutes(experiment: Experiment, preset: str) -> None:
    """Say before a long run that it will not read the corpus it is meant for."""
    from pjrope.experiments.engine.run import substitutes

    chosen = experiment.preset(preset)
    for name in substitutes(chosen, experiment.data(chosen) if experiment.data else ()):
        print(f"pjrope: this run reads {name}: `pjrope data` gets the real one", file=sys.stderr)


def show(args: argparse.Namespace) -> int:
    """Print the reports of experiments, all of them or none."""
    from pjrope.experiments import ExperimentError
    from pjrope.experiments.analysis.report import report
    from pjrope.experiments.engine import registry

    presets = [args.preset] if args.preset else SHOWN_FIRST
    parts = []
    try:
        for name in args.names:
            if name == "bench":
                from pjrope.bench.command import recorded

                parts.append(recorded(args.preset, args.out))
                continue
            experiment = registry.get(name)
            if args.preset:
                experiment.preset(args.preset)
            source, result = _find(experiment.name, presets, args.out)
            parts.append(f"{report(experiment, result)}\n\nShown: {source}")
    except ExperimentError as error:
        return fail(error, BAD_INPUT)
    print("\n\n".join(parts))
    return 0


def _find(name: str, presets: Sequence[str], out: str | None) -> tuple[str, Result]:
    """Return the first result there is, the record before the results folder, and its source."""
    from pjrope import record
    from pjrope.experiments import ExperimentError, load, read
    from pjrope.experiments.engine.store import DEFAULT_OUT, result_path

    recorded = record.recorded() if out in (None, "record") else []
    for preset in presets:
        if (name, preset) in recorded:
            return f"the package's record, pjrope/record/{name}/{preset}.json", load(name, preset)
    folder = None if out == "record" else Path(out) if out else DEFAULT_OUT
    for preset in presets:
        if folder and (path := result_path(folder, name, preset)).is_file():
            return str(path), read(path)
    searched = {None: f"the record or {folder}", "record": "the record"}.get(out, str(folder))
    raise ExperimentError(
        f"no results of {name} ({' or '.join(presets)}) in {searched}; make them with: "
        f"pjrope run {name} --preset {presets[0]}"
    )


def ledger(args: argparse.Namespace) -> int:
    """Print what the records say of every claim of both papers, or write it to a file."""
    from pjrope.experiments import ExperimentError
    from pjrope.experiments.analysis.ledger import as_json, as_markdown, rows

    try:
        found = rows(args.claims or None)
    except ExperimentError as error:
        return fail(error, BAD_INPUT)
    text = as_markdown(found)
    if args.json:
        # A terminal may lack characters; escaped, the JSON is the same in any encoding.
        text = json.dumps(as_json(found), indent=1, ensure_ascii=args.out is None)
    if args.out is None:
        print(text)
        return 0
    args.out.write_text(text + "\n", encoding="utf-8")
    print(f"Written to {args.out}")
    return 0
