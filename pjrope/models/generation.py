"""Text from a decoder: greedy or sampled, in batches, with or without a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..positions.indices import left_padded_positions

if TYPE_CHECKING:
    from .decoder import Decoder


def generate(
    model: Decoder,
    prompt: Tensor,
    steps: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | torch.Generator = 0,
    real: Tensor | None = None,
    stop: int | None = None,
    cached: bool | None = None,
    progress: bool = True,
) -> Tensor:
    """Continue prompts token by token; see :meth:`pjrope.Decoder.generate`."""
    rows = prompt[None] if prompt.ndim == 1 else prompt
    _check(model, rows, steps, temperature, top_k, top_p, real, stop)
    reason = model.uncacheable()
    if cached and reason is not None:
        raise ValueError(f"cached=True: {reason}; pass cached=False")
    cached = reason is None if cached is None else cached
    generator = _generator(seed, rows.device)
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        tokens = _continue(
            model, rows, steps, _Choice(temperature, top_k, top_p, generator), real, stop, cached,
            progress,
        )  # fmt: skip
    finally:
        for module, was in training.items():
            module.training = was
    return tokens[0] if prompt.ndim == 1 else tokens


class _Choice:
    """How the next token follows from its logits."""

    def __init__(
        self,
        temperature: float,
        top_k: int | None,
        top_p: float | None,
        generator: torch.Generator,
    ) -> None:
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.generator = generator

    def __call__(self, logits: Tensor) -> Tensor:
        """``(B, vocab)`` to ``(B, 1)``."""
        logits = logits.float()
        if self.temperature == 0:
            return logits.argmax(-1, keepdim=True)
        logits = logits / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        shares = logits.softmax(-1)
        if self.top_p is not None:
            shares = _nucleus(shares, self.top_p)
        return torch.multinomial(shares, 1, generator=self.generator)


def _nucleus(shares: Tensor, most: float) -> Tensor:
    """The likeliest tokens whose shares add up to ``most`` at least; others get nothing."""
    ordered, where = shares.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(shares).scatter(-1, where, ordered.masked_fill(before >= most, 0.0))


@torch.no_grad()
def _continue(
    model: Decoder,
    tokens: Tensor,
    steps: int,
    choose: _Choice,
    real: Tensor | None,
    stop: int | None,
    cached: bool,
    progress: bool,
) -> Tensor:
    cache = model.new_cache() if cached else None
    ended = torch.zeros(len(tokens), 1, dtype=torch.bool, device=tokens.device)
    for step in tqdm(range(steps), "generating", delay=5, disable=not progress):
        fresh = tokens if cache is None or step == 0 else tokens[:, -1:]
        placed = {}
        if real is not None:
            placed["q_pos"] = left_padded_positions(real)[:, -fresh.shape[1] :]
            placed["keep"] = real[:, None, None]
        logits = model(fresh, cache=cache, **placed)[:, -1]
        drawn = choose(logits)
        if stop is not None:
            drawn = drawn.masked_fill(ended, stop)
            ended = ended | (drawn == stop)
        tokens = torch.cat([tokens, drawn], dim=1)
        if real is not None:
            real = torch.cat([real, torch.ones_like(ended)], dim=1)
        if stop is not None and bool(ended.all()):
            break
    return tokens


def _generator(seed: int | torch.Generator, device: torch.device) -> torch.Generator:
    if isinstance(seed, torch.Generator):
        return seed
    return torch.Generator(device).manual_seed(seed)


def _check(
    model: Decoder,
    rows: Tensor,
    steps: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    real: Tensor | None,
    stop: int | None,
) -> None:
    vocab = model.config.vocab
    if rows.ndim != 2 or not rows.shape[1] or rows.dtype != torch.int64:
        raise ValueError(
            f"prompt is {rows.dtype} of shape {tuple(rows.shape)}: int64 tokens (N,) or (B, N), N "
            ">= 1, are needed; an unconditional start needs a start token of your own"
        )
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < vocab:
        raise ValueError(
            f"prompt has tokens {int(rows.min())} to {int(rows.max())}, the model knows 0 to "
            f"{vocab - 1}"
        )
    if steps < 1:
        raise ValueError(f"steps is {steps}, at least 1 new token is needed")
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature is {temperature}: 0 for greedy, 1 for the model's own, ...")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}, at least 1 token must stay")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}, a share in (0, 1] is needed")
    if stop is not None and not 0 <= stop < vocab:
        raise ValueError(f"stop is {stop}, the model knows tokens 0 to {vocab - 1}")
    if real is None:
        return
    if real.shape != rows.shape or real.dtype != torch.bool:
        raise ValueError(
            f"real is {real.dtype} of shape {tuple(real.shape)}: a boolean {tuple(rows.shape)}, "
            "True at tokens that are no padding, is needed"
        )
    if not bool((real[:, 1:] >= real[:, :-1]).all() and real[:, -1].all()):
        raise ValueError("real has padding behind a token: pad prompts on the left")
