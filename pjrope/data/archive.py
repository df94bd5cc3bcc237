"""Reading named members of a downloaded zip or tar archive."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO

from pjrope.data.manifest import DataError

_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    RuntimeError,
)


def take_members(
    archive: str | Path, names: Collection[str], take: Callable[[str, IO[bytes]], None]
) -> None:
    """Hand the named members of an archive over, one after the other, in the archive's order.

    The caller decides where they are written, so no name in the archive can lead anywhere.

    Args:
        archive: path of a .zip, .tar, .tar.gz, .tar.bz2 or .tar.xz file, told by its contents.
        names: names of members; a leading `./` in the archive does not matter.
        take: called with the name and the stream of each, which it reads.

    Raises:
        DataError: for a damaged archive, another kind of file, or a member that is no plain file
            or not there.
    """
    archive, missing = Path(archive), set(names)
    try:
        for name, stream in _all(archive, frozenset(names)):
            missing.discard(name)
            with stream:
                take(name, stream)
    except _DAMAGE as error:
        raise DataError(f"{archive} is damaged ({error}); delete it and fetch it again") from error
    if missing:
        raise DataError(f"{archive} has no file {min(missing)!r}; it is another archive")


def _all(archive: Path, names: frozenset[str]) -> Iterator[tuple[str, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if info.filename.removeprefix("./") in names:
                    yield info.filename.removeprefix("./"), zipped.open(info)
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                stream = tar.extractfile(member) if name in names and member.isreg() else None
                if stream is not None:
                    yield name, stream
            # The checksum of a compressed tar stands behind the last member: read to the very end.
            while tar.fileobj is not None and tar.fileobj.read(1 << 16):
                pass
    else:
        raise DataError(f"{archive} is neither a zip nor a tar archive; delete it and fetch again")
