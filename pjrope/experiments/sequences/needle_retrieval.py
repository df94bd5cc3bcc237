"""A toy: find a key among noise and say the value that stood next to it, by distance.

A sequence holds P key-value pairs at random places, noise elsewhere, and at its end QUERY and one
of the keys; the answer is that key's value. Lines say what an accuracy is worth: chance, and readers
who see which values occur, and in which order, but not next to which key. The answer does not hang on
the distance, so a position method can only be in the way, or help to tell neighbours. One label a
sequence teaches slowly: at the book's scale the sentence below the table says whether anything was
learned beyond which values occur.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ...training import stream
from ..analysis.claims import SMALLEST_EFFECT
from ..analysis.statistics import Summary, summary, verdict
from ..engine.result import Result
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .language import SPECIAL, needle_sampler
from .methods import kernel_of
from .training import (
    LastToken,
    decoder,
    examine,
    fit,
    method_cells,
    presets,
    settings_of,
)


def majority(tokens: Tensor, keys: int) -> float:
    """Expected accuracy of a reader who names the most frequent value of the sequence.

    Args:
        tokens: ``(batch, N)``.
        keys: how many key tokens there are.
    """
    first = SPECIAL + keys
    counts = torch.nn.functional.one_hot((tokens - first).clamp(min=-1) + 1).sum(1)[:, 1:]
    return float((counts.amax(1).double() / counts.sum(1)).mean())


def make_model(settings: Mapping[str, Any], method: str, seed: int) -> LastToken:
    """A decoder that may answer with any token of the vocabulary."""
    vocab = SPECIAL + settings["keys"] + settings["values"]
    return LastToken(decoder(settings, kernel_of(method, settings), vocab, seed), answers=vocab)


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings = context.settings
    pairs, keys, values = settings["pairs"], settings["keys"], settings["values"]
    model = make_model(settings, cell.key["method"], cell.seed).to(context.device)
    loss = fit(model, needle_sampler(pairs, keys, values), cell, context)
    rows = []
    for length in settings["lengths"]:
        for distance in [d for d in settings["distances"] if d <= length - 2]:
            sample = needle_sampler(pairs, keys, values, distance)
            draw = stream(cell.seed, "exam", length, distance)
            tokens, labels = sample(draw, settings["sequences"], length)
            rows.append(
                {
                    **cell.key,
                    "length": length,
                    "distance": distance,
                    **examine(model, tokens, labels),
                    "chance": 1 / values,
                    "majority": majority(tokens, keys),
                    "train_loss": loss,
                }
            )
    return rows


def by_rank(tokens: Tensor, labels: Tensor, keys: int) -> list[float]:
    """Accuracy of readers who name the last value of the sequence, the last but one, and so on.

    Args:
        tokens: ``(batch, N)``, as many values in each.
        labels: ``(batch, 1)``.
        keys: how many key tokens there are.
    """
    values = tokens[tokens >= SPECIAL + keys].view(len(tokens), -1)
    return (values.flip(1) == labels).double().mean(0).tolist()


def retrieval_rule(result: Result) -> list[str]:
    """Say what guessing is worth, and which methods do better: those that retrieve at all.

    The rule: a method retrieves if its accuracy less that of the best reader who never looks at the
    key, a mean over exams for each seed, is at least 0.03 with a 95 % interval that leaves out 0.
    Before the run that reader named the most frequent value. The run then showed a method that
    names what stands nearest, which at a fixed distance is often right: readers who name the last
    value, the last but one, and so on were added.

    Args:
        result: of ``needle_retrieval``.

    Returns:
        Sentences; none without rows.
    """
    if not result.rows:
        return []
    lines = _blind(result)
    level = {name: fmean(found.values()) for name, found in lines.items()}
    best = max(level, key=lambda name: level[name])
    said = (
        f"Guessing any value is right {result.rows[0]['chance']:.3f} of the time, naming the most "
        f"frequent value of the sequence {level['the most frequent value']:.3f}; the best of the "
        f"readers who never look at the key names {best}: {level[best]:.3f}."
    )
    if len(lines[best]) < 2:
        return [said]
    methods = dict.fromkeys(row["method"] for row in result.rows)
    gains = {m: _gain(result.where(method=m), lines[best]) for m in methods}
    smallest = SMALLEST_EFFECT["accuracy"]
    found = [m for m, gain in gains.items() if verdict(gain, smallest, "higher") == "better"]
    top = max(gains, key=lambda m: gains[m].mean or 0.0)
    closest = f"The closest is {top}, {gains[top].text(sign=True)} against that reader."
    if found:
        return [said, f"Better than that, and so retrieving: {', '.join(found)}. {closest}"]
    return [
        said,
        f"No method does better than that. {closest} None is shown to retrieve after so short a "
        "training, and nothing follows about positions.",
    ]


def _blind(result: Result) -> dict[str, dict[int, float]]:
    """Accuracy by seed, over all its exams, of readers who never look at the key."""
    settings = result.card["settings"]
    pairs, keys, values = (settings[name] for name in ("pairs", "keys", "values"))
    ranks = ["the last value", *(f"value {r} from the end" for r in range(2, 1 + pairs))]
    found: dict[str, dict[int, list[float]]] = {}
    for seed, n, distance in sorted({(r["seed"], r["length"], r["distance"]) for r in result.rows}):
        sample = needle_sampler(pairs, keys, values, distance)
        exam = sample(stream(seed, "exam", n, distance), settings["sequences"], n)
        right = dict(zip(ranks, by_rank(*exam, keys), strict=True))
        right["the most frequent value"] = majority(exam[0], keys)
        for name, value in right.items():
            found.setdefault(name, {}).setdefault(seed, []).append(value)
    return {name: {s: fmean(v) for s, v in by.items()} for name, by in found.items()}


def _gain(result: Result, line: Mapping[int, float]) -> Summary:
    """Accuracy over all exams of one method less a line, seed by seed."""
    mine = {s: [row["accuracy"] for row in result.where(seed=s).rows] for s in line}
    return summary(fmean(a) - line[s] for s, a in mine.items() if a)


def _settings(length: int, steps: int, **changes: Any) -> dict[str, Any]:
    own = {
        "width": 64,
        "heads": 4,
        "lengths": [length, 4 * length],
        "distances": [length // 8, length // 2, length - 2, 2 * length, 4 * length - 2],
        "pairs": 4,
        "keys": 16,
        "values": 16,
        "methods": ["rope", "rope_trunc", "stabilized", "scaled", "alibi", "rope_alibi"],
    }
    training = {"steps": steps, "batch": 32, "lr": 3e-3, "warmup": 20}
    return settings_of(length, training, **{**own, **changes})


SMALL = {
    "width": 32,
    "heads": 2,
    "pairs": 2,
    "keys": 4,
    "values": 4,
    "methods": ["rope_trunc", "stabilized"],
}
LARGE = {"width": 256, "heads": 8, "layers": 4, "pairs": 32, "keys": 128, "values": 128}

EXPERIMENT = Experiment(
    name="needle_retrieval",
    question="Does a position method stand in the way of finding a key among noise, by distance?",
    claims=(),
    presets=presets(
        Preset("smoke", (0,), _settings(32, 60, **SMALL), "4 core-seconds"),
        Preset("book", (0, 1, 2, 3, 4), _settings(128, 800), "about 20 core-minutes"),
        Preset("paper", (0, 1, 2), _settings(1024, 2000, **LARGE), "not run yet; many core-hours"),
    ),
    cells=method_cells,
    run_cell=_run_cell,
    baseline="rope_trunc",
    tables=(
        Table(
            "Accuracy by length of the exam and distance of the key",
            value="accuracy",
            columns=("length", "distance"),
            better="higher",
            smallest_effect=SMALLEST_EFFECT["accuracy"],
        ),
    ),
    sentences=retrieval_rule,
)
