"""What a corpus file must be, and in words what is wrong with one that is not."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pjrope.data.manifest import Body, DataError, FileEntry

_BOM = b"\xef\xbb\xbf"
_LARGEST_EXAMINED = 64 << 20  # bytes; a longer file is only said to differ
# An edition may correct a few words; what differs by more is a piece of the text.
_BODY_TOLERANCE = 0.01


def problem(entry: FileEntry, path: Path) -> str | None:
    """Say in words how a file differs from its entry, or return None when it is the right one.

    Args:
        entry: what the file should be.
        path: the file.

    Returns:
        One phrase such as "too short: 10 bytes, expected 12", or None.

    Raises:
        OSError: when the file cannot be read.
    """
    if entry.body is not None:
        try:
            body_of(path.read_bytes(), entry.body)
        except DataError as error:
            return str(error)
        return None
    size = path.stat().st_size
    algorithm, expected = _digest(entry, path)
    if entry.bytes is not None and size != entry.bytes:
        word = "short" if size < entry.bytes else "long"
        fault = f"too {word}: {size:,} bytes, expected {entry.bytes:,}"
    else:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, algorithm).hexdigest()
        if found == expected:
            return None
        fault = f"altered: {algorithm} {found[:12]}…, expected {expected[:12]}…"
    return fault + _cause(path, algorithm, expected)


def note(path: Path) -> None:
    """Write the SHA-256 of a file beside it, for a file that only its archive vouches for."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    _beside(path).write_text(f"{digest}\n", encoding="ascii")


def body_of(raw: bytes, body: Body) -> tuple[bytes, bool]:
    """Cut the part of a text that its editions share.

    Args:
        raw: the file.
        body: where the part begins and ends.

    Returns:
        The part, UTF-8 with LF line ends, and whether it is the known edition to the byte.

    Raises:
        DataError: for a text without that beginning or end, of another length, or not UTF-8.
    """
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"no UTF-8 text: byte {error.start:,} is damaged{_page(raw)}") from None
    start, end = text.find(body.start), text.rfind(body.end)
    for found, mark in ((start, body.start), (end, body.end)):
        if found < 0:
            shown = " ".join(mark.split())
            raise DataError(f"not the text: {shown!r} does not occur in it{_page(raw)}")
    part = text[start : end + len(body.end)]
    if abs(len(part) - body.characters) > _BODY_TOLERANCE * body.characters:
        raise DataError(
            f"not the whole text: {len(part):,} characters, expected about {body.characters:,}"
        )
    encoded = part.encode("utf-8")
    return encoded, hashlib.sha256(encoded).hexdigest() == body.sha256


def _digest(entry: FileEntry, path: Path) -> tuple[str, str]:
    if entry.sha256 is not None:
        return "sha256", entry.sha256
    if entry.sha1 is not None:
        return "sha1", entry.sha1
    beside = _beside(path)
    if beside.is_file():
        return "sha256", beside.read_text("ascii").strip()
    return "sha256", entry.seen or "unknown"


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _cause(path: Path, algorithm: str, expected: str) -> str:
    """Name the usual accidents: an error page, a mark of the byte order, other line ends."""
    if path.stat().st_size > _LARGEST_EXAMINED:
        return ""
    raw = path.read_bytes()
    if page := _page(raw):
        return page
    bare = raw.removeprefix(_BOM)
    lf = bare.replace(b"\r\n", b"\n")
    for repaired, cause in (
        (bare, " (a byte-order mark was put before it)"),
        (lf, " (its line ends were changed to CRLF)"),
        (bare.replace(b"\n", b"\r\n"), " (its line ends were changed to LF)"),
    ):
        if repaired != raw and hashlib.new(algorithm, repaired).hexdigest() == expected:
            return cause
    return ""


def _page(raw: bytes) -> str:
    head = raw[:1024].removeprefix(_BOM).lstrip().lower()
    return " (it is an HTML page)" if head.startswith((b"<!doctype html", b"<html")) else ""
