"""Pieces of the two corpora: what is whole, what is excluded and why, and the corpus made of them."""

from __future__ import annotations

import csv
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from pjrope.cli import main
from pjrope.data import DataError, is_prepared, load, load_or_stand_in, prepare
from pjrope.data.manifest import manifest
from pjrope.data.music import (
    ByteText,
    EventTokens,
    load_music,
    music_or_stand_in,
    pieces,
    select,
    text_header,
)
from pjrope.data.music.score import ON

Mirror = Callable[..., Path]
MAESTRO = "maestro-v3.0.0/maestro-v3.0.0.csv"
MUSICNET = "musicnet/musicnet_metadata.csv"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Make a mirror folder with a few of the shortest pieces of each split, once."""
    made: dict[Path, Path] = {}

    def make(mirror: Path) -> Path:
        if mirror not in made:
            target = tmp_path_factory.mktemp("mirror")
            with open(mirror / "maestro-v3.0.0" / "SUBSET.csv", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            chosen = [MAESTRO, MUSICNET]
            for split in ("train", "validation", "test"):
                names = [row["midi_filename"] for row in rows if row["split"] == split]
                chosen += [
                    f"maestro-v3.0.0/{name}" for name in names[: 4 if split == "train" else 2]
                ]
            midis = sorted(
                mirror.glob("musicnet/musicnet_midis/*/*.mid"), key=lambda p: p.stat().st_size
            )
            chosen += [str(path.relative_to(mirror)) for path in midis[:40]]
            for path in chosen:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(mirror / path, target / path)
            made[mirror] = target
        return made[mirror]

    return make


@pytest.fixture
def mirror(real_mirror: Mirror, small: Callable[[Path], Path]) -> Path:
    return small(real_mirror(MAESTRO, MUSICNET, "maestro-v3.0.0/SUBSET.csv"))


def test_lists_of_hashes_are_whole() -> None:
    maestro, musicnet = manifest()["maestro"].files, manifest()["musicnet"].files
    assert (len(maestro), len(musicnet)) == (1 + 1276, 1 + 330)
    splits = [file.split for file in maestro[1:]]
    assert [splits.count(s) for s in ("train", "validation", "test")] == [962, 137, 177]
    assert all(file.sha256 and file.archive for file in maestro[1:])
    assert all(file.seen and file.sha256 is None for file in musicnet[1:])
    assert "no commercial use" in manifest()["maestro"].licence


def test_a_subset_mirror_is_prepared_and_the_licence_shown(
    mirror: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, count, licence in (("maestro", 9, "CC BY-NC-SA 4.0"), ("musicnet", 41, "CC BY 4.0")):
        assert not is_prepared(name, home=tmp_path)
        assert main(["data", name, "--mirror", str(mirror), "--out", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert f"verified {count} files in all" in out and licence in out
        assert "left out" in out and "mirror has no file" in out
        assert is_prepared(name, home=tmp_path)
    assert "musicnet: piece 2194 is excluded when read, damaged before" in out
    assert main(["data", "--list", "--out", str(tmp_path)]) == 0
    assert (
        "58.7 MB, CC BY-NC-SA 4.0: no commercial use [ready, 8 of 1,276 pieces]"
        in capsys.readouterr().out
    )


def test_a_mirror_without_a_piece_is_an_error(mirror: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare" / MAESTRO
    bare.parent.mkdir(parents=True)
    shutil.copyfile(mirror / MAESTRO, bare)
    with pytest.raises(DataError, match="mirror has no file"):
        prepare("maestro", mirror=tmp_path / "bare", home=tmp_path / "home")
    with pytest.raises(DataError, match="no piece of maestro is there"):
        load_music("maestro", home=tmp_path / "home")
    for function in (load, load_or_stand_in):
        with pytest.raises(DataError, match=r"pjrope\.data\.music\.load_music"):
            function("maestro", home=tmp_path)


def test_splits_and_tables(mirror: Path) -> None:
    found, excluded = pieces("maestro", home=mirror)
    assert (len(found), excluded) == (8, {})
    assert len(pieces("maestro", split="test", home=mirror)[0]) == 2
    for piece in found:
        score = piece.read()
        last = score.seconds[score.kind <= ON].max()  # pedals go on for a while
        assert last == pytest.approx(piece.seconds, abs=0.2), piece.id
    with pytest.raises(DataError, match="has no split 'train'"):
        pieces("musicnet", split="train", home=mirror)
    with pytest.raises(DataError, match="unknown music corpus 'midi'; the corpora are maestro"):
        pieces("midi", home=mirror)
    with pytest.raises(DataError, match="run `pjrope data maestro`"):
        pieces("maestro", home=mirror / "none")


def test_choosing_pieces(mirror: Path) -> None:
    found, _ = pieces("maestro", home=mirror)
    lengths = [piece.seconds for piece in select(found)]
    assert lengths == sorted(lengths) == [p.seconds for p in select(found, order="longest")][::-1]
    assert select(found, order="table", count=3) == found[:3]
    one, two = (select(found, order="random", count=5, seed=s) for s in (29, 37))
    assert one != two and one == select(found, order="random", count=5, seed=29)
    with pytest.raises(ValueError, match="order 'best' is unknown"):
        select(found, order="best")
    with pytest.raises(ValueError, match="at least one piece"):
        select(found, count=0)


def test_damage_is_found_listed_and_left_out(
    mirror: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    shutil.copytree(mirror, home)
    victim = pieces("maestro", split="train", home=home)[0][0]
    # What a git attribute "text" did to 309 files of a public copy.
    victim.path.write_bytes(victim.path.read_bytes().replace(b"\r\n", b"\n") + b"\n")
    with pytest.warns(UserWarning, match="maestro: 1 damaged pieces left out"):
        corpus = load_music("maestro", home=home)
    assert "altered" in corpus.excluded[victim.id] and victim.id not in corpus.train.names
    assert corpus.card()["excluded"] == corpus.excluded
    # The same damage in a mirror is named, and the other pieces come.
    assert main(["data", "maestro", "--mirror", str(home), "--out", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert f"left out {victim.path.name}" in out and "altered" in out
    assert len(pieces("maestro", home=tmp_path / "new")[0]) == 7


def test_pieces_damaged_before_publication_are_left_out(real_mirror: Mirror) -> None:
    home = real_mirror(MUSICNET, "musicnet/musicnet_midis/Bach/2194_prelude13.mid")
    found, excluded = pieces("musicnet", home=home)
    assert (len(found), len(excluded)) == (293, 37)
    unreadable = {"2194", "2211", "2227", "2230", "2292", "2305", "2310"}
    assert unreadable <= set(excluded)
    assert all("damaged before it was published" in reason for reason in excluded.values())
    # Of this transcriber, one file has its LF bytes and one has neither LF nor CR.
    assert {"2195", "2198"} <= {piece.id for piece in found}


def test_a_corpus_keeps_the_official_splits_and_names_its_pieces(mirror: Path) -> None:
    corpus = load_music("maestro", count=3, held_out=1, home=mirror)
    splits = [corpus.split(name) for name in ("train", "validation", "test")]
    assert [len(split.names) for split in splits] == [3, 1, 1]
    official = {piece.id: piece.split for piece in pieces("maestro", home=mirror)[0]}
    for name in ("train", "validation", "test"):
        assert {official[i] for i in corpus.card()["pieces"][name]} == {name}
    whole = torch.cat([split.tokens for split in splits]).numpy().astype("<u2").tobytes()
    assert hashlib.sha256(whole).hexdigest() == corpus.sha256
    assert int(corpus.train.tokens.max()) < corpus.vocab_size <= 512
    assert "no commercial use" in corpus.licence and not corpus.stand_in
    train = corpus.train
    assert len(train.seconds) == len(train) and (np.diff(train.seconds.numpy()) >= 0).all()
    for start in train.starts:
        assert int(train.tokens[start]) == 0
    first = next(p for p in pieces("maestro", home=mirror)[0] if p.id == train.names[0])
    tokens, _ = EventTokens().encode(first.read())
    assert train.tokens[: train.starts[1]].tolist() == tokens.tolist()
    with pytest.raises(DataError, match="split 'dev' is unknown"):
        corpus.split("dev")


def test_musicnet_is_cut_by_pieces_and_by_the_seed(mirror: Path) -> None:
    with pytest.warns(UserWarning, match="damaged pieces left out"):
        corpora = [
            load_music("musicnet", order="random", count=6, held_out=2, seed=s, home=mirror)
            for s in (29, 37)
        ]
    for corpus in corpora:
        names = [name for part in corpus.card()["pieces"].values() for name in part]
        assert len(names) == len(set(names)) == 10
    assert corpora[0].sha256 != corpora[1].sha256


def test_text_form_of_a_corpus(mirror: Path) -> None:
    corpus = load_music("maestro", tokenizer=ByteText(), count=2, held_out=1, home=mirror)
    text = bytes(corpus.train.tokens.numpy().tobytes())
    lines = text.decode("ascii").splitlines()
    assert corpus.vocab_size == 256 and len(lines) == 2
    assert [line.split(" ")[0][:24] for line in lines] == [
        "PIECE=0000|SPLIT=train|D",
        "PIECE=0001|SPLIT=train|D",
    ]
    assert text_header({"A": "x"}) == "A=x"


def test_the_papers_default_corpus_has_the_known_size(real_mirror: Mirror) -> None:
    home = real_mirror(MAESTRO, "maestro-v3.0.0/SUBSET.csv")
    chosen = select(pieces("maestro", split="train", home=home)[0], count=64)
    assert sum(piece.path.stat().st_size for piece in chosen) == 1_016_225
    assert sum(int((piece.read().kind <= ON).sum()) for piece in chosen) == 219_906


def test_a_stand_in_needs_no_download(mirror: Path, tmp_path: Path) -> None:
    corpus = music_or_stand_in("maestro", home=tmp_path)
    assert corpus.stand_in and corpus.name == "motif_short (stand-in for maestro)"
    assert not music_or_stand_in("maestro", count=1, held_out=1, home=mirror).stand_in
    assert music_or_stand_in("motif_long", home=tmp_path).name == "motif_long"
    with pytest.raises(DataError, match="unknown music corpus 'midi'"):
        music_or_stand_in("midi", home=tmp_path)
