"""The manifest's format, and the folder that corpora are kept in."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pjrope.data import DataError, data_home, home
from pjrope.data.manifest import is_safe_relative, manifest, parse_manifest

FILE: dict[str, Any] = {
    "name": "set.zip",
    "urls": ["https://example.org/set.zip"],
    "bytes": 10,
    "sha256": "0" * 64,
    "mirror_path": "set/set.zip",
}


def text_of(*files: dict[str, Any] | str, **changes: Any) -> str:
    corpus = {"description": "d", "licence": "l", "citation": "c", "files": list(files)}
    return json.dumps({"format": 2, "corpora": {"set": corpus}, **changes})


def test_tiny_shakespeare_is_pinned_to_a_commit() -> None:
    (entry,) = manifest()["tiny_shakespeare"].files
    assert (entry.bytes, entry.sha256[:8]) == (1_115_394, "86c4e6aa")
    assert any(len(part) == 40 for part in PurePosixPath(entry.urls[0]).parts), "no commit in it"


def test_corpora_may_share_files_and_archives() -> None:
    inner = {k: v for k, v in FILE.items() if k != "sha256"} | {"name": "a", "urls": []}
    shared = {
        "archives": {"box": FILE},
        "files": {"a": {**inner, "archive": "box", "member": "set/a", "split": "train"}},
    }
    corpus = parse_manifest(text_of("a", {**FILE, "name": "b.csv"}, **shared))["set"]
    assert [(f.name, f.split, f.member, f.licence) for f in corpus.files] == [
        ("a", "train", "set/a", "l"),
        ("b.csv", "", "", "l"),
    ]
    assert corpus.files[0].archive is not None
    assert corpus.files[0].archive.urls == ("https://example.org/set.zip",)


def test_every_download_is_pinned_or_checked_by_its_body() -> None:
    for name, corpus in manifest().items():
        assert corpus.licence and corpus.citation, name
        splits = [file.split for file in corpus.files]
        assert splits in ([""], ["train", "validation", "test"]), name
        for file in corpus.files:
            checked = (file.sha256 or file.body, file.archive and file.archive.sha1)
            assert any(checked), file
            assert file.urls or (file.archive and file.archive.urls), file
    with pytest.raises(DataError, match="reader 'rows' is none of"):
        parse_manifest(text_of(FILE).replace('"description"', '"reader": "rows", "description"'))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sha256": "ABC"}, "64 lower-case hex"),
        ({"bytes": 0}, "must be positive"),
        ({"urls": ["file:///etc/passwd"]}, "neither https nor http"),
        ({"mirror_path": "../x"}, "must be relative"),
        ({"sha1": "0"}, "40 lower-case hex"),
        ({"sha256": None}, "nothing to check it by"),
        ({"size": 3}, "unknown field"),
    ],
)
def test_bad_fields_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        parse_manifest(text_of({**FILE, **changes}))


def test_missing_field_and_other_format_are_refused() -> None:
    with pytest.raises(DataError, match="sha256"):
        parse_manifest(text_of({k: v for k, v in FILE.items() if k != "sha256"}))
    with pytest.raises(DataError, match="format 1"):
        parse_manifest(text_of(FILE, format=1))


@pytest.mark.parametrize("path", ["", ".", "..", "a/../../b", "/a", "a\\b", "C:/a", "a\0b"])
def test_unsafe_paths(path: str) -> None:
    assert not is_safe_relative(path)


@pytest.mark.parametrize("path", ["a", "a/b.txt", "a..b/c", "./a", "dir/"])
def test_safe_paths(path: str) -> None:
    assert is_safe_relative(path)


def test_data_home_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PJROPE_DATA", str(tmp_path / "mine"))
    assert data_home() == tmp_path / "mine"
    monkeypatch.setenv("PJROPE_DATA", "")
    monkeypatch.setattr(home, "is_checkout", lambda root: (root / "pjrope" / "data").is_dir())
    assert data_home() == Path(home.__file__).resolve().parents[2] / "data"
    monkeypatch.setattr(home, "is_checkout", lambda root: False)
    monkeypatch.setattr(home, "user_cache", lambda: tmp_path)
    assert data_home() == tmp_path / "pjrope" / "data"


def test_only_the_projects_own_pyproject_makes_a_checkout(tmp_path: Path) -> None:
    assert not home.is_checkout(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert not home.is_checkout(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pjrope"\n')
    assert home.is_checkout(tmp_path)


def test_user_cache_follows_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert home.user_cache("linux") == tmp_path / "xdg"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert home.user_cache("linux") == tmp_path / ".cache"
    assert home.user_cache("darwin") == tmp_path / "Library" / "Caches"
    assert home.user_cache("win32") == tmp_path / "AppData" / "Local"
