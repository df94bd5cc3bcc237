"""Folders that one run at a time writes to, and errors of the system told by their number."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

__all__ = ["FolderInUse", "explain", "locked", "one_at_a_time"]

Args = ParamSpec("Args")
Value = TypeVar("Value")

_WHY = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would pass the size limit (ulimit -f)",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "this user may not do that there",
    errno.EPERM: "this user may not do that there",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "there is a folder of that name",
    errno.ENOENT: "there is no such file or folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EMFILE: "too many files are open (ulimit -n)",
    errno.ENOSYS: "the file system has no locks",
    errno.ENOLCK: "the file system gives no lock",
    errno.EIO: "the disk reports an input or output error",
}


class FolderInUse(OSError):
    """Another run holds the folder."""


def explain(error: OSError, path: Path | str | None = None) -> str:
    """Return one line: which file, what the system said, by its number and not by a guess.

    Args:
        error: as it was caught.
        path: what was being written or read, where the error does not say.
    """
    where = error.filename or path
    why = _WHY.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__
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
        raise FolderInUse(
            f"another run is writing to {folder}; wait for it or give another folder"
        ) from None
    except NotImplementedError as error:
        raise OSError(errno.ENOSYS, str(error), str(folder)) from None
    try:
        yield
    finally:
        lock.release()


def one_at_a_time(function: Callable[Args, Value]) -> Callable[Args, Value]:
    """Let a function with the keyword ``out`` hold the lock of that folder while it runs."""

    @functools.wraps(function)
    def alone(*args: Args.args, **kwargs: Args.kwargs) -> Value:
        out = kwargs.get("out")
        if out is None:
            return function(*args, **kwargs)
        with locked(Path(str(out))):
            return function(*args, **kwargs)

    return alone
