"""Where corpora live on this machine."""

from __future__ import annotations

import os
import tomllib
from argparse import ArgumentTypeError
from pathlib import Path

from platformdirs import user_cache_path

from pjrope.data.manifest import DataError

HOME_VARIABLE = "PJROPE_DATA"


def data_home() -> Path:
    """Return the folder that holds the corpora, without creating it.

    The first of: `$PJROPE_DATA`; `data/` in a checkout of the project; `pjrope/data` in the
    user's cache (`$XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`).

    Returns:
        An absolute path, laid out like a mirror folder (`tiny_shakespeare/input.txt`).

    Raises:
        DataError: when the folder cannot be told: `~name` of nobody, or no home folder at all.
    """
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return folder(chosen, f"${HOME_VARIABLE}")
    root = Path(__file__).resolve().parents[2]
    if is_checkout(root):
        return root / "data"
    try:
        cache = user_cache_path("pjrope", appauthor=False)
    except RuntimeError:
        cache = Path("~")
    # Older versions of platformdirs return "~/.cache" as it stands for a user without a home.
    if cache.parts[0] == "~":
        raise DataError(
            f"this user has no home folder to keep corpora in; set ${HOME_VARIABLE} to a folder"
        )
    return cache / "data"


def folder(text: str | Path, source: str) -> Path:
    """Turn what a user wrote into an absolute path; `~` stands for the home folder.

    Args:
        text: the path as written.
        source: what it was given as, for the message: "--out" or a variable.

    Raises:
        DataError: for a home folder that does not exist, such as that of an unknown user.
    """
    return expanded(text, DataError, f"{source} is {str(text)!r}").absolute()


def expanded(path: str | Path, error: type[Exception], said: str | None = None) -> Path:
    """Turn a leading `~` into the home folder.

    Args:
        path: as the user wrote it.
        error: what is raised for a home folder that does not exist.
        said: how the message begins; default, with the path.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise error(
            f"{said or f'the path is {str(path)!r}'}, and that home folder is unknown; write the whole path"
        ) from None


def path_argument(text: str) -> Path:
    """Turn a word of a command line into a path, as a shell does where it sees the `~`."""
    return expanded(text, ArgumentTypeError)


def is_checkout(root: Path) -> bool:
    """Say whether `root` holds the project's own pyproject.toml (a wheel install does not)."""
    try:
        with open(root / "pyproject.toml", "rb") as file:
            return bool(tomllib.load(file).get("project", {}).get("name") == "pjrope")
    except (OSError, tomllib.TOMLDecodeError):
        return False
