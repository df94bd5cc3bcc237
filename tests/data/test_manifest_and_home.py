"""The manifest's format, and the folder that corpora are kept in."""

from __future__ import annotations

import json
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import pjrope
from pjrope.cli import main
from pjrope.data import DataError, data_home, home, load, load_or_stand_in
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
        if corpus.reader == "pieces":  # a table, then the pieces
            splits = splits[:1]
        assert splits in ([""], ["train", "validation", "test"]), name
        for file in corpus.files:
            archive = file.archive
            checked = (file.sha256 or file.body, archive and (archive.sha1 or archive.sha256))
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
    monkeypatch.setenv("PJROPE_DATA", "~/mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_home() == tmp_path / "mine"
    monkeypatch.setenv("PJROPE_DATA", "")
    monkeypatch.setattr(home, "is_checkout", lambda root: (root / "pjrope" / "data").is_dir())
    assert data_home() == Path(home.__file__).resolve().parents[2] / "data"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as a wheel installs it, outside a checkout."""
    monkeypatch.setattr(home, "is_checkout", lambda root: False)


@pytest.mark.usefixtures("installed")
@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
def test_without_a_checkout_it_is_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert data_home() == tmp_path / "xdg" / "pjrope" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_home() == tmp_path / ".cache" / "pjrope" / "data"


@pytest.mark.usefixtures("installed")
@pytest.mark.skipif(sys.platform != "linux", reason="the user table of Linux")
def test_a_user_without_a_home_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pwd

    def nobody(number: int) -> object:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for function in (data_home, lambda: load_or_stand_in("tiny_shakespeare")):
        with pytest.raises(DataError, match=r"set \$PJROPE_DATA to a folder"):
            function()
    assert main(["data", "--list"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert load("toy_language").stand_in


@pytest.mark.parametrize(
    ("variable", "argv"),
    [
        ("PJROPE_DATA", ["--list"]),
        ("PJROPE_DATA", ["tiny_shakespeare"]),
        ("PJROPE_DATA_MIRROR", ["tiny_shakespeare"]),
        ("", ["tiny_shakespeare", "--mirror", "~nouser/x"]),
        ("", ["--list", "--out", "~nouser/x"]),
    ],
)
def test_the_home_of_an_unknown_user_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    variable: str,
    argv: list[str],
) -> None:
    if variable != "PJROPE_DATA" and "--out" not in argv:
        argv = [*argv, "--out", str(tmp_path)]
    if variable:
        monkeypatch.setenv(variable, "~nouser/x")
    try:
        code = main(["data", *argv])
    except SystemExit as exit:  # of the parser, which is the first to see an argument
        code = exit.code
    assert code == 2
    err = capsys.readouterr().err
    assert "'~nouser/x'" in err and "write the whole path" in err and err.count("\n") == 1
    assert (f"${variable}" if variable else "--") in err


def test_only_the_projects_own_pyproject_makes_a_checkout(tmp_path: Path) -> None:
    assert not home.is_checkout(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert not home.is_checkout(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pjrope"\n')
    assert home.is_checkout(tmp_path)


def test_a_name_of_the_last_version_says_what_takes_its_place():
    with pytest.raises(AttributeError, match=r"gone since 0\.2: .*take_members"):
        pjrope.data.extract  # noqa: B018
