"""The command `pjrope bench`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from ..data.home import path_argument
from ..experiments.engine.plain_json import ExperimentError
from .settings import DEVICES, FULL, QUICK, SECTIONS, Settings, at_lengths, chosen_sections, on_cuda

BAD_INPUT = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="SECTION",
        help=f"run only this section, repeatable: {', '.join(SECTIONS)}",
    )
    parser.add_argument("--quick", action="store_true", help="two short lengths, under a minute")
    parser.add_argument(
        "--lengths", metavar="N,N", help="lengths of all sections, such as 1024,4096"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch; default 1")
    parser.add_argument(
        "--flex", action="store_true", help="also compile FlexAttention: a minute a length on a CPU"
    )
    parser.add_argument(
        "--json", type=path_argument, metavar="FILE", help="write rows and card here"
    )
    parser.add_argument(
        "--record", action="store_true", help="write into pjrope/record; needs a full run"
    )


def run(args: argparse.Namespace) -> int:
    """Carry the command out.

    Returns:
        Exit code: 0 (also when there is no such device, which is said), 2 for bad input.
    """
    try:
        settings = _settings(args)
        chosen_sections(args.only)
        _check_output(args)
        return _run(args, settings)
    except ExperimentError as error:
        print(f"pjrope bench: {error}", file=sys.stderr)
        return BAD_INPUT


def recorded(preset: str | None, out: str | None) -> str:
    """The committed record as the command printed it when it was made; for `pjrope show bench`.

    Args:
        preset: "cpu" or "cuda"; default the first that exists.
        out: None or "record"; a benchmark keeps no results folder.

    Raises:
        ExperimentError: no such record.
    """
    from .. import record
    from ..experiments.engine.store import load
    from .report import report
    from .run import NAME

    if out not in (None, "record"):
        raise ExperimentError(f"--out {out}: only the record holds benchmarks; drop --out")
    wanted = [preset] if preset else list(DEVICES)
    for device in wanted:
        if (NAME, device) in record.recorded():
            source = f"the package's record, pjrope/record/{NAME}/{device}.json"
            return f"{report(load(NAME, device))}\n\nShown: {source}"
    raise ExperimentError(
        f"no record of {NAME} ({' or '.join(wanted)}); make one with: pjrope bench --record"
    )


def _settings(args: argparse.Namespace) -> Settings:
    settings = QUICK if args.quick else FULL
    if args.lengths:
        settings = at_lengths(settings, _lengths(args.lengths))
    if args.device == "cuda":
        settings = on_cuda(settings, chosen_lengths=bool(args.lengths or args.quick))
    return replace(settings, threads=args.threads, flex=settings.flex or args.flex)


def _lengths(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ExperimentError(f"--lengths {text!r}: write integers, such as 1024,4096") from None


def _check_output(args: argparse.Namespace) -> None:
    partial = {"--quick": args.quick, "--only": args.only, "--lengths": args.lengths}
    if args.record and (given := [name for name, value in partial.items() if value]):
        raise ExperimentError(f"--record keeps full runs only: drop {' and '.join(given)}")
    if args.json and args.json.is_dir():
        raise ExperimentError(f"--json {args.json} is a folder: name a file")
    if args.json:
        from ..experiments.engine.store import check_writable

        check_writable(args.json)


def _run(args: argparse.Namespace, settings: Settings) -> int:
    from ..experiments.engine.store import write
    from .report import report, row_line
    from .run import bench, no_device, save_record

    if why := no_device(settings):
        print(f"pjrope bench: {why}")
        return 0
    result = bench(
        settings,
        args.only,
        command=_words(args),
        say=lambda row: print(row_line(row), file=sys.stderr, flush=True),
    )
    print(report(result))
    if args.json:
        write(args.json, {"card": result.card, "rows": result.rows})
        print(f"\nWritten to {args.json}")
    if args.record:
        print(f"\nRecorded as {save_record(result)}")
    return 0


def _words(args: argparse.Namespace) -> str:
    """The command line that measures the same again; where its output went does not matter."""
    words = ["pjrope bench"]
    words += [f"--only {name}" for name in args.only]
    words += ["--quick"] if args.quick else []
    words += [f"--lengths {args.lengths}"] if args.lengths else []
    words += [f"--device {args.device}"] if args.device != "cpu" else []
    words += [f"--threads {args.threads}"] if args.threads != 1 else []
    words += ["--flex"] if args.flex else []
    words += ["--record"] if args.record else []
    return " ".join(words)
