"""Corpora that need no network: CPython's help texts and the toy language."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable

from pjrope.data.corpus import Corpus, byte_corpus
from pjrope.data.manifest import DataError
from pjrope.data.synthetic import ALPHABET, toy_language

TOY_SEED = 20_240
TOY_TRAIN, TOY_VALIDATION = 60_000, 20_000


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
    return byte_corpus("pydoc_topics", description, {"": text}, "PSF-2.0", stand_in=True)


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


STAND_INS: dict[str, Callable[[], Corpus]] = {
    "toy_language": _toy_language,
    "pydoc_topics": _pydoc_topics,
}
