"""What the book's tests share: where the parts lie, the book's own tools, one browser."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_tools"))


def chromium() -> str | None:
    """Path of an installed Chromium or Chrome; nothing is downloaded."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = [os.environ.get("PJROPE_CHROMIUM"), *map(shutil.which, names)]
    return next((path for path in found if path), None)


def lacking(why: str) -> None:
    """Skips a test here and fails it where everything is meant to be present."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium that can resolve no name."""
    path = chromium()
    if path is None:
        lacking("no Chromium: install one or set PJROPE_CHROMIUM; pages were not looked at")
    from playwright.sync_api import sync_playwright

    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ]
    with sync_playwright() as play:
        chrome = play.chromium.launch(executable_path=path, args=flags)
        yield chrome
        chrome.close()
