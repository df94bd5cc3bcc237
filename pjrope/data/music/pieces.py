"""The pieces of a music corpus: what its table says, which are whole, and a choice among them."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pjrope.data.checks import problem
from pjrope.data.home import data_home, folder
from pjrope.data.manifest import CorpusEntry, DataError, FileEntry, manifest
from pjrope.data.music.midi import read_midi
from pjrope.data.music.score import Score

ORDERS = ("shortest", "longest", "random", "table")


@dataclass(frozen=True)
class Piece:
    """One piece of music, as the corpus's own table describes it.

    Args:
        id: name in the corpus: the path of its MIDI file, or its number.
        split: official split, "" where there is none.
        composer: as the table has it.
        title: as the table has it.
        seconds: length by the table.
        path: where the MIDI file lies.
        header: fields for the paper's text form.
    """

    id: str
    split: str
    composer: str
    title: str
    seconds: float
    path: Path
    header: dict[str, str] = field(default_factory=dict, compare=False)

    def read(self) -> Score:
        """Read the MIDI file.

        Raises:
            DataError: when it cannot be read as music; the message names the piece.
        """
        try:
            return read_midi(self.path.read_bytes())
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror}") from None
        except DataError as error:
            raise DataError(f"{self.id}: {error}") from None


def pieces(
    name: str, *, split: str | None = None, home: str | Path | None = None
) -> tuple[list[Piece], dict[str, str]]:
    """List the pieces of a corpus that lie in the data home, in the order of its table.

    Args:
        name: "maestro" or "musicnet".
        split: "train", "validation" or "test" of a corpus with official splits; None for all.
        home: folder that corpora are kept in; default `data_home()`.

    Returns:
        The pieces whose files are whole, and those that are there but excluded, each with the
        reason: a hash that differs, or damage done before the corpus was published.

    Raises:
        DataError: for another name or split, or a corpus without its table.
    """
    entry = music_entry(name)
    root = folder(home, "the data home") if home is not None else data_home()
    files = {file.mirror_path: file for file in entry.files}
    whole: list[Piece] = []
    excluded: dict[str, str] = {}
    for row, path in _table(entry, root):
        piece = (_maestro if name == "maestro" else _musicnet)(row, root / path)
        if split is not None and piece.split != split:
            continue
        if (root / path).is_file():
            fault = _fault(files[path], row, root / path)
            if fault:
                excluded[piece.id] = fault
            else:
                whole.append(piece)
    if split is not None and not any(file.split == split for file in entry.files):
        raise DataError(f"{name} has no split {split!r}; leave it out, or cut the pieces yourself")
    return whole, excluded


def select(
    found: Sequence[Piece], *, order: str = "shortest", count: int | None = None, seed: int = 0
) -> list[Piece]:
    """Choose pieces as the PJ-RoPE paper does.

    Args:
        found: pieces in the order of their table.
        order: "shortest" or "longest" (by length, then name), "random" or "table".
        count: how many; None for all, and fewer when there are fewer.
        seed: of the random order: Python's `Random(seed).shuffle`.

    Raises:
        ValueError: for another order, or a count below 1.
    """
    if order not in ORDERS:
        raise ValueError(f"order {order!r} is unknown; use one of {', '.join(ORDERS)}")
    if count is not None and count < 1:
        raise ValueError(f"count is {count}; choose at least one piece")
    chosen = list(found)
    if order == "random":
        random.Random(seed).shuffle(chosen)
    elif order != "table":
        chosen.sort(key=lambda piece: (piece.seconds, piece.id), reverse=order == "longest")
    return chosen[:count]


def music_entry(name: str) -> CorpusEntry:
    """Return the manifest's entry of a music corpus; a DataError lists them."""
    known = [key for key, entry in manifest().items() if entry.reader == "pieces"]
    if name not in known:
        raise DataError(f"unknown music corpus {name!r}; the corpora are {', '.join(known)}")
    return manifest()[name]


def _table(entry: CorpusEntry, root: Path) -> list[tuple[dict[str, str], str]]:
    """Return the rows of a corpus's table, each with the path of its MIDI file."""
    table = entry.files[0]
    path = root / table.mirror_path
    if not path.is_file():
        raise DataError(f"{entry.name} is not in {root}; run `pjrope data {entry.name}`")
    if wrong := problem(table, path):
        raise DataError(f"{path} is {wrong}; run `pjrope data {entry.name}` to replace it")
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    if entry.name == "maestro":
        return [(row, f"maestro-v3.0.0/{row['midi_filename']}") for row in rows]
    paths = {Path(file.mirror_path).name.partition("_")[0]: file for file in entry.files[1:]}
    return [(row, paths[row["id"]].mirror_path) for row in rows if row["id"] in paths]


def _maestro(row: dict[str, str], path: Path) -> Piece:
    composer, title = row["canonical_composer"], row["canonical_title"]
    seconds = float(row["duration"])
    header = {"SPLIT": row["split"], "DUR": f"{seconds:.2f}", "COMP": composer, "TITLE": title}
    return Piece(row["midi_filename"], row["split"], composer, title, seconds, path, header)


def _musicnet(row: dict[str, str], path: Path) -> Piece:
    title = f"{row['composition']}, {row['movement']}"
    header = {"ID": row["id"], "SEC": row["seconds"], "COMP": row["composer"]}
    header |= {"ENS": row["ensemble"], "WORK": row["composition"], "MOVE": row["movement"]}
    return Piece(row["id"], "", row["composer"], title, float(row["seconds"]), path, header)


def _fault(file: FileEntry, row: dict[str, str], path: Path) -> str | None:
    wrong = problem(file, path)
    if wrong:
        return wrong
    if "bachcentral" in row.get("transcriber", ""):
        raw = path.read_bytes()
        # Of 39 such files, 38 have no LF; where one had been, all are CR now, delta times and
        # velocities of 10 included. A file with neither lost nothing.
        if b"\n" not in raw and b"\r" in raw:
            return (
                f"damaged before it was published: {raw.count(13)} CR bytes and no LF, so every "
                "byte 10 in it reads 13"
            )
    return None
