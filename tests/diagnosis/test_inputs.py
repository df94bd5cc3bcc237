"""Every kind of input, and every kind of bad input in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from pjrope.diagnosis import InputError, Reading, read_files, source_of

IDS = np.arange(500) % 7


def write(folder, name, content):
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content, encoding="utf-8")
    return path


def test_text_is_its_bytes(tmp_path):
    source = read_files([write(tmp_path, "a.txt", "né" * 50)])
    assert (source.kind, len(source), source.vocab) == ("text", 150, 3)
    assert source.tokens[:3].tolist() == source.tokens[3:6].tolist()
    assert "UTF-8" in source.notes[0]


def test_any_file_can_be_read_as_bytes(tmp_path):
    path = write(tmp_path, "a.txt", bytes([0xFF, 0x00] * 50))
    assert read_files([path], Reading("bytes")).tokens[:2].tolist() == [1, 0]


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_raw_ids(tmp_path, dtype):
    path = write(tmp_path, "ids.bin", IDS.astype(dtype).tobytes())
    assert read_files([path], Reading(dtype=dtype)).tokens.tolist() == IDS.tolist()


def test_npy_ids_are_numbered_from_0(tmp_path):
    np.save(tmp_path / "ids.npy", IDS * 1000)
    source = read_files([tmp_path / "ids.npy"])
    assert source.tokens.tolist() == IDS.tolist() and source.vocab == 7


def test_json_lines_of_lists_and_of_objects(tmp_path):
    lines = [json.dumps(IDS[:250].tolist()), "", json.dumps({"input_ids": IDS[250:].tolist()})]
    source = read_files([write(tmp_path, "ids.jsonl", "\n".join(lines))])
    assert source.tokens.tolist() == IDS.tolist()


def test_midi_becomes_events(tmp_path):
    path = tmp_path / "piece.mid"
    from pjrope.data.music.score import grid_score

    rows = [
        (2 * n + off, 1 - off, 0, 60 + n % 5, 64 * (1 - off)) for n in range(60) for off in (0, 1)
    ]
    grid_score(rows, 0.02).write(path)
    source = read_files([path, path])
    assert source.kind == "midi" and len(source) > 200 and "and 1 more" in source.name


def test_csv_column_becomes_quantile_bins(tmp_path):
    values = np.random.default_rng(0).normal(size=2000)
    rows = ["when,price", *(f"{n},{v}" for n, v in enumerate(values))]
    source = read_files([write(tmp_path, "x.csv", "\n".join(rows))], Reading(column="price"))
    counts = np.bincount(source.tokens.numpy())
    assert source.vocab == 256 and counts.min() >= 6 and counts.max() <= 9
    assert (np.diff(source.tokens.numpy()[np.argsort(values)]) >= 0).all()
    assert "256 quantile bins" in source.notes[0] and "'price'" in source.notes[0]


def test_a_csv_without_a_header_and_a_column_by_number(tmp_path):
    path = write(tmp_path, "x.tsv", "\n".join(f"{n % 5}\t{n % 3}" for n in range(300)))
    assert read_files([path], Reading(column="2")).vocab == 3


BAD = {
    "empty.txt": (b"", {}, "is empty"),
    "three.txt": (b"abc", {}, "holds 3 tokens: at least 64"),
    "latin.txt": ("é".encode("latin-1") * 99, {}, "--kind bytes"),
    "corrupt.mid": (b"MThd garbage" * 20, {}, "corrupt.mid"),
    "not.mid": (b"x" * 200, {}, "no MIDI file"),
    "high.jsonl": ("[" + "5, " * 99 + "70000]", {"vocab": 50257}, "id 70000 at index 99"),
    "negative.jsonl": ("[" + "5, " * 99 + "-1]", {}, "id -1 at index 99"),
    "huge.jsonl": (f"[{2**70}]", {}, "out of range"),
    "float.jsonl": ("[1, 2.5]", {}, "holds 2.5: token ids are integers"),
    "bool.jsonl": ("[1, true]", {}, "holds True"),
    "word.jsonl": ('{"text": "hello"}', {}, "input_ids"),
    "broken.jsonl": ("[1, 2", {}, "line 1, is no JSON"),
    "blank.jsonl": ("\n\n", {}, "holds no ids"),
    "plain.bin": (b"\0" * 200, {}, "--dtype uint16 or uint32"),
    "odd.bin": (b"\0" * 201, {"dtype": "uint16"}, "no whole number"),
    "words.csv": ("a,b\n1,2\n1,two\n", {"column": "b"}, "row 3, holds 'two' in column 2"),
    "short.csv": ("a,b\n1,2\n1\n", {"column": "b"}, "row 3, holds ''"),
    "nan.csv": ("1\nnan\n", {}, "row 2"),
    "header.csv": ("a,b\n", {}, "no rows"),
    "flat.csv": ("a\n" + "3\n" * 99, {}, "are 3"),
    "column.csv": ("a,b\n1,2\n", {"column": "c"}, "has no column 'c': it has a, b"),
    "x.npy": (b"nothing", {}, "no .npy file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_in_one_line(tmp_path, name):
    content, reading, told = BAD[name]
    with pytest.raises(InputError) as error:
        read_files([write(tmp_path, name, content)], Reading(**reading))
    assert told in str(error.value) and "\n" not in str(error.value)


def test_missing_files_folders_and_mixed_kinds(tmp_path):
    for paths, told in (
        ([tmp_path / "no.txt"], "does not exist"),
        ([tmp_path], "is a folder"),
        ([tmp_path / "a.txt", tmp_path / "a.mid"], "one kind"),
    ):
        with pytest.raises(InputError, match=told):
            read_files(paths)


@pytest.mark.parametrize("array", [np.ones(99), np.ones((9, 9), int), np.array(["a"] * 99)])
def test_npy_of_floats_words_or_tables(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InputError, match="row of integer ids"):
        read_files([tmp_path / "x.npy"])


@pytest.mark.parametrize("ids", [torch.rand(99), [[1], [2, 3]], ["a"] * 99, [], 5, [0.5] * 99])
def test_tokens_that_are_no_ids(ids):
    with pytest.raises(InputError):
        source_of(ids, name="mine")


def test_rare_ids_share_one():
    ids = torch.cat([torch.arange(3000), torch.arange(100).repeat(30)])
    source = source_of(ids, name="many")
    assert source.vocab == 2048 and int(source.tokens.max()) == 2047
    assert "2,047 most frequent" in source.notes[0]
    assert len(set(source.tokens[3000:3100].tolist())) == 100  # frequent ids stay apart
