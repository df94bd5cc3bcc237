"""The corpora by name: downloaded ones, and the stand-ins that need no network."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from pjrope.data.archive import extract
from pjrope.data.download import fetch, problem
from pjrope.data.home import data_home
from pjrope.data.manifest import CorpusEntry, DataError, manifest
from pjrope.data.synthetic import ALPHABET, toy_language

TOY_SEED = 20_240
TOY_TRAIN, TOY_VALIDATION = 60_000, 20_000
BYTES = 256


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as tokens, split, with what a run card must say about it.

    Args:
        name: corpus name; a text that stands in for another says so here.
        description: one sentence.
        train: training tokens (n,), uint8.
        validation: held-out tokens (m,), uint8, from the end of the text.
        sha256: SHA-256 of the whole text's bytes (train, then validation), hex.
        licence: terms of the text.
        vocab_size: number of token values.
        stand_in: True when this is no real corpus but what works offline.
    """

    name: str
    description: str
    train: Tensor
    validation: Tensor
    sha256: str
    licence: str
    vocab_size: int
    stand_in: bool


def corpus_names() -> tuple[str, ...]:
    """Return every name that `load` knows: downloaded corpora first, then the stand-ins."""
    return (*manifest(), *STAND_INS)


def prepare(name: str, *, mirror: str | Path | None = None, home: str | Path | None = None) -> Path:
    """Download and verify a corpus, so that `load` finds it; archives are unpacked.

    Args:
        name: a downloadable corpus, such as "tiny_shakespeare".
        mirror: folder to copy from instead of downloading; default `$PJROPE_DATA_MIRROR`.
        home: folder to keep corpora in; default `data_home()`.

    Returns:
        The corpus's file, or the data home when it has several.

    Raises:
        DataError: for an unknown or generated corpus, or a failed download.
    """
    corpus = _entry(name)
    root = Path(home) if home is not None else data_home()
    paths = []
    for entry in corpus.files:
        paths.append(fetch(entry, root / entry.mirror_path, mirror=mirror))
        if entry.unpack_to is not None:
            extract(paths[-1], root / entry.unpack_to)
    return paths[0] if len(paths) == 1 else root


def is_prepared(name: str, *, home: str | Path | None = None) -> bool:
    """Say whether the corpus's files lie in the data home; their hashes are checked by `load`."""
    if name in STAND_INS:
        return True
    root = Path(home) if home is not None else data_home()
    return all((root / entry.mirror_path).is_file() for entry in _entry(name).files)


def load(name: str, *, home: str | Path | None = None) -> Corpus:
    """Read a corpus into memory, verified; never touches the network.

    Args:
        name: one of `corpus_names()`.
        home: folder that corpora are kept in; default `data_home()`.

    Returns:
        The corpus.

    Raises:
        DataError: for an unknown name, or a corpus that is absent or damaged.
    """
    if name in STAND_INS:
        return STAND_INS[name]()
    entry = _entry(name)
    root = Path(home) if home is not None else data_home()
    if not is_prepared(name, home=root):
        raise DataError(
            f"{name} is not in {root}; run `pjrope data {name}`, or use a stand-in that needs no "
            f"download: {', '.join(STAND_INS)}"
        )
    return _LOADERS[name](entry, root)


def load_or_stand_in(name: str, *, home: str | Path | None = None) -> Corpus:
    """Load a corpus, or CPython's own English text where it was not downloaded.

    Args:
        name: one of `corpus_names()`.
        home: folder that corpora are kept in; default `data_home()`.

    Returns:
        The corpus, or a stand-in whose `name` says what it stands in for and whose `stand_in` is
        True. No warning is given: whoever shows numbers names the text behind them.

    Raises:
        DataError: for an unknown name, or a corpus that is there but damaged.
    """
    if is_prepared(name, home=home):
        return load(name, home=home)
    substitute = load("pydoc_topics")
    return replace(substitute, name=f"{substitute.name} (stand-in for {name})")


def _entry(name: str) -> CorpusEntry:
    if name in STAND_INS:
        raise DataError(f"{name} is made on the spot: nothing to download, `load({name!r})` has it")
    if name not in manifest():
        raise DataError(f"unknown corpus {name!r}; the corpora are {', '.join(corpus_names())}")
    return manifest()[name]


def _tiny_shakespeare(entry: CorpusEntry, home: Path) -> Corpus:
    (file,) = entry.files
    path = home / file.mirror_path
    try:
        wrong = problem(file, path)
        text = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if wrong:
        raise DataError(f"{path} is {wrong}; run `pjrope data {entry.name}` to replace it")
    return _byte_corpus(entry.name, entry.description, text, entry.licence, stand_in=False)


def _pydoc_topics() -> Corpus:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError(
            "this Python ships without pydoc_data, so pydoc_topics has no text; use toy_language"
        ) from None
    text = "\n".join(topics[key] for key in sorted(topics)).encode("utf-8")
    description = (
        f"help topics of CPython {platform.python_version()}; the text differs between patch "
        "releases, so its numbers compare only under the same sha256"
    )
    return _byte_corpus("pydoc_topics", description, text, "PSF-2.0", stand_in=True)


def _toy_language() -> Corpus:
    symbols = toy_language(TOY_TRAIN + TOY_VALIDATION, seed=TOY_SEED)
    return Corpus(
        name="toy_language",
        description="generated symbols that copy the recent past or the last period by known odds",
        train=symbols[:TOY_TRAIN],
        validation=symbols[TOY_TRAIN:],
        sha256=hashlib.sha256(bytes(symbols.tolist())).hexdigest(),
        licence="generated, free of rights",
        vocab_size=ALPHABET,
        stand_in=True,
    )


def _byte_corpus(
    name: str, description: str, text: bytes, licence: str, *, stand_in: bool
) -> Corpus:
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    cut = len(tokens) * 9 // 10
    return Corpus(
        name=name,
        description=description,
        train=tokens[:cut],
        validation=tokens[cut:],
        sha256=hashlib.sha256(text).hexdigest(),
        licence=licence,
        vocab_size=BYTES,
        stand_in=stand_in,
    )


_LOADERS: dict[str, Callable[[CorpusEntry, Path], Corpus]] = {
    "tiny_shakespeare": _tiny_shakespeare,
}
STAND_INS: dict[str, Callable[[], Corpus]] = {
    "toy_language": _toy_language,
    "pydoc_topics": _pydoc_topics,
}
