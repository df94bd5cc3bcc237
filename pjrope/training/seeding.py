"""Random streams that cannot disturb each other: each has a name and a seed."""

from __future__ import annotations

import hashlib

import torch


def stream_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream ``names`` of the run ``seed``, the same on every machine."""
    text = "/".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def stream(seed: int, *names: str | int) -> torch.Generator:
    """A CPU generator for the stream ``names`` of the run ``seed``.

    ``stream(0, "data", 17)`` is batch 17's: a resumed run draws the same batch without having
    drawn the sixteen before it.
    """
    return torch.Generator().manual_seed(stream_seed(seed, *names))
