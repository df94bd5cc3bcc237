"""What can be downloaded: one checked entry per corpus file, read from `manifest.json`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

FORMAT = 2
READERS = ("bytes", "hf_rows", "body", "pieces")


class DataError(Exception):
    """A corpus that cannot be had or is not what it should be; its message is one line."""


@dataclass(frozen=True)
class Body:
    """The part of a text that every edition of the file shares.

    Args:
        start: first words of the part, taken where they occur first.
        end: last words of the part, taken where they occur last.
        characters: its length in the known edition.
        sha256: of the known edition, UTF-8 with LF line ends.
    """

    start: str
    end: str
    characters: int
    sha256: str


@dataclass(frozen=True)
class FileEntry:
    """One file of a corpus: where it is, how it is checked and under which terms it stands.

    Args:
        corpus: name of the corpus that it belongs to.
        name: file name, for messages.
        urls: http(s) addresses, tried in this order; may be empty when there is an archive.
        bytes: size in bytes; None where none is published.
        licence: terms of the file.
        mirror_path: relative path below the data home and below a mirror folder.
        sha256: SHA-256 in lower-case hex; None where another check takes its place.
        sha1: SHA-1 in lower-case hex, for files whose SHA-256 nobody has published.
        split: "train", "validation" or "test"; empty where the file holds the whole corpus.
        citation: how to cite the file.
        archive: a zip or tar archive that holds the file as `member`, where it has no address of
            its own or that fails.
        member: name of the file in the archive.
        optional: True when a corpus without this file is still of use.
        body: how to check a text whose file hash changes with every edition.
        seen: SHA-256 of the copy that was examined, where nobody has published one: a mirror's
            file must have it, a member of a verified archive need not.

    Raises:
        DataError: when a field is malformed, or a path would leave the folder it is joined to.
    """

    corpus: str
    name: str
    urls: tuple[str, ...]
    bytes: int | None
    licence: str
    mirror_path: str
    sha256: str | None = None
    sha1: str | None = None
    split: str = ""
    citation: str = ""
    archive: FileEntry | None = None
    member: str = ""
    optional: bool = False
    body: Body | None = None
    seen: str | None = None

    def __post_init__(self) -> None:
        where = f"manifest entry {self.corpus}/{self.name}"
        if self.sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise DataError(f"{where}: sha256 {self.sha256!r} is not 64 lower-case hex digits")
        if self.sha1 is not None and not re.fullmatch(r"[0-9a-f]{40}", self.sha1):
            raise DataError(f"{where}: sha1 {self.sha1!r} is not 40 lower-case hex digits")
        if not (self.sha256 or self.sha1 or self.body or self.archive):
            raise DataError(f"{where}: nothing to check it by; give sha256, sha1, body or archive")
        if self.bytes is not None and self.bytes <= 0:
            raise DataError(f"{where}: bytes is {self.bytes}, it must be positive")
        for url in self.urls:
            if not url.startswith(("https://", "http://")):
                raise DataError(f"{where}: URL {url!r} is neither https nor http")
        if not is_safe_relative(self.mirror_path):
            raise DataError(f"{where}: path {self.mirror_path!r} must be relative, without '..'")


@dataclass(frozen=True)
class CorpusEntry:
    """A corpus of the manifest: its description, terms and files.

    Args:
        name: name of the corpus.
        description: one sentence, the byte stream included.
        licence: terms of the corpus.
        citation: how to cite it.
        files: its files; with more than one, each has a split.
        reader: "bytes" (the file as it is), "hf_rows" (the rows of the Hugging Face data set
            joined with line feeds), "body" (the part that `FileEntry.body` names) or "pieces" (a set
            of MIDI files with a table of them first, see `pjrope.data.music`).
    """

    name: str
    description: str
    licence: str
    citation: str
    files: tuple[FileEntry, ...]
    reader: str = "bytes"


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
        text: the manifest, `{"format": 2, "archives": {...}, "files": {...}, "corpora": {name:
            {..., "files": [...]}}}`; a file is an object, or the name of one under "files".

    Returns:
        Corpus entries by name, in the order of the file.

    Raises:
        DataError: for another format number, a missing or unknown field, or a bad value.
    """
    raw = json.loads(text)
    if raw.get("format") != FORMAT:
        raise DataError(f"manifest format {raw.get('format')!r} is unknown; this reads {FORMAT}")
    shared = {"archives": raw.get("archives", {}), "files": raw.get("files", {})}
    return {name: _corpus(name, fields, shared) for name, fields in raw["corpora"].items()}


def _corpus(name: str, fields: dict[str, Any], shared: dict[str, dict[str, Any]]) -> CorpusEntry:
    try:
        terms: dict[str, Any] = {"licence": fields["licence"], "citation": fields["citation"]}
        reader = fields.get("reader", "bytes")
        if reader not in READERS:
            raise DataError(f"manifest corpus {name!r}: reader {reader!r} is none of {READERS}")
        items = [*fields["files"], *_pieces(fields.get("pieces"))]
        files = tuple(_file(name, item, terms, shared) for item in items)
        told = {"description": fields["description"], "reader": reader}
        return CorpusEntry(name=name, files=files, **told, **terms)
    except (KeyError, TypeError) as error:
        raise DataError(
            f"manifest corpus {name!r} has a missing or unknown field: {error}"
        ) from None


def _pieces(fields: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Turn a packaged list of hashes into entries: optional files, one for each piece of music."""
    if fields is None:
        return []
    text = resources.files(__package__).joinpath(fields["list"]).read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return [
        {
            "name": path.rpartition("/")[2],
            "split": "" if split == "-" else split,
            "urls": (),
            "bytes": None,
            "sha256" if fields["published"] else "seen": digest,
            "mirror_path": fields["folder"] + path,
            "archive": fields["archive"],
            "member": fields["inside"] + path,
            "optional": True,
        }
        for digest, split, path in lines
    ]


def _file(
    corpus: str, item: str | dict[str, Any], terms: dict[str, Any], shared: dict[str, Any]
) -> FileEntry:
    fields = dict(shared["files"][item] if isinstance(item, str) else item)
    if "archive" in fields:
        outer = shared["archives"][fields["archive"]]
        urls = tuple(outer["urls"])
        fields["archive"] = FileEntry(corpus=corpus, **terms, **{**outer, "urls": urls})
    if "body" in fields:
        fields["body"] = Body(**fields["body"])
    return FileEntry(corpus=corpus, **terms, **{**fields, "urls": tuple(fields["urls"])})


@cache
def manifest() -> dict[str, CorpusEntry]:
    """Return the packaged manifest: corpus entries by name."""
    text = resources.files(__package__).joinpath("manifest.json").read_text(encoding="utf-8")
    return parse_manifest(text)
