"""``pjrope diagnose``: its arguments, and what it does with them.

What imports torch is imported inside functions, so that --help answers at once.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..data.home import path_argument
from .console import fail

if TYPE_CHECKING:
    from ..diagnosis.arms import Shape

__all__ = ["add_arguments", "run"]

BAD_INPUT = 2
EPILOG = """\
Trains about twenty small models on your data within the budget and says which kind of relative
position the data use: recency, single near lags, periods (Fourier jets) or periods that slow down
with the distance (light cone), each with its evidence, and which kernel to start from.

  pjrope diagnose corpus.txt                        UTF-8 text, read as bytes
  pjrope diagnose ids.npy                           token ids, one row of integers
  pjrope diagnose ids.bin --dtype uint16            the same, raw
  pjrope diagnose ids.jsonl                         lists, or objects with "input_ids"
  pjrope diagnose piece.mid other.mid               MIDI, read as note events
  pjrope diagnose series.csv --column price         numbers, read as 256 quantile bins

It writes report.html, one file that needs no network, and report.json. Ctrl-C stops it; the same
command goes on where it stopped. "Cannot tell" is an answer: the report says what would decide it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "files", nargs="*", type=path_argument, metavar="FILE", help="files of one kind"
    )
    parser.add_argument("--minutes", type=_minutes, default=10.0, help="budget; default 10")
    parser.add_argument("--out", type=path_argument, help="folder; default ./pjrope-diagnosis/NAME")
    parser.add_argument(
        "--kind",
        choices=("text", "bytes", "ids", "midi", "csv"),
        help="default: by the ending of the name, else text; bytes reads any file",
    )
    parser.add_argument("--dtype", choices=("uint16", "uint32"), help="of a .bin file of ids")
    parser.add_argument("--column", help="name or number (from 1) of a CSV column; default 1")
    parser.add_argument("--vocab", type=int, help="refuse ids from this number on")
    parser.add_argument("--seeds", type=int, default=2, help="how many; default 2")
    parser.add_argument("--length", type=int, help="training window, tokens; default 128 or 64")
    parser.add_argument("--steps", type=int, help="steps of each training, instead of --minutes")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--fresh", action="store_true", help="forget what the folder holds")
    parser.add_argument(
        "--resume", action="store_true", help="go on where it stopped; this is also the default"
    )
    parser.add_argument(
        "--planted",
        action="store_true",
        help="no file: diagnose ten series whose sector is known (about 25 core-minutes)",
    )
    parser.set_defaults(command=run)


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e5:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of minutes above 0")
    return value


def run(args: argparse.Namespace) -> int:
    """Diagnose files, write the report and print it.

    Returns:
        0, or 2 for bad input.
    """
    from ..diagnosis.api import diagnose
    from ..diagnosis.inputs import Reading, read_files
    from ..diagnosis.source import InputError
    from ..experiments.engine.plain_json import ExperimentError
    from ..training import CheckpointError

    try:
        if args.planted:
            return _planted(args)
        if not args.files:
            raise InputError("no FILE: name the files to diagnose (see pjrope diagnose --help)")
        shape = _shape(args.length)
        if args.seeds < 1 or (args.steps is not None and args.steps < 2):
            raise InputError("--seeds needs at least 1, --steps at least 2")
        reading = Reading(args.kind, args.dtype, args.column, args.vocab)
        source = read_files(args.files, reading)
        out = args.out or Path("pjrope-diagnosis") / _folder(source.name)
        report = diagnose(
            source,
            minutes=args.minutes,
            steps=args.steps,
            seeds=range(args.seeds),
            shape=shape,
            out=out,
            fresh=args.fresh,
            device=args.device,
        )
        html, data = report.save(out)
    except (InputError, ExperimentError, CheckpointError, FloatingPointError) as error:
        return fail(error, BAD_INPUT)
    print(report.text())
    print(f"\nWritten to {html} and {data}")
    return 0


def _planted(args: argparse.Namespace) -> int:
    from ..diagnosis.api import checked_device
    from ..diagnosis.planted import run_planted

    device = checked_device(args.device)
    out = args.out or Path("pjrope-diagnosis") / "planted"
    rows = run_planted(out, steps=args.steps or 600, device=device)
    for row in rows:
        leads = row["leading"] or " or ".join(row["rivals"]) or "none"
        print(f"{row['name']:<12} planted {row['sector']:<7} leading {leads:<14} {row['verdict']}")
    print(f"found {sum(row['found'] for row in rows)} of {len(rows)}; reports in {out}")
    return 0


def _shape(length: int | None) -> Shape | None:
    from ..diagnosis.arms import Shape
    from ..diagnosis.source import InputError

    if length is None:
        return None
    if length < 16 or length & (length - 1):
        raise InputError(f"--length is {length}: a power of two from 16 on is needed")
    return Shape(length=length, batch=max(2, 1024 // length))


def _folder(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "tokens"
