"""What can be downloaded: one checked entry per corpus file, read from `manifest.json`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

FORMAT = 1


class DataError(RuntimeError):
    """A corpus could not be fetched, verified or read; the message is one line with the way out."""


@dataclass(frozen=True)
class FileEntry:
    """One file of a corpus: where it comes from and how to know that it is the right one.

    Args:
        corpus: name of the corpus that the file belongs to.
        name: file name.
        urls: addresses tried in this order; all must serve the same bytes.
        bytes: exact size in bytes.
        sha256: SHA-256 of the file, 64 lower-case hex digits.
        licence: licence of the contents, in words.
        mirror_path: relative path with `/`, the same in a mirror folder and in the data home.
        citation: whom to name when the corpus is used.
        unpack_to: for an archive, the folder (relative to the data home) that it unpacks into.
    """

    corpus: str
    name: str
    urls: tuple[str, ...]
    bytes: int
    sha256: str
    licence: str
    mirror_path: str
    citation: str = ""
    unpack_to: str | None = None

    def __post_init__(self) -> None:
        where = f"manifest entry {self.corpus}/{self.name}"
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise DataError(f"{where}: sha256 {self.sha256!r} is not 64 lower-case hex digits")
        if self.bytes <= 0:
            raise DataError(f"{where}: bytes is {self.bytes}, it must be positive")
        for url in self.urls:
            if not url.startswith(("https://", "http://")):
                raise DataError(f"{where}: URL {url!r} is neither https nor http")
        for path in (self.mirror_path, self.unpack_to):
            if path is not None and not is_safe_relative(path):
                raise DataError(f"{where}: path {path!r} must be relative, without '..'")


@dataclass(frozen=True)
class CorpusEntry:
    """A corpus of the manifest: its description, terms and files."""

    name: str
    description: str
    licence: str
    citation: str
    files: tuple[FileEntry, ...]


def is_safe_relative(path: str) -> bool:
    """Say whether a path with `/` stays below the folder it is joined to, on every platform."""
    # A backslash or a colon is an ordinary character on Linux, but a separator or drive on Windows.
    if not path or "\\" in path or ":" in path or "\0" in path:
        return False
    pure = PurePosixPath(path)
    return not pure.is_absolute() and ".." not in pure.parts and pure.parts != ()


def parse_manifest(text: str) -> dict[str, CorpusEntry]:
    """Read a manifest from JSON text.

    Args:
        text: the manifest, `{"format": 1, "corpora": {name: {..., "files": [...]}}}`.

    Returns:
        Corpus entries by name, in the order of the file.

    Raises:
        DataError: for another format number, a missing or unknown field, or a bad value.
    """
    raw = json.loads(text)
    if raw.get("format") != FORMAT:
        raise DataError(f"manifest format {raw.get('format')!r} is unknown; this reads {FORMAT}")
    return {name: _corpus(name, fields) for name, fields in raw["corpora"].items()}


def _corpus(name: str, fields: dict[str, Any]) -> CorpusEntry:
    try:
        terms = {"licence": fields["licence"], "citation": fields["citation"]}
        files = tuple(
            FileEntry(corpus=name, **terms, **{**item, "urls": tuple(item["urls"])})
            for item in fields["files"]
        )
        return CorpusEntry(name=name, description=fields["description"], files=files, **terms)
    except (KeyError, TypeError) as error:
        raise DataError(
            f"manifest corpus {name!r} has a missing or unknown field: {error}"
        ) from None


@cache
def manifest() -> dict[str, CorpusEntry]:
    """Return the packaged manifest: corpus entries by name."""
    text = resources.files(__package__).joinpath("manifest.json").read_text(encoding="utf-8")
    return parse_manifest(text)
