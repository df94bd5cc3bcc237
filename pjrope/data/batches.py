"""Windows over a text: random ones to train on, fixed ones to evaluate with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def sample_windows(
    tokens: Tensor, *, batch: int, length: int, generator: torch.Generator
) -> Tensor:
    """Draw training windows at uniformly random starts, with replacement.

    Args:
        tokens: text (n,), integers.
        batch: number of windows.
        length: predictions per window, in tokens.
        generator: source of the starts; the only randomness.

    Returns:
        Windows (batch, length + 1), int64, on the device of `tokens`: inputs are `[:, :-1]`,
        targets `[:, 1:]`.

    Raises:
        ValueError: when the text is shorter than one window, or batch or length is below 1.
    """
    if batch < 1 or length < 1:
        raise ValueError(f"batch is {batch} and length {length}; both must be at least 1")
    _not_empty(tokens)
    if len(tokens) <= length:
        raise ValueError(
            f"the text has {len(tokens):,} tokens and a window needs length + 1 = {length + 1:,}; "
            "shorten the window or take a longer text"
        )
    starts = torch.randint(
        len(tokens) - length, (batch,), generator=generator, device=generator.device
    )
    return _gather(tokens, starts, length + 1)


@dataclass(frozen=True, eq=False)
class EvaluationWindows:
    """Fixed segments of a text that are scored, the same ones at every context length.

    Made by `evaluation_windows`.

    Args:
        tokens: text (n,), integers.
        ends: index after the last scored token of each segment, ascending.
        scored: tokens scored per segment.
        longest: longest context length that fits before the first segment, in tokens.
    """

    tokens: Tensor
    ends: tuple[int, ...]
    scored: int
    longest: int

    def windows(self, length: int) -> tuple[Tensor, int]:
        """Cut the windows that score every segment with a context of `length` tokens.

        A window of T predictions scores its last m = min(scored, ⌊T/2⌋), so each scored token is
        predicted from at least T/2 others; when m < scored, a segment becomes scored/m windows.

        Args:
            length: context length T, in tokens: predictions per window.

        Returns:
            Windows (segments · scored/m, T + 1), int64, and T − m, the first prediction to score.
            The scored tokens, flattened, come in the same order at every T.

        Raises:
            ValueError: when T is below 2 or above `longest`, or ⌊T/2⌋ does not divide `scored`.
        """
        share = self._share(length)
        starts = self._last_targets(share) - length
        return _gather(self.tokens, starts, length + 1), length - share

    def positions(self, length: int) -> Tensor:
        """Return where the scored tokens stand in the text.

        Args:
            length: context length T, in tokens.

        Returns:
            Indices (segments · scored/m, m), int64, matching the scored part of `windows(T)`.

        Raises:
            ValueError: as `windows`.
        """
        share = self._share(length)
        return self._last_targets(share)[:, None] + torch.arange(1 - share, 1)

    def _share(self, length: int) -> int:
        if not 2 <= length <= self.longest:
            raise ValueError(
                f"context length {length:,} is outside 2 … {self.longest:,}; "
                "make the windows with a larger `longest`"
            )
        share = min(self.scored, length // 2)
        if self.scored % share:
            raise ValueError(
                f"context length {length:,} scores {share:,} tokens a window, which does not "
                f"divide the {self.scored:,} of a segment; use a length whose half divides it"
            )
        return share

    def _last_targets(self, share: int) -> Tensor:
        steps = torch.arange(share - self.scored, 1, share)
        return (torch.tensor(self.ends)[:, None] - 1 + steps).flatten()


def evaluation_windows(
    tokens: Tensor, *, segments: int, scored: int, longest: int
) -> EvaluationWindows:
    """Choose the scored segments of a text: evenly spread, apart, the first as early as it fits.

    Args:
        tokens: text (n,), integers.
        segments: number of scored segments.
        scored: tokens scored per segment.
        longest: longest context length T that will be asked for, in tokens.

    Returns:
        The segments; contexts of neighbouring segments may overlap, scored tokens never do.

    Raises:
        ValueError: for a number below 1 (`longest`: below 2), or a text that is too short.
    """
    if segments < 1 or scored < 1 or longest < 2:
        raise ValueError(
            f"segments {segments} and scored {scored} must be at least 1, longest {longest} "
            "at least 2"
        )
    _not_empty(tokens)
    # The first window of the first segment must hold `longest` tokens before its last target.
    first = longest + 1 + scored - min(scored, longest // 2)
    needed = first + (segments - 1) * scored
    if len(tokens) < needed:
        raise ValueError(
            f"the text has {len(tokens):,} tokens, but {segments:,} segments of {scored:,} scored "
            f"tokens with contexts up to {longest:,} need {needed:,}; use fewer or shorter "
            "segments, a smaller `longest` or a longer text"
        )
    room, gaps = len(tokens) - first, max(segments - 1, 1)
    # Integer division keeps the spacing at or above floor(room / gaps) ≥ scored.
    ends = tuple(first + index * room // gaps for index in range(segments))
    return EvaluationWindows(tokens=tokens, ends=ends, scored=scored, longest=longest)


def _not_empty(tokens: Tensor) -> None:
    if not len(tokens):
        raise ValueError("the text is empty; a corpus may lack this split, see Corpus.split")


def _gather(tokens: Tensor, starts: Tensor, width: int) -> Tensor:
    index = starts[:, None] + torch.arange(width, device=starts.device)
    return tokens[index.to(tokens.device)].to(torch.int64)
