"""What a music model plays: continuations as short lists of notes, for a page to sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...data.music import EventTokens, MusicTokens
from ...models import Decoder

__all__ = ["notes_of", "sample_rows"]


def notes_of(tokens: torch.Tensor, grid: float = 0.02) -> list[list[int]]:
    """Event tokens as notes [start, length, pitch, velocity], times in grid steps.

    Args:
        tokens: ``(n,)`` event tokens, decoded by themselves.
        grid: step of the tokens, in seconds.
    """
    found = EventTokens(grid=grid).decode(tokens.tolist()).notes() if len(tokens) else []
    return [[round(s / grid), max(round(n / grid), 1), p, v] for s, n, p, v in found]


def sample_rows(
    method: str, model: Decoder, music: MusicTokens, seed: int, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Continuations of one place of the test music, after a short and after a long context.

    The last of a context's tokens is the same at every length; what follows is drawn from the model
    at temperature 1. Only the model's own notes are kept, none of the context.

    Args:
        method: of the model.
        model: trained.
        music: test pieces.
        seed: of the cell; only one seed plays.
        settings: with "samples": methods, seed, new tokens and multiples of L.

    Returns:
        a row of kind "sample" for each multiple: ``span`` (contexts and continuation together, in L),
        ``context`` and ``tokens`` (how many), and ``notes``.
    """
    chosen = settings.get("samples")
    if chosen is None or method not in chosen["methods"] or seed != chosen["seed"]:
        return []
    new, length = chosen["tokens"], settings["length"]
    end = max(chosen["spans"]) * length
    rows = []
    for span in chosen["spans"]:
        context = span * length - new
        prompt = music.tokens[end - context : end].long()
        found = model.cpu().generate(prompt, new, seed=seed, progress=False)
        notes = notes_of(found[context:])
        rows.append(
            {"kind": "sample", "span": span, "context": context, "tokens": new, "notes": notes}
        )
    return rows
