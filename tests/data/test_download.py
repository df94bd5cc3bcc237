"""Fetching: from a mirror, from a good server, from every kind of bad one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pjrope.data import DataError, FileEntry, fetch, transfer

from .conftest import CONTENT, ENDLESS, Server

Make = Callable[..., FileEntry]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sample" / "input.txt"


def part_of(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def refused(entry: FileEntry, target: Path, **options: object) -> str:
    """Fetch, expect a refusal and return its message, which must be one line."""
    with pytest.raises(DataError) as caught:
        fetch(entry, target, progress=False, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_download_is_complete_and_leaves_no_part(
    server: Server, make_entry: Make, target: Path
) -> None:
    assert fetch(make_entry(server.url()), target, progress=False) == target
    assert target.read_bytes() == CONTENT
    assert os.listdir(target.parent) == ["input.txt"]
    assert "urllib" not in server.requests[0]["User-Agent"].lower()


def test_good_copy_is_kept_without_a_request(
    server: Server, make_entry: Make, target: Path
) -> None:
    entry = make_entry(server.url())
    fetch(entry, target, progress=False)
    before = target.stat().st_mtime_ns
    fetch(entry, target, progress=False)
    assert len(server.requests) == 1
    assert target.stat().st_mtime_ns == before


def test_bad_copy_is_replaced(server: Server, make_entry: Make, target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(CONTENT[:-1] + b"!")
    fetch(make_entry(server.url()), target, progress=False)
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
    fetch(make_entry(dead, server.url()), target, progress=False)
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
    fetch(entry, target, progress=False)
    assert server.requests[-1]["Range"] == f"bytes={half}-"
    assert target.read_bytes() == CONTENT


def test_server_without_ranges_is_read_from_zero(
    server: Server, make_entry: Make, target: Path
) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).write_bytes(CONTENT[:5000])
    server.habit = "no-range"
    fetch(make_entry(server.url()), target, progress=False)
    assert target.read_bytes() == CONTENT
    assert len(server.requests) == 1


@pytest.mark.parametrize("length", [5000, len(CONTENT), len(CONTENT) + 10])
def test_foreign_beginning_is_dropped_and_fetched_once_more(
    server: Server, make_entry: Make, target: Path, length: int
) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).write_bytes(b"?" * length)
    fetch(make_entry(server.url()), target, progress=False)
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


def test_wrong_range_is_refused(server: Server, make_entry: Make, target: Path) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).write_bytes(CONTENT[:5000])
    server.habit = "wrong-range"
    assert "where byte 5,000 was asked for" in refused(make_entry(server.url()), target)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to write to")
def test_full_disk_is_told(server: Server, make_entry: Make, target: Path) -> None:
    target.parent.mkdir(parents=True)
    part_of(target).symlink_to("/dev/full")
    message = refused(make_entry(server.url()), target)
    assert message.startswith("disk full while writing")


def test_unusable_folder_is_told(server: Server, make_entry: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    message = refused(make_entry(server.url()), tmp_path / "file" / "input.txt")
    assert message.startswith("cannot use") and "choose another folder" in message


def test_mirror_by_argument_and_by_variable(
    mirror: Path, make_entry: Make, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(make_entry(), target, mirror=mirror)
    assert target.read_bytes() == CONTENT
    target.unlink()
    monkeypatch.setenv("PJROPE_DATA_MIRROR", str(mirror))
    fetch(make_entry(), target)
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
        fetch(make_entry(), target, mirror=mirror)
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
    fetch(make_entry(), target, mirror=mirror)
    monkeypatch.setenv("PJROPE_DATA_MIRROR", str(tmp_path / "gone"))
    assert fetch(make_entry(), target) == target
