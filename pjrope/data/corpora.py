"""The corpora by name: downloaded ones, and the stand-ins that need no network."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pjrope.data.checks import body_of, problem
from pjrope.data.corpus import SPLITS, Corpus, byte_corpus, hf_rows
from pjrope.data.download import fetch_all
from pjrope.data.home import data_home, folder
from pjrope.data.manifest import CorpusEntry, DataError, FileEntry, manifest
from pjrope.data.stand_ins import STAND_INS


def corpus_names() -> tuple[str, ...]:
    """Return every name that `load` knows: downloaded corpora first, then the stand-ins."""
    return (*manifest(), *STAND_INS)


def prepare(
    name: str,
    *,
    splits: Sequence[str] | None = None,
    mirror: str | Path | None = None,
    home: str | Path | None = None,
) -> dict[FileEntry, str]:
    """Download and verify a corpus, so that `load` finds it.

    Args:
        name: a downloadable corpus, such as "tiny_shakespeare".
        splits: the splits wanted; None for all.
        mirror: folder to copy from instead of downloading; default `$PJROPE_DATA_MIRROR`.
        home: folder to keep corpora in; default `data_home()`.

    Returns:
        The files that the corpus can do without and that could not be had, each with the reason.

    Raises:
        DataError: for an unknown or generated corpus, or a failed download.
    """
    entry = _entry(name)
    files = _files(entry, splits)
    missing = fetch_all(files, _root(home), mirror=mirror)
    if entry.reader == "pieces" and len(missing) == sum(file.optional for file in files):
        raise DataError(next(iter(missing.values())))
    return missing


def is_prepared(
    name: str, *, splits: Sequence[str] | None = None, home: str | Path | None = None
) -> bool:
    """Say whether the corpus's files lie in the data home; their hashes are checked by `load`.

    Args:
        name: one of `corpus_names()`.
        splits: the splits that must be there; None for those that the corpus cannot do without.
        home: folder that corpora are kept in; default `data_home()`.
    """
    if name in STAND_INS:
        return True
    entry, root = _entry(name), _root(home)
    files = _files(entry, splits)
    if entry.reader == "pieces":  # any of them will do
        there = [file.optional for file in files if (root / file.mirror_path).is_file()]
        return True in there and False in there
    return all(
        (root / file.mirror_path).is_file()
        for file in files
        if splits is not None or not file.optional
    )


def load(
    name: str, *, splits: Sequence[str] | None = None, home: str | Path | None = None
) -> Corpus:
    """Read a corpus into memory, verified; never touches the network.

    Args:
        name: one of `corpus_names()`.
        splits: the splits to read, all needed; None reads those that are there and needs those
            that the corpus cannot do without.
        home: folder that corpora are kept in; default `data_home()`.

    Returns:
        The corpus. A split that was not read is empty; `Corpus.split` says so.

    Raises:
        DataError: for an unknown name, or a corpus that is absent, empty or damaged.

    Warns:
        UserWarning: for an edition of a text that is not the known one.
    """
    if name in STAND_INS:
        return STAND_INS[name]()
    entry, root = _entry(name), _root(home)
    if entry.reader == "pieces":
        raise DataError(f"{name} is music, not text: pjrope.data.music.load_music reads it")
    if not is_prepared(name, splits=splits, home=root):
        wanted = "".join(f" --split {s}" for s in splits or ())
        raise DataError(
            f"{name} is not in {root}; run `pjrope data {name}{wanted}`, or use a stand-in that "
            f"needs no download: {', '.join(STAND_INS)}"
        )
    texts = {
        file.split: _read(entry, file, root / file.mirror_path)
        for file in _files(entry, splits)
        if (root / file.mirror_path).is_file()
    }
    return byte_corpus(name, entry.description, texts, entry.licence)


def load_or_stand_in(
    name: str, *, splits: Sequence[str] | None = None, home: str | Path | None = None
) -> Corpus:
    """Load a corpus with all its splits, or CPython's own English text where one is missing.

    Args:
        name: one of `corpus_names()`.
        splits: the splits needed; None for all that the corpus has.
        home: folder that corpora are kept in; default `data_home()`.

    Returns:
        The corpus, or a stand-in whose `name` says what it stands in for and whose `stand_in` is
        True; it has a test split where the corpus has one. No warning is given: whoever shows
        numbers names the text behind them.

    Raises:
        DataError: for an unknown name, or a corpus that is there but damaged.
    """
    if name in STAND_INS:
        return load(name)
    if _entry(name).reader == "pieces":
        return load(name)  # which says how music is read
    wanted = [file.split for file in _files(_entry(name), splits) if file.split]
    if is_prepared(name, splits=wanted or None, home=home):
        return load(name, splits=wanted or None, home=home)
    substitute = load("pydoc_topics")
    renamed = replace(substitute, name=f"{substitute.name} (stand-in for {name})")
    if "test" not in wanted:
        return renamed
    half = len(renamed.validation) // 2
    held_out = renamed.validation
    return replace(renamed, validation=held_out[:half], test=held_out[half:])


def _read(entry: CorpusEntry, file: FileEntry, path: Path) -> bytes:
    try:
        wrong = problem(file, path)
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if wrong:
        raise DataError(f"{path} is {wrong}; run `pjrope data {entry.name}` to replace it")
    if file.body is not None:
        raw, known = body_of(raw, file.body)
        if not known:
            warnings.warn(
                f"{path} is another edition of {entry.name} than the known one: compare numbers "
                f"only under the same sha256 ({hashlib.sha256(raw).hexdigest()[:12]}…)",
                stacklevel=3,
            )
    return hf_rows(raw) if entry.reader == "hf_rows" else raw


def _files(entry: CorpusEntry, splits: Sequence[str] | None) -> tuple[FileEntry, ...]:
    known = list(dict.fromkeys(file.split for file in entry.files if file.split))
    for split in splits or ():
        if known and split not in known:
            raise DataError(f"{entry.name} has no split {split!r}; it has {', '.join(known)}")
        if not known and split not in SPLITS[:2]:
            raise DataError(f"{entry.name} has no official {split!r} split; use validation")
    return tuple(f for f in entry.files if not splits or not f.split or f.split in splits)


def files_of(name: str, splits: Sequence[str] | None = None) -> tuple[FileEntry, ...]:
    """Return the files of a downloadable corpus, those of some splits or all."""
    return _files(_entry(name), splits)


def _root(home: str | Path | None) -> Path:
    return folder(home, "the data home") if home is not None else data_home()


def _entry(name: str) -> CorpusEntry:
    if name in STAND_INS:
        raise DataError(f"{name} is made on the spot: nothing to download, `load({name!r})` has it")
    if name not in manifest():
        raise DataError(f"unknown corpus {name!r}; the corpora are {', '.join(corpus_names())}")
    return manifest()[name]
