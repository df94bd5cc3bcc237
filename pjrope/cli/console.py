"""What the terminal can show, and errors in one line."""

from __future__ import annotations

import codecs
import io
import sys
import unicodedata

__all__ = ["fail", "plain", "show_what_can_be_shown"]

_HANDLER = "pjrope.plain"
_SPELLED = {
    "±": "+-",
    "−": "-",
    "–": "-",
    "—": "-",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "≈": "~",
    "≡": "==",
    "→": "->",
    "√": "sqrt",
    "∈": "in",
    "…": "...",
    "²": "^2",
    "³": "^3",
    "½": "1/2",
    "“": '"',
    "”": '"',
    "’": "'",
    "‘": "'",
}


def plain(character: str) -> str:
    """Return a character in ASCII: "±" as "+-", "ω" as "omega", "é" as "e", else "?"."""
    if character in _SPELLED:
        return _SPELLED[character]
    name = unicodedata.name(character, "")
    if name.startswith("GREEK") and " LETTER " in name:
        word = name.split(" LETTER ")[1].split()[0]
        return word.capitalize() if "CAPITAL" in name else word.lower()
    kept = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return kept or "?"


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(plain, error.object[error.start : error.end])), error.end


def show_what_can_be_shown() -> None:
    """Let a narrow encoding of the terminal (cp1252, ASCII) spell what it lacks, not fail."""
    codecs.register_error(_HANDLER, _replace)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def fail(message: object, code: int) -> int:
    """Print one line on the error stream and return the exit code."""
    print(f"pjrope: {' '.join(str(message).split())}", file=sys.stderr)
    return code
