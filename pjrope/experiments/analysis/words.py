"""Joining words as a sentence does."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["listed"]


def listed(words: Iterable[str]) -> str:
    """Return words joined as a sentence does: "a, b and c"."""
    *front, last = list(words)
    return f"{', '.join(front)} and {last}" if front else last
