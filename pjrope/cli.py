"""The command line: `pjrope data`, `pjrope list`, `pjrope run`, `pjrope show`, `pjrope bench`.

Modules that import torch are imported inside the commands, so that --help answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pjrope.experiments.engine.spec import Experiment
    from pjrope.experiments.engine.store import Result

__all__ = ["main"]

MOST_SEEDS = 10_000
BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
SHOWN_FIRST = ("book", "paper", "smoke")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: words after "pjrope"; default, those of the process.

    Returns:
        0 when all went well, 1 when cells failed, 2 for bad input, 130 after Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    args = _parser(words).parse_args(words)
    try:
        return args.command(args)
    except KeyboardInterrupt:
        print(f"pjrope: interrupted; to go on, repeat: pjrope {shlex.join(words)}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(prog="pjrope", description="Relative position in attention: experiments.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    data = commands.add_parser("data", help="download and verify a corpus")
    if words[:1] == ["data"]:
        from pjrope.data import command

        command.add_arguments(data)
        data.set_defaults(command=command.run)

    listing = commands.add_parser("list", help="list the experiments, their presets and costs")
    listing.set_defaults(command=_list)

    run = commands.add_parser("run", help="run an experiment, or go on with one that was stopped")
    run.add_argument("name", help="experiment, as in: pjrope list")
    run.add_argument("--preset", default="smoke", help="smoke (default), book or paper")
    run.add_argument("--seeds", type=_seeds, help="0-4 or 0,2,5; default, those of the preset")
    run.add_argument(
        "--only",
        type=_pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="run only these cells; repeat for other keys, or for more values of one",
    )
    run.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    run.add_argument("--jobs", type=int, default=1, help="cells side by side, one thread each")
    run.add_argument("--out", type=Path, help="results folder; default ./pjrope-results")
    run.add_argument("--record", action="store_true", help="also write into pjrope/record")
    run.add_argument("--keep-work", action="store_true", help="keep finished cells' checkpoints")
    run.set_defaults(command=_run)

    show = commands.add_parser("show", help="print the tables of experiments")
    show.add_argument("names", nargs="+", metavar="name", help="as in: pjrope list; or bench")
    show.add_argument("--preset", help="default: book, paper or smoke, the first that exists")
    show.add_argument(
        "--out",
        metavar="DIR|record",
        help="read from a results folder or from the record; default: record, then "
        "./pjrope-results",
    )
    show.set_defaults(command=_show)

    bench = commands.add_parser("bench", help="time the backends, against peers and against none")
    if words[:1] == ["bench"]:
        from pjrope.bench import command as bench_command

        bench_command.add_arguments(bench)
        bench.set_defaults(command=bench_command.run)
    return parser


def _seeds(text: str) -> list[int]:
    """Turn "0-2,7" into [0, 1, 2, 7]."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        digits = first.isdecimal() and (last.isdecimal() or not dash)
        low, high = (int(first), int(last or first)) if digits else (0, -1)
        if not 0 <= high - low < MOST_SEEDS:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no list of seeds; write 0-4 or 0,2,5 (at most {MOST_SEEDS:,})"
            )
        seeds += range(low, high + 1)
    return seeds


def _pair(text: str) -> tuple[str, Any]:
    """Turn "length=256" into ("length", 256) and "method=rope" into ("method", "rope")."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"{text!r}: write KEY=VALUE, such as method=rope")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _fail(message: object) -> int:
    print(f"pjrope: {message}", file=sys.stderr)
    return BAD_INPUT


def _list(args: argparse.Namespace) -> int:
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


def _run(args: argparse.Namespace) -> int:
    from pjrope.data.manifest import DataError
    from pjrope.experiments import CellsFailed, ExperimentError, run
    from pjrope.experiments.analysis.report import report
    from pjrope.experiments.engine import registry
    from pjrope.experiments.engine.store import DEFAULT_OUT, result_path

    only: dict[str, list[Any]] = {}
    for key, value in args.only:
        only.setdefault(key, []).append(value)
    options = ("seeds", "device", "jobs", "out", "record", "keep_work")
    try:
        experiment = registry.get(args.name)
        _name_substitutes(experiment, args.preset)
        result = run(
            args.name, args.preset, only=only, **{name: getattr(args, name) for name in options}
        )
    except (ExperimentError, DataError) as error:
        return _fail(error)
    except OSError as error:
        return _fail(
            f"cannot write to {args.out or DEFAULT_OUT}: {error.strerror}; give another --out"
        )
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


def _show(args: argparse.Namespace) -> int:
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
        return _fail(error)
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


if __name__ == "__main__":
    sys.exit(main())
