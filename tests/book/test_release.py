"""A release in a small repository with a remote: what is committed, tagged, pinned and pushed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import chapters
import checks
import pytest
import release
from test_chapters import URL, good_cells, write

CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 0.1.0, 2026-01-01\n\n- First.\n"
)
LINK = f"https://colab.research.google.com/github{URL.removeprefix('https://github.com')}/blob/main/book/chapters/ch01_small.ipynb"


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "work"
    cells = good_cells()
    cells[1]["source"] = checks.colab_cell(URL)
    write(root / "book" / "chapters", cells)
    files = {
        "CHANGELOG.md": CHANGELOG,
        "pyproject.toml": f'version = "0.1.0"\nRepository = "{URL}"\n',
        "pjrope/__init__.py": '__version__ = "0.1.0"\n',
        "CITATION.cff": f"cff-version: 1.2.0\nversion: 0.1.0\nrepository-code: {URL}\n",
        "_config.yml": f"repository:\n  url: {URL}\n  branch: main\n",
        "README.md": f"[Colab]({LINK})\n",
        "book/_toc.yml": "root: index\nparts:\n  - chapters:\n      - file: chapters/ch01_small.ipynb\n",
        "book/index.md": "# Book\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(tmp_path, "init", "--quiet", "--bare", "remote")
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "A")
    git(root, "config", "user.email", "a@example.org")
    git(root, "remote", "add", "origin", str(tmp_path / "remote"))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "First")
    return root


def test_the_tag_is_pinned_and_the_branch_is_not(repository):
    assert release.release(repository, "0.2.0", push=True) == "v0.2.0"
    assert git(repository, "branch", "--show-current") == "main"
    assert '"0.2.0"' in (repository / "pyproject.toml").read_text()
    assert '"0.2.0"' in (repository / "pjrope" / "__init__.py").read_text()
    cited = (repository / "CITATION.cff").read_text()
    assert "\nversion: 0.2.0\n" in cited and "cff-version: 1.2.0" in cited
    changes = (repository / "CHANGELOG.md").read_text()
    assert changes.index("## Unreleased") < changes.index("## 0.2.0, 2") < changes.index("A thing")
    assert chapters.check(repository / "book", []) == []
    assert "@v0.2.0" not in (repository / "book" / "chapters" / "ch01_small.md").read_text()

    pushed = repository.parent / "clone"
    git(repository.parent, "clone", "--quiet", "--branch", "v0.2.0", "remote", str(pushed))
    assert chapters.check(pushed / "book", []) == []
    for name in ("ch01_small.md", "ch01_small.ipynb"):
        assert ".git@v0.2.0" in (pushed / "book" / "chapters" / name).read_text()
    assert "/blob/v0.2.0/book" in (pushed / "README.md").read_text()
    assert git(pushed, "rev-parse", "HEAD~1") == git(repository, "rev-parse", "main")


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda root: (root / "new.txt").write_text("x"), "the tree has changes"),
        (lambda root: git(root, "tag", "v0.2.0"), "tag v0.2.0 exists"),
    ],
)
def test_what_stands_in_the_way_is_named(repository, break_it, says):
    break_it(repository)
    with pytest.raises(ValueError, match=says):
        release.release(repository, "0.2.0")


def commit(root: Path, name: str, text: str) -> None:
    (root / name).write_text(text)
    git(root, "commit", "--quiet", "--all", "--message", "Change")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("CHANGELOG.md", CHANGELOG.replace("- A thing.\n", ""), "nothing under"),
        ("CHANGELOG.md", CHANGELOG.replace("Unreleased", "0.2.0"), "must be its first section"),
        ("pyproject.toml", "nothing\n", "0 places match"),
        ("_config.yml", f"repository:\n  url: {URL}\n  branch: v0.1.0\n", "0 places match"),
    ],
)
def test_a_release_that_fails_leaves_the_branch_as_it_was(repository, name, text, says):
    commit(repository, name, text)
    before = git(repository, "rev-parse", "HEAD")
    with pytest.raises(ValueError, match=says):
        release.release(repository, "0.2.0")
    assert git(repository, "rev-parse", "HEAD") == before
    assert git(repository, "branch", "--show-current") == "main"
    assert git(repository, "status", "--porcelain") == git(repository, "tag") == ""


def test_a_version_has_three_numbers(repository):
    with pytest.raises(ValueError, match=r"X\.Y\.Z is needed"):
        release.release(repository, "0.2")


def test_the_command_says_how_it_is_used(repository, capsys):
    assert release.main([], repository) == 2
    assert release.main(["0.2.0"], repository) == 0
    assert "tagged v0.2.0" in capsys.readouterr().out
    shutil.rmtree(repository)


@pytest.fixture
def gh(tmp_path, monkeypatch):
    """A command gh that writes down what it is asked, and fails where a file says so."""
    tools = tmp_path / "tools"
    tools.mkdir()
    script = tools / "gh"
    script.write_text(
        f'#!/bin/sh\necho "$@" > {tools}/asked; cat > {tools}/notes; test ! -e {tools}/no\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return tools


def with_pdf(root: Path) -> None:
    (root / release.PDF).parent.mkdir(parents=True)
    (root / release.PDF).write_text("%PDF")
    (root / ".git" / "info" / "exclude").write_text("_build/\n")


def test_a_pushed_release_is_published_with_the_pdf(repository, gh, capsys):
    with_pdf(repository)
    assert release.main(["0.2.0", "--push"], repository) == 0
    assert "published v0.2.0" in capsys.readouterr().out
    asked = (gh / "asked").read_text()
    assert asked.startswith("release create v0.2.0 _build/latex/book.pdf --title pjrope 0.2.0")
    assert "- A thing." in (gh / "notes").read_text()
    assert "v0.2.0" in git(repository, "ls-remote", "--tags", "origin")


def test_a_release_without_a_pdf_or_gh_changes_nothing(repository, monkeypatch):
    with pytest.raises(ValueError, match="make pdf"):
        release.publish(repository, "0.2.0")
    with_pdf(repository)
    monkeypatch.setattr(release.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="no gh"):
        release.publish(repository, "0.2.0")
    assert git(repository, "tag") == ""


def test_a_page_that_is_not_made_is_said(repository, gh):
    with_pdf(repository)
    (gh / "no").touch()
    with pytest.raises(ValueError, match=r"v0\.2\.0 is pushed, its page is not made"):
        release.publish(repository, "0.2.0")


def test_this_repository_could_be_released():
    """Every place that a release edits is there exactly once."""
    root = Path(__file__).resolve().parents[2]
    release.unreleased((root / "CHANGELOG.md").read_text())
    for name, pattern in release.VERSIONS.items():
        assert len(release.re.findall(pattern, (root / name).read_text())) == 1, name
    old = checks.colab_source(checks.published_url(root))
    for path in (root / "book" / "chapters").glob("ch*.*"):
        text = path.read_text()
        assert text.count(old if path.suffix == ".md" else release.quoted(old)) == 1, path.name
