"""A text as tokens with its splits, and how bytes become one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pjrope.data.manifest import DataError

BYTES = 256
SPLITS = ("train", "validation", "test")


def _nothing() -> Tensor:
    return torch.empty(0, dtype=torch.uint8)


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as tokens, split, with what a run card must say about it.

    Args:
        name: corpus name; a text that stands in for another says so here.
        description: one sentence, which byte stream it is included.
        train: training tokens (n,), uint8.
        validation: held-out tokens (m,), uint8: the official split, or the end of the text where
            there is none.
        sha256: SHA-256 of the bytes of train, validation and test in this order, hex.
        licence: terms of the text.
        vocab_size: number of token values.
        stand_in: True when this is no real corpus but what works offline.
        test: tokens of the official test split (k,), uint8; empty where there is none.
    """

    name: str
    description: str
    train: Tensor
    validation: Tensor
    sha256: str
    licence: str
    vocab_size: int
    stand_in: bool
    test: Tensor = field(default_factory=_nothing)

    def split(self, name: str) -> Tensor:
        """Return the tokens of a split that must be there.

        Args:
            name: "train", "validation" or "test".

        Returns:
            Tokens (n,), uint8, n ≥ 1.

        Raises:
            DataError: for another name, or a split that the corpus or this copy of it lacks.
        """
        if name not in SPLITS:
            raise DataError(f"split {name!r} is unknown; the splits are {', '.join(SPLITS)}")
        tokens: Tensor = getattr(self, name)
        if not len(tokens):
            there = ", ".join(s for s in SPLITS if len(getattr(self, s))) or "none"
            raise DataError(
                f"{self.name} has no {name} split here; it has {there}. Use one of these, or run "
                "`pjrope data` for a copy that has it"
            )
        return tokens


def byte_corpus(
    name: str, description: str, texts: dict[str, bytes], licence: str, *, stand_in: bool = False
) -> Corpus:
    """Make a corpus of bytes from its splits, or from one text under "", cut 9 to 1."""
    if "" in texts:
        cut = len(texts[""]) * 9 // 10
        texts = {"train": texts[""][:cut], "validation": texts[""][cut:]}
    parts = {split: texts.get(split, b"") for split in SPLITS}
    return Corpus(
        name=name,
        description=description,
        sha256=hashlib.sha256(b"".join(parts.values())).hexdigest(),
        licence=licence,
        vocab_size=BYTES,
        stand_in=stand_in,
        **{s: torch.frombuffer(bytearray(t), dtype=torch.uint8) for s, t in parts.items() if t},
        **{s: _nothing() for s, t in parts.items() if not t},
    )


def hf_rows(raw: bytes) -> bytes:
    """Turn a `.raw` file of WikiText into the rows of the Hugging Face data set, joined with LF.

    A row keeps its line end, a blank line is an empty row, and joining adds an LF after each.

    Args:
        raw: the file.

    Returns:
        The other byte stream: about 0.1 % longer, so bits per byte differ slightly.
    """
    lines = raw.split(b"\n")[:-1]
    return b"\n".join(line + b"\n" if line.strip() else b"" for line in lines)
