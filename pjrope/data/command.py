"""The command `pjrope data NAME`, shared with the scripts in `data_scripts/`."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from pjrope.data.checks import body_of
from pjrope.data.home import data_home, folder, path_argument
from pjrope.data.manifest import CorpusEntry, DataError, FileEntry, manifest

BAD_INPUT, INTERRUPTED = 2, 130
SHOWN = 3  # files of a corpus that are listed one by one


def add_arguments(parser: argparse.ArgumentParser, *, name: str | None = None) -> None:
    """Add the options of the data command to a parser.

    Args:
        parser: parser to extend.
        name: fix the corpus, as a script for one corpus does; None lets the user name it.
    """
    if name is None:
        known = ", ".join(manifest())
        parser.add_argument("name", nargs="?", metavar="NAME", help=f"corpus to prepare: {known}")
        parser.add_argument("--list", action="store_true", help="list the corpora and stop")
    else:
        parser.set_defaults(name=name, list=False)
    parser.add_argument(
        "--split",
        action="append",
        choices=("train", "validation", "test"),
        help="only this split, where the corpus has official ones; may be repeated",
    )
    parser.add_argument(
        "--mirror",
        type=path_argument,
        metavar="DIR",
        help="copy from this folder (tiny_shakespeare/input.txt, …) instead of downloading; "
        "default: $PJROPE_DATA_MIRROR",
    )
    parser.add_argument(
        "--out",
        type=path_argument,
        metavar="DIR",
        help="folder to keep corpora in; default: $PJROPE_DATA, else data/ in a checkout, else "
        "the user cache",
    )


def run(args: argparse.Namespace) -> int:
    """Carry the data command out.

    Args:
        args: what a parser with `add_arguments` returned.

    Returns:
        Exit code: 0, or 2 after one line on stderr.
    """
    try:
        if args.list:
            _print_list(args.out)
        else:
            _prepare(args.name, args.split, args.mirror, args.out)
    except DataError as error:
        print(f"pjrope: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def main(name: str, argv: Sequence[str] | None = None) -> int:
    """Run the data command for one corpus, as its script in `data_scripts/` does.

    Args:
        name: the corpus.
        argv: arguments; None takes those of the process.

    Returns:
        Exit code: 0, 2 for an error, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(description=f"Download and verify the corpus {name}.")
    add_arguments(parser, name=name)
    try:
        return run(parser.parse_args(argv))
    except KeyboardInterrupt:
        print("stopped; run again to go on where it stopped", file=sys.stderr)
        return INTERRUPTED


def _prepare(
    name: str | None, splits: Sequence[str] | None, mirror: Path | None, home: Path | None
) -> None:
    # torch comes with the corpora, and `--help` should not wait for it.
    from pjrope.data.corpora import STAND_INS, corpus_names, files_of, prepare

    if name is None:
        raise DataError(f"name a corpus ({', '.join(corpus_names())}) or ask for --list")
    if name in STAND_INS:
        print(f"{name} is made on the spot from nothing but Python: there is nothing to download")
        return
    missing = prepare(name, splits=splits, mirror=mirror, home=home)
    root = folder(home, "--out") if home is not None else data_home()
    there = [entry for entry in files_of(name, splits) if entry not in missing]
    for entry in there[:SHOWN]:
        _print_file(name, entry, root / entry.mirror_path)
    if len(there) > SHOWN:
        print(f"{name}: verified {len(there):,} files in all")
    # What is damaged is news; what a partial mirror lacks comes after it.
    news = sorted(missing.items(), key=lambda item: "refused" not in item[1])
    for entry, reason in news[:SHOWN]:
        print(f"{name}: left out {entry.name}\n  because  {reason}")
    if len(missing) > SHOWN:
        print(f"{name}: left out {len(missing):,} files in all")
    if manifest()[name].reader == "pieces":
        from pjrope.data.music.pieces import pieces

        for piece, fault in pieces(name, home=root)[1].items():
            print(f"{name}: piece {piece} is excluded when read, {fault}")
    print(f"{name}: cite {manifest()[name].citation}")


def _print_file(name: str, entry: FileEntry, path: Path) -> None:
    print(f"{name}: verified" + (f" ({entry.split})" if entry.split else ""))
    print(f"  path     {path}")
    print(f"  bytes    {path.stat().st_size:,}")
    if entry.body is None:
        unpublished = f"{entry.seen} (of one copy; none published)" if entry.seen else "of its zip"
        print(f"  sha256   {entry.sha256 or unpublished}")
    else:
        body, known = body_of(path.read_bytes(), entry.body)
        edition = "the known edition" if known else "another edition than the known one"
        print(
            f"  body     {len(body):,} bytes, {edition}, sha256 {hashlib.sha256(body).hexdigest()}"
        )
    print(f"  licence  {entry.licence}")


def _print_list(home: Path | None) -> None:
    from pjrope.data.corpora import STAND_INS, is_prepared

    print(f"data home: {folder(home, '--out') if home else data_home()}")
    for name, entry in manifest().items():
        state = "ready" if is_prepared(name, home=home) else f"absent, `pjrope data {name}`"
        root = folder(home, "--out") if home else data_home()
        if state == "ready" and entry.reader == "pieces":
            there = [(root / file.mirror_path).is_file() for file in entry.files[1:]]
            state = f"ready, {sum(there):,} of {len(there):,} pieces"
        splits = [file.split for file in entry.files if file.split]
        if state == "ready" and splits and not is_prepared(name, splits=splits, home=home):
            state = "ready, but not every split"
        print(f"{name:<22} {_size(entry)}{entry.licence} [{state}]")
    for name in STAND_INS:
        print(f"{name:<22} stand-in, made on the spot [ready]")


def _size(entry: CorpusEntry) -> str:
    """Say how much is downloaded: files of unknown size count by the archive they come from."""
    alone = [file.bytes for file in entry.files if file.bytes]
    boxes = {file.archive for file in entry.files if file.archive and not file.bytes}
    size = sum(alone) + sum(box.bytes or 0 for box in boxes)
    unknown = any(not (file.bytes or (file.archive and file.archive.bytes)) for file in entry.files)
    return f"{'over ' if unknown else ''}{size / 1e6:.1f} MB, " if size else ""
