"""Corpora by name, and the command that prepares them."""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from pjrope.cli import main
from pjrope.data import (
    Corpus,
    DataError,
    command,
    corpus_names,
    evaluation_windows,
    is_prepared,
    load,
    load_or_stand_in,
    prepare,
    sample_windows,
)
from pjrope.data.manifest import manifest


def digest(corpus: Corpus) -> str:
    return hashlib.sha256(bytes(torch.cat([corpus.train, corpus.validation]).tolist())).hexdigest()


def call(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(argv))


@pytest.mark.parametrize("name", ["toy_language", "pydoc_topics"])
def test_stand_ins_are_whole_and_say_what_they_are(name: str) -> None:
    corpus = load(name)
    assert corpus.name == name and corpus.stand_in
    assert corpus.train.dtype == corpus.validation.dtype == torch.uint8
    assert int(torch.cat([corpus.train, corpus.validation]).max()) < corpus.vocab_size
    assert digest(corpus) == corpus.sha256


def test_toy_language_is_pinned_and_quick() -> None:
    start = time.process_time()
    corpus = load("toy_language")
    assert time.process_time() - start < 1.0  # 0.03 s measured; the rest is for a busy machine
    assert (len(corpus.train), len(corpus.validation), corpus.vocab_size) == (60_000, 20_000, 16)
    assert corpus.sha256.startswith("d651fbdcbc9fb2c2")


def test_pydoc_topics_is_english_and_warns_of_its_versions() -> None:
    corpus = load("pydoc_topics")
    assert b"Python" in bytes(corpus.train.tolist())
    assert len(corpus.train) > 200_000
    assert "patch" in corpus.description


def test_absent_corpus_names_the_way_out(tmp_path: Path) -> None:
    assert not is_prepared("tiny_shakespeare", home=tmp_path)
    with pytest.raises(DataError) as caught:
        load("tiny_shakespeare", home=tmp_path)
    assert "`pjrope data tiny_shakespeare`" in str(caught.value)
    assert "pydoc_topics" in str(caught.value)
    substitute = load_or_stand_in("tiny_shakespeare", home=tmp_path)
    assert substitute.stand_in
    assert substitute.name == "pydoc_topics (stand-in for tiny_shakespeare)"
    assert load_or_stand_in("toy_language").name == "toy_language"


@pytest.mark.parametrize("function", [load, load_or_stand_in, prepare, is_prepared])
def test_unknown_name_lists_the_names(function: object) -> None:
    with pytest.raises(DataError, match=r"unknown corpus 'tiny'.*tiny_shakespeare, .*toy_language"):
        function("tiny")


def test_damaged_corpus_is_refused_and_not_replaced_by_a_stand_in(tmp_path: Path) -> None:
    file = tmp_path / "tiny_shakespeare" / "input.txt"
    file.parent.mkdir()
    file.write_bytes(b"First Citizen:\n")
    for function in (load, load_or_stand_in):
        with pytest.raises(DataError, match=r"too short: 15 bytes.*pjrope data tiny_shakespeare"):
            function("tiny_shakespeare", home=tmp_path)


def test_nothing_to_prepare_for_a_generated_text(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match="made on the spot"):
        prepare("toy_language")
    assert call("toy_language") == 0
    assert "nothing to download" in capsys.readouterr().out


def test_command_errors_are_one_line_and_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in ([], ["tiny"], ["tiny_shakespeare", "--mirror", str(tmp_path / "none")]):
        assert call(*argv, "--out", str(tmp_path)) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("pjrope: ") and err.count("\n") == 1


def test_list_names_every_corpus_and_its_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--list", "--out", str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert str(tmp_path) in lines[0]
    assert [line.split()[0] for line in lines[1:]] == list(corpus_names())
    assert "absent" in lines[1]
    assert all(
        entry.licence in line for entry, line in zip(manifest().values(), lines[1:], strict=False)
    )


def test_command_is_offered_without_loading_torch() -> None:
    # The package root is replaced by an empty one: what it imports is not this room's affair.
    code = (
        "import sys, types; root = types.ModuleType('pjrope'); root.__path__ = [sys.argv[1]]; "
        "sys.modules['pjrope'] = root; import pjrope.data.command; print('torch' in sys.modules)"
    )
    folder = Path(command.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("content", [b"", b"First Citizen:\n"])
def test_a_run_on_an_empty_or_short_corpus_is_one_clear_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
) -> None:
    file = tmp_path / "tiny_shakespeare" / "input.txt"
    file.parent.mkdir()
    file.write_bytes(content)
    monkeypatch.setenv("PJROPE_DATA", str(tmp_path))
    argv = ["run", "byte_lm/baselines", "--preset", "book", "--out", str(tmp_path / "out")]
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert err.startswith("pjrope: ") and err.count("\n") == 1
    assert f"too short: {len(content)} bytes" in err and "`pjrope data tiny_shakespeare`" in err


def test_a_text_shorter_than_a_window_is_told() -> None:
    corpus = load("toy_language")
    with pytest.raises(ValueError, match="60,000 tokens and a window needs length"):
        sample_windows(corpus.train, batch=1, length=60_000, generator=torch.Generator())
    with pytest.raises(ValueError, match="the text is empty"):
        sample_windows(corpus.test, batch=1, length=16, generator=torch.Generator())
    with pytest.raises(ValueError, match="the text is empty"):
        evaluation_windows(corpus.test, segments=1, scored=8, longest=16)
