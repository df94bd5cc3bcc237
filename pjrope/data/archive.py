"""Unpacking downloaded archives without letting them write outside their folder."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pjrope.data.manifest import DataError, is_safe_relative

_UNIX_TYPE_SHIFT = 16  # a zip written on Unix keeps st_mode in the upper half of external_attr
_TYPE_MASK, _REGULAR, _FOLDER = 0o170000, 0o100000, 0o040000


def extract(archive: str | Path, destination: str | Path) -> list[Path]:
    """Unpack a zip or tar archive below a folder; refuse the whole archive if one member is unsafe.

    Every member is checked before anything is written, and all are unpacked into a temporary
    folder first, so a damaged archive leaves the destination as it was.

    Args:
        archive: path of a .zip, .tar, .tar.gz, .tar.bz2 or .tar.xz file, told by its contents.
        destination: folder to unpack into; made if absent, files of the same name are replaced.

    Returns:
        The files written, in the archive's order.

    Raises:
        DataError: for an absolute name, a name with `..`, a link, a device, a damaged archive,
            or a destination that cannot be written.

    Limits:
        Permissions, owners and times are not restored. No bound on the unpacked size: use it on
        archives whose hash was checked.
    """
    archive, destination = Path(archive), Path(destination)
    try:
        with _open(archive) as members:
            destination.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(
                prefix=destination.name, suffix=".part", dir=destination.parent
            ) as staging:
                written = [_write(name, source, Path(staging)) for name, source in members]
                # A name may occur twice in an archive; the later member is the valid one.
                names = dict.fromkeys(written)
                return [_publish(Path(staging), name, destination) for name in names]
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{archive} is damaged ({error}); delete it and fetch it again") from error
    except OSError as error:
        raise DataError(f"cannot unpack {archive} into {destination}: {error}") from error


@contextmanager
def _open(archive: Path) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Open an archive and give (name, stream) of its regular files, all names checked before."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            infos = zipped.infolist()
            for info in infos:
                _check(archive, info.filename, _zip_kind(info))
            yield ((i.filename, zipped.open(i)) for i in infos if not i.is_dir())
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            members = tar.getmembers()
            for member in members:
                _check(archive, member.name, _tar_kind(member))
            yield _tar_files(tar, members)
    else:
        raise DataError(f"{archive} is neither a zip nor a tar archive; delete it and fetch again")


def _tar_files(
    tar: tarfile.TarFile, members: list[tarfile.TarInfo]
) -> Iterator[tuple[str, IO[bytes]]]:
    for member in members:
        stream = tar.extractfile(member) if member.isreg() else None
        if stream is not None:
            yield member.name, stream
    # The checksum of a compressed tar stands behind the last member, so read to the very end.
    if tar.fileobj is not None:
        while tar.fileobj.read(1 << 16):
            pass


def _zip_kind(info: zipfile.ZipInfo) -> str:
    kind = (info.external_attr >> _UNIX_TYPE_SHIFT) & _TYPE_MASK
    return "" if kind in (0, _REGULAR, _FOLDER) else "a link or special file"


def _tar_kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return "a link"
    return "" if member.isreg() or member.isdir() else "a special file"


def _check(archive: Path, name: str, kind: str) -> None:
    # "./" is how `tar -C folder .` names the folder itself; it leads nowhere.
    if not is_safe_relative(name) and name not in (".", "./"):
        raise DataError(f"{archive} refused: member {name!r} would be written outside the folder")
    if kind:
        raise DataError(f"{archive} refused: member {name!r} is {kind}, only plain files may come")


def _write(name: str, source: IO[bytes], staging: Path) -> str:
    target = staging / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with source, open(target, "wb") as out:
        shutil.copyfileobj(source, out)
    return name


def _publish(staging: Path, name: str, destination: Path) -> Path:
    target = destination / name
    target.parent.mkdir(parents=True, exist_ok=True)
    # A link already lying in the destination could lead out of it.
    if not target.parent.resolve().is_relative_to(destination.resolve()):
        raise DataError(f"{target} leads outside {destination} through a link; remove that link")
    (staging / name).replace(target)
    return target
