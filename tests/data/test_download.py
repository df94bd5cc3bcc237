"""Fetching: from a mirror, from a good server, from every kind of bad one."""

from __future__ import annotations

import errno
import hashlib
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pjrope.data import DataError, FileEntry, download, fetch, fetch_all, transfer
from pjrope.data.checks import problem

from .conftest import CONTENT, ENDLESS, Server

Make = Callable[..., FileEntry]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sample" / "input.txt"


def home_of(target: Path) -> Path:
    return target.parents[1]


def part_of(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def refused(entry: FileEntry, target: Path, **options: object) -> str:
    """Fetch, expect a refusal and return its message, which must be one line."""
    with pytest.raises(DataError) as caught:
        fetch(entry, home_of(target), progress=False, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_download_is_complete_and_leaves_no_part(
    server: Server, make_entry: Make, target: Path
) -> None:
    assert fetch(make_entry(server.url()), home_of(target), progress=False) == target
    assert target.read_bytes() == CONTENT
    assert os.listdir(target.parent) == ["input.txt"]
    assert "urllib" not in server.requests[0]["User-Agent"].lower()


def test_good_copy_is_kept_without_a_request(
    server: Server, make_entry: Make, target: Path
) -> None:
    entry = make_entry(server.url())
    fetch(entry, home_of(target), progress=False)
    before = target.stat().st_mtime_ns
    fetch(entry, home_of(target), progress=False)
    assert len(server.requests) == 1
    assert target.stat().st_mtime_ns == before


def test_bad_copy_is_replaced(server: Server, make_entry: Make, target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(CONTENT[:-1] + b"!")
    fetch(make_entry(server.url()), home_of(target), progress=False)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("habit", "told"),
    [
        ("403", "403 Forbidden"),
        ("404", "404 Not Found"),
        ("500", "500 Internal Server Error"),
        ("short", "too short: 1,000 bytes, expected 256,003"),
        ("long", "too long: more than the expected 256,003"),
        ("altered", "altered: sha256"),
        ("html", "too short"),
        ("drops", "broke off"),
    ],
)
def test_bad_answer_is_one_clear_line_and_no_file(
    server: Server, make_entry: Make, target: Path, habit: str, told: str
) -> None:
    server.habit = habit
    message = refused(make_entry(server.url()), target)
    assert told in message
    assert server.url() in message
    assert "--mirror DIR" in message and str(target) in message
    assert not target.exists()
    assert part_of(target).exists() == (habit == "drops")


def test_endless_answer_is_cut_off(server: Server, make_entry: Make, target: Path) -> None:
    server.habit = "endless"
    assert "too long" in refused(make_entry(server.url()), target)
    assert server.streamed < ENDLESS
    assert not part_of(target).exists()


def test_no_network_is_told(make_entry: Make, target: Path) -> None:
    # Port 9 of the local machine: nothing listens there.
    message = refused(make_entry("http://127.0.0.1:9/input.txt"), target)
    assert "no connection to http://127.0.0.1:9/input.txt" in message


def test_silent_server_times_out(
    server: Server, make_entry: Make, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT_S", 0.2)
    server.habit = "silent"
    assert "did not answer within 0.2 s" in refused(make_entry(server.url()), target)


def test_second_url_is_tried_and_both_failures_are_told(
    server: Server, make_entry: Make, target: Path
) -> None:
    dead = "http://127.0.0.1:9/input.txt"
    fetch(make_entry(dead, server.url()), home_of(target), progress=False)
    assert target.read_bytes() == CONTENT
    target.unlink()
    server.habit = "404"
    message = refused(make_entry(dead, server.url()), target)
    assert "no connection" in message and "404 Not Found" in message


def test_interrupted_download_resumes(server: Server, make_entry: Make, target: Path) -> None:
    entry = make_entry(server.url())
    server.habit = "drops"
    refused(entry, target)
    half = part_of(target).stat().st_size
    assert 0 < half < len(CONTENT)
    server.habit = "good"
    fetch(entry, home_of(target), progress=False)
    assert server.requests[-1]["Range"] == f"bytes={half}-"
    assert target.read_bytes() == CONTENT


def test_server_without_ranges_is_read_from_zero(
    server: Server, make_entry: Make, target: Path
) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).write_bytes(CONTENT[:5000])
    server.habit = "no-range"
    fetch(make_entry(server.url()), home_of(target), progress=False)
    assert target.read_bytes() == CONTENT
    assert len(server.requests) == 1


@pytest.mark.parametrize("length", [5000, len(CONTENT), len(CONTENT) + 10])
def test_foreign_beginning_is_dropped_and_fetched_once_more(
    server: Server, make_entry: Make, target: Path, length: int
) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).write_bytes(b"?" * length)
    fetch(make_entry(server.url()), home_of(target), progress=False)
    assert target.read_bytes() == CONTENT
    assert "Range" not in server.requests[-1]


def test_resume_past_the_end_of_a_short_file_is_told(
    server: Server, make_entry: Make, target: Path
) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).write_bytes(CONTENT[:5000])
    server.habit = "short"  # 416 for the range, then 200 with 1000 bytes
    assert "too short" in refused(make_entry(server.url()), target)
    assert not part_of(target).exists()


def test_another_range_than_asked_for_is_read_from_zero(
    server: Server, make_entry: Make, target: Path
) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).write_bytes(CONTENT[:5000])
    server.habit = "wrong-range"
    fetch(make_entry(server.url()), home_of(target), progress=False)
    assert target.read_bytes() == CONTENT
    assert ["Range" in request for request in server.requests] == [True, False]


def test_a_server_that_always_sends_another_range_is_told(
    server: Server, make_entry: Make, target: Path
) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).write_bytes(CONTENT[:5000])
    server.habit = "wrong-range-always"
    assert "where byte 5,000 was asked for" in refused(make_entry(server.url()), target)


@pytest.mark.parametrize(("habit", "pauses"), [("busy", [7.0] * 3), ("503", [2.0, 4.0, 8.0])])
def test_a_busy_server_is_asked_again_and_then_told(
    server: Server,
    make_entry: Make,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    habit: str,
    pauses: list[float],
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(transfer.time, "sleep", slept.append)
    server.habit = habit
    message = refused(make_entry(server.url()), target)
    assert ("429" if habit == "busy" else "503") in message
    assert slept == pauses and len(server.requests) == len(pauses) + 1

    def recovered(seconds: float) -> None:
        server.habit = "good"

    monkeypatch.setattr(transfer.time, "sleep", recovered)
    fetch(make_entry(server.url()), home_of(target), progress=False)
    assert target.read_bytes() == CONTENT


def boxed(entry: FileEntry, archive: Path, **changes: object) -> FileEntry:
    """The same file, without an address of its own, as a member of an archive."""
    box = replace(
        entry,
        name="box.zip",
        bytes=archive.stat().st_size,
        sha256=hashlib.sha256(archive.read_bytes()).hexdigest(),
        mirror_path="sample/box.zip",
    )
    return replace(entry, urls=(), archive=box, member="in/input.txt", **changes)


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A mirror folder that holds the sample file only inside a zip."""
    (tmp_path / "boxes" / "sample").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "boxes" / "sample" / "box.zip", "w") as archive:
        archive.writestr("in/input.txt", CONTENT)
    return tmp_path / "boxes"


def test_a_file_comes_out_of_an_archive(make_entry: Make, target: Path, box: Path) -> None:
    entry = boxed(make_entry(), box / "sample" / "box.zip")
    assert fetch(entry, home_of(target), mirror=box) == target
    assert target.read_bytes() == CONTENT and os.listdir(target.parent) == ["input.txt"]


def test_a_file_vouched_for_by_its_archive_is_watched_from_then_on(
    make_entry: Make, target: Path, box: Path
) -> None:
    entry = boxed(make_entry(), box / "sample" / "box.zip", sha256=None, bytes=None)
    fetch(entry, home_of(target), mirror=box)
    assert problem(entry, target) is None
    target.write_bytes(CONTENT[:-1] + b"!")
    assert "altered" in str(problem(entry, target))
    fetch(entry, home_of(target), mirror=box)
    assert target.read_bytes() == CONTENT


def test_a_damaged_archive_or_member_is_refused(make_entry: Make, target: Path, box: Path) -> None:
    entry = boxed(make_entry(), box / "sample" / "box.zip", sha256="0" * 64)
    assert "copy of in/input.txt" in refused(entry, target, mirror=box)
    (box / "sample" / "box.zip").write_bytes(b"<html>log in</html>")
    assert "box.zip refused, too short" in refused(entry, target, mirror=box)
    assert not target.exists() and os.listdir(target.parent) == []


def test_an_optional_file_is_left_out_with_the_reason(
    make_entry: Make, target: Path, mirror: Path
) -> None:
    entry = make_entry()
    other = replace(entry, name="other", mirror_path="sample/other", optional=True)
    missing = fetch_all((entry, other), home_of(target), mirror=mirror)
    assert target.read_bytes() == CONTENT
    assert list(missing) == [other] and "mirror has no file" in missing[other]
    assert "mirror has no file" in refused(other, target, mirror=mirror)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "disk full while writing"),
        (errno.EDQUOT, "disk full while writing"),
        (errno.EACCES, "no permission"),
        (errno.EROFS, "no permission"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_what_the_file_system_says_is_told_apart(
    mirror: Path,
    make_entry: Make,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    told: str,
) -> None:
    def fail(source: object, out: object) -> None:
        raise OSError(number, os.strerror(number), str(target))

    monkeypatch.setattr(download.shutil, "copyfileobj", fail)
    message = refused(make_entry(), target, mirror=mirror)
    assert told in message and str(target) in message
    assert os.listdir(target.parent) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to write to")
def test_full_disk_is_told(server: Server, make_entry: Make, target: Path) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).symlink_to("/dev/full")
    message = refused(make_entry(server.url()), target)
    assert message.startswith("disk full while writing")


def test_unusable_folder_is_told(server: Server, make_entry: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    message = refused(make_entry(server.url()), tmp_path / "file" / "sample" / "input.txt")
    assert message.startswith("cannot use") and "choose another folder" in message


def test_mirror_by_argument_and_by_variable(
    mirror: Path, make_entry: Make, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(make_entry(), home_of(target), mirror=mirror)
    assert target.read_bytes() == CONTENT
    target.unlink()
    monkeypatch.setenv("PJROPE_DATA_MIRROR", str(mirror))
    fetch(make_entry(), home_of(target))
    assert target.read_bytes() == CONTENT
    assert os.listdir(target.parent) == ["input.txt"]


@pytest.mark.parametrize(
    ("content", "told"),
    [(CONTENT[:-1], "too short"), (CONTENT + b"x", "too long"), (b"X" + CONTENT[1:], "altered")],
)
@pytest.mark.parametrize("have_good", [True, False])
def test_bad_mirror_is_refused_and_the_good_copy_kept(
    mirror: Path, make_entry: Make, target: Path, content: bytes, told: str, have_good: bool
) -> None:
    if have_good:
        fetch(make_entry(), home_of(target), mirror=mirror)
    (mirror / "sample" / "input.txt").write_bytes(content)
    message = refused(make_entry(), target, mirror=mirror)
    assert told in message and "refused" in message
    assert ("is kept" in message) == have_good
    assert target.exists() == have_good
    assert not have_good or target.read_bytes() == CONTENT


def test_mirror_without_the_file_names_it(make_entry: Make, target: Path, tmp_path: Path) -> None:
    message = refused(make_entry("http://127.0.0.1:9/"), target, mirror=tmp_path)
    assert "mirror has no file" in message and "sample/input.txt" in message


def test_good_copy_does_not_need_the_mirror_of_the_environment(
    mirror: Path, make_entry: Make, target: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fetch(make_entry(), home_of(target), mirror=mirror)
    monkeypatch.setenv("PJROPE_DATA_MIRROR", str(tmp_path / "gone"))
    assert fetch(make_entry(), home_of(target)) == target
