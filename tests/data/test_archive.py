"""Archives: named members come out, damage and lack are told."""

from __future__ import annotations

import io
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pjrope.data import DataError
from pjrope.data.archive import take_members

FILES = {"set/a.txt": b"first", "set/deep/b.txt": b"second", "set/c.txt": b"unasked"}
Make = Callable[[Path, dict[str, bytes]], Path]


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def make_tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def read(archive: Path, *names: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    take_members(archive, names, lambda name, stream: found.update({name: stream.read()}))
    return found


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_named_members_come_out(tmp_path: Path, make: Make, prefix: str) -> None:
    archive = make(tmp_path / "archive", {prefix + name: text for name, text in FILES.items()})
    wanted = ["set/deep/b.txt", "set/a.txt"]
    assert read(archive, *wanted) == {name: FILES[name] for name in wanted}


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_a_member_that_is_not_there_is_named(tmp_path: Path, make: Make) -> None:
    with pytest.raises(DataError, match=r"has no file 'set/other\.txt'"):
        read(make(tmp_path / "archive", FILES), "set/a.txt", "set/other.txt")


def test_a_link_is_no_file(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "archive", "w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match="has no file 'link'"):
        read(tmp_path / "archive", "link")


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_a_damaged_archive_is_told(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path / "archive", {"a.bin": random.Random(0).randbytes(9000)})
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 8] = bytes(255 - b for b in raw[middle : middle + 8])
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"damaged|neither"):
        read(path, "a.bin")


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<html>not an archive</html>")
    with pytest.raises(DataError, match="neither a zip nor a tar"):
        read(tmp_path / "page.html", "a")
