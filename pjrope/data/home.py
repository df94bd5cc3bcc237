"""Where corpora live on this machine."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path


def data_home() -> Path:
    """Return the folder that holds the corpora, without creating it.

    The first of: `$PJROPE_DATA`; `data/` in a checkout of the project; `pjrope/data` in the
    user's cache (`$XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`).

    Returns:
        An absolute path, laid out like a mirror folder (`tiny_shakespeare/input.txt`).
    """
    chosen = os.environ.get("PJROPE_DATA")
    if chosen:
        return Path(chosen).expanduser().absolute()
    root = Path(__file__).resolve().parents[2]
    if is_checkout(root):
        return root / "data"
    return user_cache() / "pjrope" / "data"


def is_checkout(root: Path) -> bool:
    """Say whether `root` holds the project's own pyproject.toml (a wheel install does not)."""
    try:
        with open(root / "pyproject.toml", "rb") as file:
            return bool(tomllib.load(file).get("project", {}).get("name") == "pjrope")
    except (OSError, tomllib.TOMLDecodeError):
        return False


def user_cache(platform: str = sys.platform) -> Path:
    """Return the platform's folder for per-user caches."""
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    # The XDG rules say that a relative value is to be ignored.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return xdg if xdg.is_absolute() else Path.home() / ".cache"
