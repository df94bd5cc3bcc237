"""Music corpora as tokens with times, official splits kept, and what a run card says of them."""

from __future__ import annotations

import hashlib
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pjrope.data.manifest import DataError, manifest
from pjrope.data.music.byte_text import ByteText, text_header
from pjrope.data.music.event_tokens import EventTokens
from pjrope.data.music.pieces import Piece, pieces, select
from pjrope.data.music.score import GridScore, Score

SPLITS = ("train", "validation", "test")


class Tokenizer(Protocol):
    """What turns a score into tokens and back: `EventTokens` or `ByteText`."""

    @property
    def vocab_size(self) -> int: ...

    def encode(self, score: Score) -> tuple[np.ndarray, np.ndarray]: ...

    def decode(self, tokens: Any) -> GridScore: ...


@dataclass(frozen=True, eq=False)
class MusicTokens:
    """Pieces one after the other as tokens.

    Args:
        tokens: integers (n,).
        seconds: time known once each token is read (n,), float64, ascending; a piece begins where
            the one before it ended.
        starts: index of the first token of each piece, ascending.
        names: name of each piece.
    """

    tokens: Tensor
    seconds: Tensor
    starts: tuple[int, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, eq=False)
class MusicCorpus:
    """Music as tokens, split by pieces.

    Args:
        name: corpus name.
        description: one sentence.
        train: pieces to train on.
        validation: pieces for choices.
        test: pieces for claims.
        sha256: SHA-256 of the tokens of train, validation and test, as 16-bit numbers, hex.
        licence: terms of the music.
        vocab_size: number of token values.
        stand_in: True for generated music.
        excluded: pieces that were there and not taken, with the reason.
    """

    name: str
    description: str
    train: MusicTokens
    validation: MusicTokens
    test: MusicTokens
    sha256: str
    licence: str
    vocab_size: int
    stand_in: bool
    excluded: dict[str, str] = field(default_factory=dict)

    def split(self, name: str) -> MusicTokens:
        """Return a split by its name.

        Raises:
            DataError: for another name, or a split without a piece.
        """
        if name not in SPLITS:
            raise DataError(f"split {name!r} is unknown; the splits are {', '.join(SPLITS)}")
        found: MusicTokens = getattr(self, name)
        if not len(found):
            raise DataError(
                f"{self.name} has no {name} piece here; run `pjrope data` for more pieces"
            )
        return found

    def card(self) -> dict[str, Any]:
        """Return what a run card says: name, hash, pieces by split, exclusions with reasons."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "stand_in": self.stand_in,
            "pieces": {split: list(getattr(self, split).names) for split in SPLITS},
            "excluded": dict(self.excluded),
        }


def load_music(
    name: str,
    *,
    tokenizer: Tokenizer | None = None,
    order: str = "shortest",
    count: int = 64,
    held_out: int = 16,
    seed: int = 0,
    home: str | Path | None = None,
) -> MusicCorpus:
    """Read a choice of pieces as tokens; never touches the network.

    Args:
        name: "maestro" (official splits) or "musicnet" (the chosen pieces are shuffled by the
            seed and cut).
        tokenizer: how pieces become tokens; default `EventTokens()`.
        order: as `select`: "shortest", "longest", "random" or "table".
        count: pieces to train on; fewer when the copy has fewer.
        held_out: pieces of validation, and as many of test.
        seed: of the random order and of musicnet's cut.
        home: folder that corpora are kept in; default `data_home()`.

    Returns:
        The corpus. Its licence belongs beside every number made with it.

    Raises:
        DataError: for an unknown corpus, or one of which no piece is there.

    Warns:
        UserWarning: once, for pieces that are there but damaged.
    """
    tokenizer = tokenizer or EventTokens()
    chosen, excluded = _choose(name, order, count, held_out, seed, home)
    if excluded:
        warnings.warn(
            f"{name}: {len(excluded)} damaged pieces left out ({', '.join(list(excluded)[:4])}, …); "
            "`excluded` has the reasons",
            stacklevel=2,
        )
    entry = manifest()[name]
    return music_corpus(
        f"{name} ({order} {count})",
        entry.description,
        {split: _tokens(found, tokenizer, excluded) for split, found in chosen.items()},
        licence=entry.licence,
        vocab_size=tokenizer.vocab_size,
        excluded=excluded,
    )


def music_corpus(
    name: str,
    description: str,
    splits: dict[str, MusicTokens],
    *,
    licence: str,
    vocab_size: int,
    stand_in: bool = False,
    excluded: dict[str, str] | None = None,
) -> MusicCorpus:
    """Make a corpus of its three splits and compute its hash."""
    digest = hashlib.sha256()
    for split in SPLITS:
        digest.update(splits[split].tokens.numpy().astype("<u2").tobytes())
    return MusicCorpus(
        name=name,
        description=description,
        **splits,
        sha256=digest.hexdigest(),
        licence=licence,
        vocab_size=vocab_size,
        stand_in=stand_in,
        excluded=excluded or {},
    )


def join(encoded: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> MusicTokens:
    """Put encoded pieces (name, tokens, seconds) one after the other."""
    starts, clock, end = [], [], 0.0
    total = 0
    for _, tokens, seconds in encoded:
        starts.append(total)
        total += len(tokens)
        clock.append(seconds + end)
        end = float(clock[-1][-1]) if len(seconds) else end
    return MusicTokens(
        tokens=torch.from_numpy(np.concatenate([t for _, t, _ in encoded] or [np.zeros(0, "u1")])),
        seconds=torch.from_numpy(np.concatenate([*clock, np.zeros(0)])),
        starts=tuple(starts),
        names=tuple(name for name, _, _ in encoded),
    )


def _choose(
    name: str, order: str, count: int, held_out: int, seed: int, home: str | Path | None
) -> tuple[dict[str, list[Piece]], dict[str, str]]:
    whole, excluded = pieces(name, home=home)
    if not whole:
        raise DataError(f"no piece of {name} is there; run `pjrope data {name}`")
    counts = dict(zip(SPLITS, (count, held_out, held_out), strict=True))
    if any(piece.split for piece in whole):
        parts = {split: [p for p in whole if p.split == split] for split in SPLITS}
        chosen = {s: select(parts[s], order=order, count=counts[s], seed=seed) for s in SPLITS}
        return chosen, excluded
    found = select(whole, order=order, count=count + 2 * held_out, seed=seed)
    # Shuffled, or the longest of the shortest would all be test pieces.
    random.Random(seed).shuffle(found)
    share = min(held_out, len(found) // 3)
    cuts = (found[2 * share :], found[:share], found[share : 2 * share])
    return dict(zip(SPLITS, cuts, strict=True)), excluded


def _tokens(found: Sequence[Piece], tokenizer: Tokenizer, excluded: dict[str, str]) -> MusicTokens:
    encoded = []
    for index, piece in enumerate(found):
        try:
            score = piece.read()
        except DataError as error:
            excluded[piece.id] = str(error)
            continue
        if isinstance(tokenizer, ByteText):
            header = text_header({"PIECE": f"{index:04d}", **piece.header})
            encoded.append((piece.id, *tokenizer.encode(score, header)))
        else:
            encoded.append((piece.id, *tokenizer.encode(score)))
    return join(encoded)
