"""Archives: unpacked below their folder, refused whole when one member would leave it."""

from __future__ import annotations

import io
import random
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from pjrope.data import DataError, extract

FILES = {"set/a.txt": b"first", "set/deep/b.txt": b"second"}
OUTSIDE = ["../evil.txt", "set/../../evil.txt", "/evil.txt", "..\\evil.txt", "C:/evil.txt"]


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def make_tar(path: Path, files: dict[str, bytes], *extra: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in extra:
            archive.addfile(info)
    return path


def tar_member(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def assert_refused(archive: Path, tmp_path: Path, told: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=told):
        extract(archive, tmp_path / "out" / "inner")
    assert [p for p in sorted(tmp_path.rglob("*")) if p not in before] == [], "something was left"


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_unpacks_and_replaces(tmp_path: Path, make: object) -> None:
    out = tmp_path / "out"
    (out / "set").mkdir(parents=True)
    (out / "set" / "a.txt").write_text("old")
    (out / "own.txt").write_text("mine")
    written = extract(make(tmp_path / "archive", FILES), out)
    assert written == [out / name for name in FILES]
    assert {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()} == {
        **FILES,
        "own.txt": b"mine",
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive", "out"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_names_that_lead_outside_are_refused(tmp_path: Path, make: object, name: str) -> None:
    archive = make(tmp_path / "archive", {**FILES, name: b"evil"})
    assert_refused(archive, tmp_path, "outside the folder")


@pytest.mark.parametrize(
    ("member", "told"),
    [
        (tar_member("link", tarfile.SYMTYPE, "/etc"), "a link"),
        (tar_member("link", tarfile.LNKTYPE, "set/a.txt"), "a link"),
        (tar_member("pipe", tarfile.FIFOTYPE), "a special file"),
    ],
)
def test_tar_links_and_devices_are_refused(
    tmp_path: Path, member: tarfile.TarInfo, told: str
) -> None:
    assert_refused(make_tar(tmp_path / "archive", FILES, member), tmp_path, told)


def test_zip_symlink_is_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "archive", FILES)
    info = zipfile.ZipInfo("link")
    info.create_system = 3  # Unix: the mode below counts
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(info, "/etc/passwd")
    assert_refused(path, tmp_path, "a link or special file")


def test_link_already_in_the_destination_is_not_followed(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / "set").symlink_to(elsewhere)
    with pytest.raises(DataError, match="through a link"):
        extract(make_zip(tmp_path / "archive", {"set/a.txt": b"x"}), out)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_damaged_archive_changes_nothing(tmp_path: Path, make: object) -> None:
    path = make(tmp_path / "archive", {"a.bin": random.Random(0).randbytes(9000)})
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 8] = bytes(255 - b for b in raw[middle : middle + 8])
    path.write_bytes(raw)
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.bin").write_text("old")
    with pytest.raises(DataError, match=r"damaged|neither"):
        extract(path, out)
    assert (out / "a.bin").read_text() == "old"


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<html>not an archive</html>")
    with pytest.raises(DataError, match="neither a zip nor a tar"):
        extract(tmp_path / "page.html", tmp_path / "out")
