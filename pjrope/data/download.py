"""Fetching corpus files from a mirror folder or the network, checked before they count."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import FileLock

from pjrope.data.archive import take_members
from pjrope.data.checks import note, problem
from pjrope.data.home import folder
from pjrope.data.manifest import DataError, FileEntry
from pjrope.data.transfer import grow

MIRROR_VARIABLE = "PJROPE_DATA_MIRROR"
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def fetch(
    entry: FileEntry, home: str | Path, *, mirror: str | Path | None = None, progress: bool = True
) -> Path:
    """Bring one corpus file into the data home, as `fetch_all` does.

    Returns:
        The path of the verified file.

    Raises:
        DataError: when it cannot be had, even if the entry is optional.
    """
    missing = fetch_all((entry,), home, mirror=mirror, progress=progress)
    for reason in missing.values():
        raise DataError(reason)
    return Path(home) / entry.mirror_path


def fetch_all(
    entries: Iterable[FileEntry],
    home: str | Path,
    *,
    mirror: str | Path | None = None,
    progress: bool = True,
) -> dict[FileEntry, str]:
    """Bring corpus files into the data home, each checked against its entry.

    A good copy already there is kept and nothing is fetched. A file grows beside its target as
    `NAME.part` and takes its name only once it is verified, so a bad source never costs a good
    copy. A broken download goes on where it stopped at the next call; a second process that wants
    the same file waits for the first. Archives are opened once
    for all the files that come from them, and stay in the data home.

    Args:
        entries: what to fetch.
        home: the data home.
        mirror: folder laid out like the data home; default `$PJROPE_DATA_MIRROR`, else the URLs.
            A mirror named here is checked even when a good copy exists.
        progress: show a bar when a transfer takes longer than five seconds.

    Returns:
        The optional files that could not be had, each with the reason.

    Raises:
        DataError: for 403, 404, no network, a short, long or altered file, a full disk.
    """
    home = Path(home)
    missing: dict[FileEntry, str] = {}
    waiting: dict[FileEntry, dict[FileEntry, str]] = {}
    for entry in entries:
        reason = _fetch_alone(entry, home, mirror, progress)
        if reason and entry.archive is not None:
            waiting.setdefault(entry.archive, {})[entry] = reason
        elif reason:
            missing[entry] = reason
    for archive, reasons in waiting.items():
        source = _mirror_file(archive, mirror)
        failure = None
        if source is None:
            failure = _fetch_alone(archive, home, None, progress)
            source = home / archive.mirror_path
        elif not source.is_file():
            failure = ""  # the mirror's lack of the file itself is the news
        elif wrong := problem(archive, source):
            failure = f"mirror file {source} refused, {wrong}; use another mirror"
        if failure is None:
            with _local_errors(home):
                _unpack(source, {entry.member: entry for entry in reasons}, home)
        else:
            missing.update({entry: failure or reason for entry, reason in reasons.items()})
    for entry, reason in missing.items():
        if not entry.optional:
            raise DataError(reason)
    return missing


def _fetch_alone(
    entry: FileEntry, home: Path, mirror: str | Path | None, progress: bool
) -> str | None:
    """Fetch a file without its archive; return why it is not there, or None when it is."""
    destination = home / entry.mirror_path
    source = _mirror_file(entry, mirror)
    with _local_errors(destination):
        have_good = destination.is_file() and problem(entry, destination) is None
        if source is not None and (mirror is not None or not have_good):
            kept = f"; the good copy {destination} is kept" if have_good else ""
            if not source.is_file() or not _can_be_checked(entry):
                if have_good and entry.archive is not None:
                    return None
                return (
                    f"mirror has no file {source}{kept}; name a folder that holds "
                    f"{entry.mirror_path}, or leave --mirror and ${MIRROR_VARIABLE} out to download"
                )
            if wrong := problem(entry, source):
                return f"mirror file {source} refused, {wrong}{kept}; use another mirror"
        if have_good:
            return None
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source is not None:
            with open(source, "rb") as stream:
                _copy(entry, stream, str(source), destination, verify=True)
            return None
        return _download(entry, destination, progress)


def _can_be_checked(entry: FileEntry) -> bool:
    return bool(entry.sha256 or entry.sha1 or entry.body or entry.seen)


def _mirror_file(entry: FileEntry, mirror: str | Path | None) -> Path | None:
    chosen = mirror or os.environ.get(MIRROR_VARIABLE)
    source = "--mirror" if mirror else f"${MIRROR_VARIABLE}"
    return folder(chosen, source) / entry.mirror_path if chosen else None


def _unpack(archive: Path, wanted: dict[str, FileEntry], home: Path) -> None:
    def take(name: str, stream: IO[bytes]) -> None:
        destination = home / wanted[name].mirror_path
        destination.parent.mkdir(parents=True, exist_ok=True)
        entry = wanted[name]
        published = bool(entry.sha256 or entry.sha1)
        _copy(entry, stream, f"{name} in {archive}", destination, verify=published)

    take_members(archive, wanted, take)


def _copy(
    entry: FileEntry, source: IO[bytes], label: str, destination: Path, *, verify: bool
) -> None:
    # A copy is never resumed, so its name can carry the process id: parallel runs do not collide.
    part = destination.with_name(f"{destination.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as out:
            shutil.copyfileobj(source, out)
        if verify:
            if wrong := problem(entry, part):
                raise DataError(f"copy of {label} refused, {wrong}; check the disk and run again")
        else:
            note(part)
            os.replace(f"{part}.sha256", f"{destination}.sha256")
        os.replace(part, destination)
    finally:
        part.unlink(missing_ok=True)


def _download(entry: FileEntry, destination: Path, progress: bool) -> str | None:
    part = destination.with_name(destination.name + ".part")
    failures = []
    for url in entry.urls:
        try:
            with _alone(part):
                if not destination.is_file() or problem(entry, destination):
                    _download_url(entry, url, part, progress)
                    os.replace(part, destination)
        except DataError as error:
            failures.append(str(error))
        else:
            return None
    told = "; ".join(failures) or "no URL is known"
    return (
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
def _alone(part: Path) -> Iterator[None]:
    """Let one process at a time write a `.part` file."""
    lock = FileLock(f"{part}.lock")
    try:
        lock.acquire()
    except (NotImplementedError, OSError) as error:
        # Some network folders know no locks. Two writers at once are then told by the hash check.
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        lock.release()
        # Whoever still waits for the removed file may start beside a third: the hash check tells.
        Path(lock.lock_file).unlink(missing_ok=True)


@contextmanager
def _local_errors(destination: Path) -> Iterator[None]:
    """Turn what the file system says into one line; network errors never reach this point."""
    try:
        yield
    except OSError as error:
        place = error.filename or destination
        raise DataError(f"{_advice(error, place)}") from None


def _advice(error: OSError, place: object) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"disk full while writing {place}; free some space and run again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"cannot use {place}: no permission ({error.strerror}); choose another folder"
    return f"cannot use {place}: {error.strerror or error}; choose another folder"
