"""Folders that one run at a time writes to, and errors of the system told by their number."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NO_ROOM", "FolderInUse", "explain", "locked"]

_WHY = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would pass the size limit (ulimit -f)",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "this user may not do that there",
    errno.EPERM: "this user may not do that there",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EEXIST: "there is a file where a folder must be",
    errno.EISDIR: "there is a folder of that name",
    errno.ENOENT: "there is no such file or folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EMFILE: "too many files are open (ulimit -n)",
    errno.ENOSYS: "the file system has no locks",
    errno.ENOLCK: "the file system gives no lock",
    errno.EIO: "the disk reports an input or output error",
}

# The whole run meets these, not one cell: nothing more can be written.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


class FolderInUse(OSError):
    """Another run holds the folder."""


def explain(error: OSError, path: Path | str | None = None) -> str:
    """Return one line: which file, what the system said, by its number and not by a guess.

    Args:
        error: as it was caught.
        path: what was being written or read, where the error does not say.
    """
    where = error.filename or path
    said, number = error.strerror, error.errno or 0
    if not where and said and said != os.strerror(number):
        why = said  # words of the library that raised it say more than the number alone
    else:
        why = _WHY.get(number) or said or str(error) or type(error).__name__
    name = errno.errorcode.get(error.errno or 0)
    return (f"{where}: " if where else "") + why + (f" ({name})" if name else "")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second run out of a folder; the system frees the lock even after a kill.

    Raises:
        FolderInUse: another run writes there.
        OSError: the folder cannot be made or locked; its errno says why.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        _refuse_if_unlockable(folder / ".lock")
        raise FolderInUse(
            f"another run is writing to {folder}; wait for it or give another folder"
        ) from None
    except NotImplementedError as error:
        raise OSError(errno.ENOSYS, str(error), str(folder)) from None
    try:
        yield
    finally:
        lock.release()


def _refuse_if_unlockable(path: Path) -> None:
    """Raise what the system says of a lock, unless it says that another process has it.

    Older versions of filelock wait in the same way for a lock that is taken and for one that the
    file system does not give.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return
    with open(path, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK):
                raise OSError(error.errno, error.strerror, str(path)) from None
