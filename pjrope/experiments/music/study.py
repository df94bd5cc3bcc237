"""Music models trained on equal terms: what the grids on music share.

A cell trains one method on one corpus of event tokens, keeps its curve, and scores the same segments
at every length. Two counted lines, unigram and bigram, are scored on the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...data import Corpus, evaluation_windows
from ...data.batches import EvaluationWindows
from ...data.music import (
    NAMES,
    MusicCorpus,
    motif_corpus,
    music_or_stand_in,
)
from ...diagnostics import leave_one_out_loss
from ...models import Decoder
from ...training import evaluate
from ..engine.spec import Cell, CellContext, CellResult, Preset
from ..text.allocation import sector_rows
from ..text.lines import bigram_losses, unigram_losses
from ..text.study import DECAYED, bias_rows, fit, loss_row
from .models import TRAININGS, gate_rate, make_model, steps_of_tokens
from .samples import sample_rows

LINES = ("unigram", "bigram")
RATE = 1e-2  # as the byte models; not tuned on music
MORE = Callable[[Decoder, EvaluationWindows, MusicCorpus, Mapping[str, Any]], list[dict[str, Any]]]

BOOK: dict[str, Any] = {
    "width": 96,
    "layers": 2,
    "heads": 4,
    "length": 256,
    "lengths": [256, 1024, 4096, 8192],
    "segments": 16,
    "scored": 512,
    "watched": 32,
    "training": DECAYED | {"steps": 1200, "batch": 8, "warmup": 100, "log_every": 60},
}
SMOKE: dict[str, Any] = {
    "width": 32,
    "layers": 1,
    "heads": 2,
    "length": 64,
    "lengths": [64, 256],
    "segments": 4,
    "scored": 64,
    "watched": 4,
    "training": DECAYED | {"steps": 30, "batch": 4, "warmup": 5, "log_every": 15},
}


def load_corpus(choice: Mapping[str, Any]) -> MusicCorpus:
    """The corpus that a setting describes.

    Args:
        choice: "name", and for generated music "bars" and "seed", else the choice of pieces as in
            :func:`~pjrope.data.music.load_music`.
    """
    rest = {k: v for k, v in choice.items() if k != "name"}
    if choice["name"] in NAMES:
        return motif_corpus(choice["name"], **rest)
    return music_or_stand_in(choice["name"], **rest)


def card_of(music: MusicCorpus) -> list[dict[str, Any]]:
    """What a run card says of a corpus; generated music that was asked for stands in for nothing."""
    stand_in = music.stand_in and "stand-in for" in music.name
    return [{"name": music.name, "sha256": music.sha256, "stand_in": stand_in}]


def corpus_card(preset: Preset) -> list[dict[str, Any]]:
    """The corpora that the cells of a preset read."""
    choices = preset.settings["corpora"].values()
    return [entry for choice in choices for entry in card_of(load_corpus(choice))]


def grid(
    preset: Preset,
    seeds: Sequence[int],
    trainings: Sequence[Sequence[str]] = TRAININGS,
    lines: bool = True,
) -> list[Cell]:
    """Seed by seed, method by method, corpus by corpus; the counted lines first."""
    methods = [LINES, *trainings] if lines else trainings
    return [
        Cell({"method": list(names), "corpus": corpus, "seed": seed})
        for seed in seeds
        for names in methods
        for corpus in preset.settings["corpora"]
    ]


def run_cell(cell: Cell, context: CellContext, more: MORE | None = None) -> CellResult:
    """Rows of kind "loss", "training", "bias", "sectors", "left_out", "sample", and ``more``.

    Args:
        cell: its "method" lists the methods that share a training.
        context: settings and folder.
        more: further rows of a trained model, from it, the test windows, the corpus and the settings.
    """
    settings = context.settings
    music = load_corpus(settings["corpora"][cell.key["corpus"]])
    constant = {"corpus": cell.key["corpus"], "seed": cell.seed}
    windows = windows_of(music, settings)
    if tuple(cell.key["method"]) == LINES:
        rows = [constant | row for row in _lines(music, windows, settings)]
        return CellResult(rows, data=card_of(music))
    first, *readings = cell.key["method"]
    pace = steps_of_tokens(music.train)

    def built(method: str) -> Decoder:
        return make_model(method, settings, music.vocab_size, cell.seed, pace)

    model = built(first).to(context.device)
    rate = gate_rate(first)
    trained = fit(model, text_of(music), cell, context, lr=RATE, gate_lr=rate)
    rows = [constant | {"method": first, "kind": "training"} | trained]
    for method in (first, *readings):
        reader = model if method == first else built(method).to(context.device)
        reader.load_state_dict(model.state_dict())
        found = _loss_rows(reader, windows, settings)
        if more is not None:
            found += more(reader, windows["test"], music, settings)
        if method == first:
            found += _inner_rows(reader, built(first), windows["test"], settings)
        found += sample_rows(method, reader, music.test, cell.seed, settings)
        rows += [constant | {"method": method} | row for row in found]
    return CellResult(rows, data=card_of(music))


def text_of(music: MusicCorpus) -> Corpus:
    """A music corpus as the training loop of the byte models reads one."""
    return Corpus(
        name=music.name,
        description=music.description,
        train=music.train.tokens,
        validation=music.validation.tokens,
        sha256=music.sha256,
        licence=music.licence,
        vocab_size=music.vocab_size,
        stand_in=music.stand_in,
        test=music.test.tokens,
    )


def windows_of(music: MusicCorpus, settings: Mapping[str, Any]) -> dict[str, EvaluationWindows]:
    """The segments of each split that are scored at every length."""
    others = settings.get("other_splits", {})
    longest = {"test": max(settings["lengths"])} | {s: max(n) for s, n in others.items()}
    return {
        split: evaluation_windows(
            music.split(split).tokens,
            segments=settings["segments"],
            scored=settings["scored"],
            longest=most,
        )
        for split, most in longest.items()
    }


def _lengths(split: str, settings: Mapping[str, Any]) -> Sequence[int]:
    found: Sequence[int] = (
        settings["lengths"] if split == "test" else settings["other_splits"][split]
    )
    return found


def _loss_rows(
    model: Decoder, windows: Mapping[str, EvaluationWindows], settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    return [
        {"kind": "loss", "split": split} | loss_row(row)
        for split, cut in windows.items()
        for row in evaluate(model, cut, lengths=_lengths(split, settings))
    ]


def _inner_rows(
    model: Decoder, begun: Decoder, windows: EvaluationWindows, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Learned biases; of gated methods the sectors beside their start and what leaving one out costs."""
    model = model.cpu()
    rows = [{"kind": "bias"} | row for row in bias_rows(model, settings["length"])]
    if not any(hasattr(layer.kernel, "gate_logits") for layer in model.attention_layers):
        return rows
    rows += [{"kind": "sectors"} | _short(row) for row in sector_rows(model, begun, settings)]
    for row in leave_one_out_loss(model, windows, lengths=settings["left_out_at"]):
        if row["left_out"] != "nothing":
            kept = ("left_out", "length", "change", "standard_error")
            rows.append({"kind": "left_out"} | _short({k: row[k] for k in kept}))
    return rows


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()}


def _lines(
    music: MusicCorpus, windows: Mapping[str, EvaluationWindows], settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Counted lines know one length; they are scored once a split and told at each."""
    rows = []
    for split, cut in windows.items():
        lengths = _lengths(split, settings)
        at = cut.positions(max(lengths))
        for method, count in zip(LINES, (unigram_losses, bigram_losses), strict=True):
            losses = count(music.train.tokens, cut.tokens, at, music.vocab_size)
            segments = losses.view(settings["segments"], -1).mean(1)
            facts = {
                "loss": float(losses.mean()),
                "segment_error": float(segments.std() / len(segments) ** 0.5),
                "segments": [float(f"{x:.5g}") for x in segments],
            }
            row = {"method": method, "kind": "loss", "split": split} | facts
            rows += [row | {"length": n} for n in lengths]
    return rows
