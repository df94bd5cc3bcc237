"""The command line: `pjrope data`, `list`, `run`, `show`, `ledger`, `diagnose`, `bench`.

Modules that import torch are imported inside the commands, so that --help answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..data.home import path_argument
from . import commands, diagnose
from .console import fail, show_what_can_be_shown

__all__ = ["main"]

MOST_SEEDS = 10_000
BAD_INPUT, INTERRUPTED = commands.BAD_INPUT, 130


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
    show_what_can_be_shown()
    args = _parser(words).parse_args(words)
    try:
        code: int = args.command(args)
        return code
    except KeyboardInterrupt:
        print(f"pjrope: interrupted; to go on, repeat: pjrope {shlex.join(words)}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        from pjrope.experiments.engine.system import explain

        return fail(explain(error), BAD_INPUT)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(prog="pjrope", description="Relative position in attention: experiments.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and end")
    parsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    data = parsers.add_parser("data", help="download and verify a corpus")
    if words[:1] == ["data"]:
        from pjrope.data import command

        command.add_arguments(data)
        data.set_defaults(command=command.run)

    listing = parsers.add_parser("list", help="list the experiments, their presets and costs")
    listing.set_defaults(command=commands.list_experiments)

    _run_arguments(
        parsers.add_parser("run", help="run an experiment, or go on with one that was stopped")
    )
    _show_arguments(parsers.add_parser("show", help="print the tables of experiments"))
    ledger = parsers.add_parser("ledger", help="what the records say of each claim of both papers")
    ledger.add_argument("claims", nargs="*", metavar="claim", help="such as J-K4; default, all")
    ledger.add_argument("--json", action="store_true", help="plain data, with every interval")
    ledger.add_argument("--out", type=path_argument, metavar="FILE", help="write there, as UTF-8")
    ledger.set_defaults(command=commands.ledger)

    diagnose.add_arguments(
        parsers.add_parser(
            "diagnose", help="which kind of position your own text, tokens, MIDI or series use"
        )
    )

    bench = parsers.add_parser("bench", help="time the backends, against peers and against none")
    if words[:1] == ["bench"]:
        from pjrope.bench import command as bench_command

        bench_command.add_arguments(bench)
        bench.set_defaults(command=bench_command.run)
    return parser


def _run_arguments(run: argparse.ArgumentParser) -> None:
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
    run.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16", "fp16"),
        default="auto",
        help="of trainings; default bf16 or fp16 on a GPU, fp32 on a CPU",
    )
    run.add_argument("--jobs", type=int, default=1, help="cells side by side, one thread each")
    told = (
        "processes here (local, default), or tasks of Ray: the cluster at RAY_ADDRESS, or one here"
    )
    run.add_argument("--launcher", choices=("local", "ray"), default="local", help=told)
    run.add_argument("--out", type=path_argument, help="results folder; default ./pjrope-results")
    run.add_argument("--record", action="store_true", help="also write into pjrope/record")
    run.add_argument(
        "--partial",
        action="store_true",
        help="with --record: run nothing, record the cells that are finished",
    )
    run.add_argument(
        "--resume-record",
        action="store_true",
        help="take up the cells of the committed record first, and run the others",
    )
    run.add_argument("--keep-work", action="store_true", help="keep finished cells' checkpoints")
    run.set_defaults(command=commands.run)


def _show_arguments(show: argparse.ArgumentParser) -> None:
    show.add_argument("names", nargs="+", metavar="name", help="as in: pjrope list; or bench")
    show.add_argument("--preset", help="default: book, paper or smoke, the first that exists")
    show.add_argument(
        "--out",
        type=_folder,
        metavar="DIR|record",
        help="read from a results folder or from the record; default: record, then "
        "./pjrope-results",
    )
    show.set_defaults(command=commands.show)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"pjrope {version('pjrope')}")
        parser.exit()


def _folder(text: str) -> str:
    return text if text == "record" else str(path_argument(text))


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
