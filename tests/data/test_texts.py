"""The real corpora from a mirror folder, whole and damaged."""

from __future__ import annotations

import hashlib
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pjrope.data import DataError, command, fetch, load, load_or_stand_in, prepare
from pjrope.data.checks import body_of, problem
from pjrope.data.corpus import hf_rows
from pjrope.data.manifest import Body, manifest

Mirror = Callable[..., Path]
SIZES = {
    "tiny_shakespeare": (1_003_854, 111_540, 0),
    "wikitext_2": (10_797_148, 1_121_681, 1_256_449),
    "wikitext_2_raw": (0, 1_146_846, 1_290_590),
    "wikitext_2_raw_rows": (0, 1_148_007, 1_292_013),
    "wikitext_103_raw": (0, 1_146_846, 1_290_590),
    "war_and_peace": (2_940_725, 326_748, 0),
}
# The bytes that Jordan-RoPE's code reads: spec and independent copies agree on these.
ROWS = {
    "validation": "714a24a5de7459876f7cfdc64837e551dd7cde2a51f95b763ee083fff273e307",
    "test": "aca2f46735043bcfd0a44eca981d04627b9cdf74c4c9a04bf0856d04066f58fc",
}


def needed(name: str) -> list[str]:
    return [file.mirror_path for file in manifest()[name].files if not file.optional]


@pytest.mark.parametrize("name", SIZES)
def test_a_real_corpus_is_verified_and_read(
    real_mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    mirror = real_mirror(*needed(name))
    assert command.main(name, ["--mirror", str(mirror), "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corpus = load(name, home=tmp_path)
    parts = [corpus.train, corpus.validation, corpus.test]
    with_train = (mirror / manifest()[name].files[0].mirror_path).is_file()
    assert [len(part) for part in parts][not with_train :] == list(SIZES[name])[not with_train :]
    digest = hashlib.sha256(torch.cat(parts).numpy().tobytes()).hexdigest()
    assert digest == corpus.sha256 and not corpus.stand_in
    for told in (corpus.licence, *needed(name), manifest()[name].citation):
        assert told in out


def test_rows_are_the_bytes_of_the_other_data_set(real_mirror: Mirror, tmp_path: Path) -> None:
    prepare("wikitext_2_raw_rows", mirror=real_mirror(*needed("wikitext_2_raw")), home=tmp_path)
    corpus = load("wikitext_2_raw_rows", home=tmp_path)
    for split, digest in ROWS.items():
        assert hashlib.sha256(corpus.split(split).numpy().tobytes()).hexdigest() == digest
    assert "other bytes" in corpus.description


def test_rows_of_a_small_file() -> None:
    assert hf_rows(b" \n = A = \n \n words\n") == b"\n = A = \n\n\n words\n"


def test_a_missing_split_is_told(
    real_mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = tmp_path / "mirror"
    shutil.copytree(
        real_mirror(*needed("wikitext_2_raw")) / "wikitext-2-raw", mirror / "wikitext-2-raw"
    )
    (mirror / "wikitext-2-raw" / "wiki.train.raw").unlink(missing_ok=True)
    home = tmp_path / "home"
    assert command.main("wikitext_2_raw", ["--mirror", str(mirror), "--out", str(home)]) == 0
    assert "left out wiki.train.raw" in capsys.readouterr().out
    assert (
        command.main(
            "wikitext_2_raw", ["--mirror", str(mirror), "--out", str(home), "--split", "train"]
        )
        == 0
    )
    corpus = load("wikitext_2_raw", home=home)
    with pytest.raises(DataError, match="has no train split here; it has validation, test"):
        corpus.split("train")
    with pytest.raises(DataError, match="`pjrope data wikitext_2_raw --split train`"):
        load("wikitext_2_raw", splits=["train"], home=home)
    assert load_or_stand_in("wikitext_2_raw", home=home).stand_in
    assert not load_or_stand_in("wikitext_2_raw", splits=["test"], home=home).stand_in


def test_a_stand_in_has_the_splits_of_what_it_stands_for(tmp_path: Path) -> None:
    substitute = load_or_stand_in("wikitext_2", home=tmp_path)
    assert substitute.stand_in and "stand-in for wikitext_2" in substitute.name
    whole = torch.cat([substitute.split(s) for s in ("train", "validation", "test")])
    assert hashlib.sha256(whole.numpy().tobytes()).hexdigest() == substitute.sha256
    assert not len(load_or_stand_in("tiny_shakespeare", home=tmp_path).test)


def test_unknown_splits_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no split 'valid'; it has train, validation, test"):
        load("wikitext_2", splits=["valid"], home=tmp_path)
    with pytest.raises(DataError, match="no official 'test' split; use validation"):
        load("tiny_shakespeare", splits=["test"], home=tmp_path)
    with pytest.raises(DataError, match="split 'dev' is unknown"):
        load("toy_language").split("dev")


BOM, PAGE = b"\xef\xbb\xbf", b"<!DOCTYPE html>\n<html><title>Not found</title></html>\n"
DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda raw: b"", "too short: 0 bytes"),
    "truncated": (lambda raw: raw[:-1], "too short: 1,121,680 bytes"),
    "flipped": (lambda raw: raw[:500] + bytes([raw[500] ^ 1]) + raw[501:], "altered: sha256"),
    "crlf": (lambda raw: raw.replace(b"\n", b"\r\n"), "its line ends were changed to CRLF"),
    "bom": (lambda raw: BOM + raw, "a byte-order mark was put before it"),
    "page": (lambda raw: PAGE, "it is an HTML page"),
    "padded page": (lambda raw: PAGE.ljust(len(raw)), "it is an HTML page"),
}


@pytest.mark.parametrize("accident", DAMAGE)
def test_a_damaged_copy_is_refused_and_the_accident_named(
    real_mirror: Mirror, tmp_path: Path, accident: str
) -> None:
    entry = manifest()["wikitext_2"].files[1]
    mirror = real_mirror(entry.mirror_path)
    spoil, told = DAMAGE[accident]
    bad, home = tmp_path / "bad", tmp_path / "home"
    file = bad / entry.mirror_path
    file.parent.mkdir(parents=True)
    file.write_bytes(spoil((mirror / entry.mirror_path).read_bytes()))
    with pytest.raises(DataError, match=told) as caught:
        fetch(entry, home, mirror=bad)
    assert "\n" not in str(caught.value) and not (home / entry.mirror_path).exists()
    fetch(entry, home, mirror=mirror)
    with pytest.raises(DataError, match=r"the good copy .* is kept"):
        fetch(entry, home, mirror=bad)
    shutil.copyfile(file, home / entry.mirror_path)
    with pytest.raises(DataError, match=told):
        load("wikitext_2", splits=["validation"], home=home)


def test_lf_put_for_crlf_is_named(tmp_path: Path) -> None:
    right = b"a\r\nb\r\n"
    entry = replace(
        manifest()["tiny_shakespeare"].files[0],
        bytes=len(right),
        sha256=hashlib.sha256(right).hexdigest(),
    )
    (tmp_path / "file").write_bytes(b"a\nb\n")
    assert "its line ends were changed to LF" in str(problem(entry, tmp_path / "file"))


@pytest.fixture
def novel(real_mirror: Mirror) -> bytes:
    """The file of Project Gutenberg."""
    (path,) = needed("war_and_peace")
    return (real_mirror(path) / path).read_bytes()


def novel_at(home: Path, raw: bytes) -> Path:
    (home / "war_and_peace").mkdir(parents=True, exist_ok=True)
    (home / "war_and_peace" / "2600-0.txt").write_bytes(raw)
    return home


@pytest.mark.parametrize("change", ["bom", "lf", "header"])
def test_the_novel_is_the_same_in_every_wrapping(novel: bytes, tmp_path: Path, change: str) -> None:
    lf = novel.replace(b"\r\n", b"\n")
    other = {"bom": BOM + novel, "lf": lf, "header": b"Updated in 2031\r\n" + novel}[change]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corpus = load("war_and_peace", home=novel_at(tmp_path, other))
    text = bytes(torch.cat([corpus.train, corpus.validation]).numpy().tobytes())
    assert text.startswith("“Well, Prince".encode()) and text.endswith(
        b"which we are not\nconscious."
    )
    assert b"\r" not in text and b"Gutenberg" not in text and text.count(b"CHAPTER") == 364
    assert corpus.sha256.startswith("5cf3806b5958")


def test_a_new_edition_only_warns(novel: bytes, tmp_path: Path) -> None:
    edited = novel.replace(b"Genoa", b"Genova", 1)
    assert edited != novel
    with pytest.warns(UserWarning, match="another edition of war_and_peace"):
        corpus = load("war_and_peace", home=novel_at(tmp_path, edited))
    assert not corpus.sha256.startswith("5cf3806b5958")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda raw: b"", "does not occur in it"),
        (lambda raw: raw[: len(raw) // 2], "does not occur in it"),
        (lambda raw: PAGE, "it is an HTML page"),
        (lambda raw: raw[:900_000] + b"\xff" + raw[900_001:], "no UTF-8 text: byte 900,000"),
        (lambda raw: raw[:900_000] + raw[2_000_000:], "not the whole text"),
    ],
)
def test_a_damaged_novel_is_refused(
    novel: bytes, tmp_path: Path, spoil: Callable[[bytes], bytes], told: str
) -> None:
    home = novel_at(tmp_path / "home", spoil(novel))
    with pytest.raises(DataError, match=told):
        load("war_and_peace", home=home)
    with pytest.raises(DataError, match=told):
        prepare("war_and_peace", mirror=home, home=tmp_path / "other")
    assert not list((tmp_path / "other").rglob("*.txt"))


def test_a_body_is_cut_from_first_words_to_last() -> None:
    body = Body(
        "So it", "the end.", 24, hashlib.sha256("So it began.\nIt – the end.".encode()).hexdigest()
    )
    part, known = body_of(
        "Title\r\nSo it began.\r\nIt – the end.\r\nTerms".encode(), replace(body, characters=26)
    )
    assert part == "So it began.\nIt – the end.".encode() and known
