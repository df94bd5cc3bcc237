"""Make a release: a commit with the version, and a tag whose chapters install that tag.

    python book/_tools/release.py VERSION           commit and tag, here
    python book/_tools/release.py VERSION --push    the same, push both to origin, publish the PDF

The branch keeps installing itself. Only the tagged commit, which is on no branch, is pinned: a
chapter opened from a release must not meet a package that is newer than its text.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from checks import colab_source, published_url

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = {
    "pyproject.toml": r'(?m)^(version = ")[^"]+(")',
    "pjrope/__init__.py": r'(?m)^(__version__ = ")[^"]+(")',
    "CITATION.cff": r"(?m)^(version: )\S+()",
}
SORTS = ("Added", "Changed", "Fixed")
PDF = "_build/latex/book.pdf"


def unreleased(changelog: str) -> str:
    """The part of the changelog that a release takes.

    Raises:
        ValueError: no section of that name on top, or one without an entry.
    """
    found = re.search(r"(?ms)^## Unreleased$(.*?)(?=^## |\Z)", changelog)
    if not found or changelog.index("\n## ") + 1 != found.start():
        raise ValueError("CHANGELOG.md: '## Unreleased' must be its first section")
    if not re.search(r"(?m)^- ", found[1]):
        raise ValueError("CHANGELOG.md: nothing under '## Unreleased', so nothing to release")
    return found[1]


def edit(path: Path, pattern: str, put: str) -> None:
    """Replace the one place in a file.

    Raises:
        ValueError: the pattern is not found exactly once.
    """
    text, count = re.subn(pattern, put, path.read_text(encoding="utf8"))
    if count != 1:
        raise ValueError(f"{path.name}: {count} places match {pattern!r}, 1 is needed")
    path.write_text(text, encoding="utf8")


def set_version(root: Path, version: str, day: str) -> None:
    """Write the version where it is kept, and date the changelog."""
    unreleased((root / "CHANGELOG.md").read_text(encoding="utf8"))
    edit(root / "CHANGELOG.md", r"(?m)^## Unreleased$", f"## Unreleased\n\n## {version}, {day}")
    for name, pattern in VERSIONS.items():
        edit(root / name, pattern, rf"\g<1>{version}\g<2>")


def pin(root: Path, tag: str) -> None:
    """Have Colab open, and chapters install, the tag instead of main."""
    url = published_url(root)
    edit(root / "_config.yml", r"(?m)^(  branch: )main$", rf"\g<1>{tag}")
    readme = root / "README.md"
    readme.write_text(readme.read_text(encoding="utf8").replace("/blob/main/", f"/blob/{tag}/"))
    old, new = colab_source(url), colab_source(url, tag)
    for path in sorted((root / "book" / "chapters").glob("ch*.*")):
        # A notebook keeps its source as JSON, where quotes are escaped.
        a, b = (old, new) if path.suffix == ".md" else (quoted(old), quoted(new))
        text = path.read_text(encoding="utf8")
        if text.count(a) != 1:
            raise ValueError(f"{path.name}: its Colab cell does not install main")
        path.write_text(text.replace(a, b), encoding="utf8")


def quoted(text: str) -> str:
    return text.replace('"', '\\"')


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"git {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def release(root: Path, version: str, push: bool = False) -> str:
    """Commit the version on the branch, tag a pinned child of it, and return the tag.

    Raises:
        ValueError: a version that is not X.Y.Z, a tree with changes, a tag that exists, or a file
            that is not as expected; the branch is then as it was.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"version is {version!r}: X.Y.Z is needed, as in 0.2.0")
    tag = f"v{version}"
    if git(root, "status", "--porcelain"):
        raise ValueError("the tree has changes: commit or stash them first")
    if git(root, "tag", "--list", tag):
        raise ValueError(f"tag {tag} exists: choose the next version")
    branch, start = git(root, "branch", "--show-current"), git(root, "rev-parse", "HEAD")
    try:
        set_version(root, version, datetime.now(UTC).date().isoformat())
        git(root, "commit", "--all", "--message", f"Version {version}")
        git(root, "checkout", "--quiet", "--detach")
        pin(root, tag)
        git(root, "commit", "--all", "--message", f"Chapters of {version} install {version}")
        git(root, "tag", "--annotate", tag, "--message", f"pjrope {version}")
    except ValueError:
        git(root, "reset", "--quiet", "--hard", start)
        git(root, "checkout", "--quiet", "-B", branch, start)
        raise
    git(root, "checkout", "--quiet", branch)
    if push:
        git(root, "push", "--quiet", "origin", branch, tag)
    return tag


def publish(root: Path, version: str) -> str:
    """Release, push, and make a page on GitHub with the changes and the PDF of the book.

    Raises:
        ValueError: as `release`; no PDF or no gh, before anything is changed; gh failed.
    """
    if not (root / PDF).is_file():
        raise ValueError(f"no {PDF}: `make pdf` makes it")
    if shutil.which("gh") is None:
        raise ValueError("no gh: install GitHub's command, or leave --push away")
    notes = unreleased((root / "CHANGELOG.md").read_text(encoding="utf8"))
    tag = release(root, version, push=True)
    words = [
        "gh",
        "release",
        "create",
        tag,
        PDF,
        "--title",
        f"pjrope {version}",
        "--notes-file",
        "-",
    ]
    done = subprocess.run(words, cwd=root, input=notes, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{tag} is pushed, its page is not made: {done.stderr.strip()}")
    return tag


def main(arguments: list[str], root: Path = ROOT) -> int:
    match arguments:
        case [version]:
            print("tagged", release(root, version))
        case [version, "--push"]:
            print("published", publish(root, version))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        sys.exit(str(error))
