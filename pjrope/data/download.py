"""Fetching one corpus file from a mirror folder or a URL, checked before it counts."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pjrope.data.manifest import DataError, FileEntry
from pjrope.data.transfer import grow

MIRROR_VARIABLE = "PJROPE_DATA_MIRROR"


def fetch(
    entry: FileEntry,
    destination: str | Path,
    *,
    mirror: str | Path | None = None,
    progress: bool = True,
) -> Path:
    """Bring one corpus file to `destination`, with the size and SHA-256 that its entry states.

    A good copy already there is kept and nothing is fetched. The file grows beside its target as
    `NAME.part` and takes its name only once it is verified, so a bad source never costs a good
    copy. A broken download goes on where it stopped at the next call.

    Args:
        entry: what to fetch.
        destination: path of the file to write.
        mirror: folder laid out like the data home; default `$PJROPE_DATA_MIRROR`, else the URLs.
            A mirror named here is checked even when a good copy exists.
        progress: show a bar when the transfer takes longer than five seconds.

    Returns:
        The path of the verified file.

    Raises:
        DataError: for 403, 404, no network, a short, long or altered file, a full disk.

    Limits:
        Two processes that download the same file from a URL at once disturb each other's `.part`
        file; the hash check notices and the call fails.
    """
    destination = Path(destination)
    source = _mirror_file(entry, mirror)
    with _local_errors(destination):
        have_good = destination.is_file() and problem(entry, destination) is None
        if source is not None and (mirror is not None or not have_good):
            _refuse_bad_mirror(entry, source, destination if have_good else None)
        if have_good:
            return destination
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source is not None:
            _copy(entry, source, destination)
        else:
            part = destination.with_name(destination.name + ".part")
            _download(entry, part, destination, progress)
            os.replace(part, destination)
    return destination


def problem(entry: FileEntry, path: Path) -> str | None:
    """Say in words how a file differs from its entry, or return None when it is the right one."""
    size = path.stat().st_size
    if size != entry.bytes:
        word = "short" if size < entry.bytes else "long"
        return f"too {word}: {size:,} bytes, expected {entry.bytes:,}"
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != entry.sha256:
        return f"altered: sha256 {digest[:12]}…, expected {entry.sha256[:12]}…"
    return None


def _mirror_file(entry: FileEntry, mirror: str | Path | None) -> Path | None:
    folder = mirror or os.environ.get(MIRROR_VARIABLE)
    return Path(folder).expanduser() / entry.mirror_path if folder else None


def _refuse_bad_mirror(entry: FileEntry, source: Path, kept: Path | None) -> None:
    fate = f"; the good copy {kept} is kept" if kept else ""
    if not source.is_file():
        raise DataError(
            f"mirror has no file {source}{fate}; name a folder that holds {entry.mirror_path}, "
            f"or leave --mirror and ${MIRROR_VARIABLE} out to download"
        )
    if wrong := problem(entry, source):
        raise DataError(f"mirror file {source} refused, {wrong}{fate}; use another mirror")


def _copy(entry: FileEntry, source: Path, destination: Path) -> None:
    # A copy is never resumed, so its name can carry the process id: parallel runs do not collide.
    part = destination.with_name(f"{destination.name}.{os.getpid()}.part")
    try:
        shutil.copyfile(source, part)
        if wrong := problem(entry, part):
            raise DataError(f"copy of {source} refused, {wrong}; check the disk and run again")
        os.replace(part, destination)
    finally:
        part.unlink(missing_ok=True)


def _download(entry: FileEntry, part: Path, destination: Path, progress: bool) -> None:
    failures = []
    for url in entry.urls:
        try:
            return _download_url(entry, url, part, progress)
        except DataError as error:
            failures.append(str(error))
    told = "; ".join(failures) or "no URL is known"
    raise DataError(
        f"{entry.corpus}: {told}. Way out: put the file at {destination} yourself, or name a folder "
        f"that holds {entry.mirror_path} with --mirror DIR or ${MIRROR_VARIABLE}"
    )


def _download_url(entry: FileEntry, url: str, part: Path, progress: bool) -> None:
    resumed = grow(part, url, size=entry.bytes, label=entry.name, progress=progress)
    wrong = problem(entry, part)
    if wrong and resumed:
        # The kept beginning may belong to another version of the file: once more from zero.
        part.unlink()
        grow(part, url, size=entry.bytes, label=entry.name, progress=progress)
        wrong = problem(entry, part)
    if wrong:
        part.unlink()
        raise DataError(f"{url} refused, {wrong}")


@contextmanager
def _local_errors(destination: Path) -> Iterator[None]:
    """Turn what the file system says into one line; network errors never reach this point."""
    try:
        yield
    except OSError as error:
        place = error.filename or destination
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(
                f"disk full while writing {place}; free some space and run again"
            ) from None
        raise DataError(
            f"cannot use {place}: {error.strerror or error}; choose another folder"
        ) from None
