"""The position methods of the music models, by name, and a decoder whose positions are times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ...data.music.corpus import MusicTokens
from ...data.music.event_tokens import COARSE, FINE, VALUE, VOCABULARY
from ...kernels import Affine, PJBias, PJInit, PositionKernel
from ...kernels.alibi import alibi_slopes
from ...models import Decoder, DecoderConfig
from ..text.byte_lm import byte_config
from ..text.methods import MAX_ORDER, SECTORS, make_kernel

__all__ = ["METHODS", "TRAININGS", "TimedDecoder", "make_model", "onset_steps", "steps_of_tokens"]

METHODS = {
    "alibi": "ALiBi's fixed slopes.",
    "alibi_table8": "ALiBi and a number for each of the 8 nearest lags: the plain control.",
    "lc_affine": "Light cone and learned slopes; gates start at the slopes and learn at rate 1.",
    "full": "Fourier jets, learned slopes and light cone; gates as above.",
    "full_uniform": "The same, gates start equal and learn ten times as fast: the other start.",
    "rope_affine": "RoPE and learned slopes.",
    "rope_ntk_affine": "The same weights, RoPE scaled by dynamic NTK.",
    "alibi_time": "ALiBi's fixed slopes over the lag in time, at the mean tempo of the tokens.",
    "affine": "Learned slopes alone.",
    "fj": "Fourier jets of orders 0 to 3.",
    "rope": "RoPE.",
    "pj_rotary": "PJ-rotary of order 2.",
    "alibi_lc": "ALiBi's fixed slopes and a light cone beside them, no gate.",
}
# Methods of one training: the first is trained, the others only read its weights anew.
TRAININGS: tuple[tuple[str, ...], ...] = (
    ("alibi",),
    ("alibi_table8",),
    ("lc_affine",),
    ("rope_affine", "rope_ntk_affine"),
    ("full",),
    ("alibi_time",),
    ("full_uniform",),
)
GATED = {"lc_affine": ("affine", 1.0), "full": ("affine", 1.0), "full_uniform": ("uniform", 10.0)}


class TimedDecoder(Decoder):
    """A decoder over event tokens in which a position is a time, in steps of the tokens' grid.

    The time of a token is what its shifts and those before it add up to, so nothing is read but the
    tokens. Tokens of one chord have one position: the kernel cannot tell them apart.

    Limits: no cache, since cached tokens do not say at which time they end.
    """

    def forward(self, tokens: Tensor, **options: Any) -> Tensor:
        if options.get("cache") is not None:
            raise ValueError("a TimedDecoder has no cache: decode without one")
        return super().forward(tokens, q_pos=onset_steps(tokens), **options)

    def uncacheable(self) -> str | None:
        return "positions are times, which cached keys do not carry on"


def onset_steps(tokens: Tensor) -> Tensor:
    """Time known once each event token is read, from the start of the window.

    Args:
        tokens: ``(B, N)`` int64, of :class:`~pjrope.data.music.EventTokens`.

    Returns:
        ``(B, N)`` int64, grid steps.
    """
    size = torch.zeros(VOCABULARY, dtype=torch.int64)
    size[FINE + 1 : COARSE + 1] = torch.arange(1, COARSE - FINE + 1)
    size[COARSE + 1 : VALUE] = 32 * torch.arange(1, VALUE - COARSE)
    return size.to(tokens.device)[tokens].cumsum(-1)


def steps_of_tokens(music: MusicTokens) -> float:
    """Mean time between two tokens of some music, in grid steps."""
    return float(onset_steps(music.tokens.long()[None])[0, -1]) / len(music)


def make_model(
    method: str, settings: Mapping[str, Any], vocab: int, seed: int, pace: float = 1.0
) -> Decoder:
    """The music model of a method; backbones of equal seeds are equal bit for bit.

    Args:
        method: one of ``METHODS``.
        settings: width, layers, heads and length.
        vocab: number of tokens.
        seed: of the weights.
        pace: mean grid steps a token, for the method that counts time.

    Raises:
        ValueError: an unknown method.
    """
    heads, length = settings["heads"], settings["length"]
    kernel = _kernel(method, settings["width"] // heads, heads, length, pace)
    config = DecoderConfig(**byte_config(settings, vocab), kernel=kernel.spec)
    if method != "alibi_time":
        return Decoder(config, seed=seed)
    model = TimedDecoder(config, seed=seed)
    for layer in model.attention_layers:
        layer.kernel.freeze("raw_slope")
    return model


def _kernel(method: str, head_dim: int, heads: int, length: int, pace: float) -> PositionKernel:
    if method not in METHODS:
        raise ValueError(f"method {method!r}: there are {', '.join(METHODS)}")
    if method in GATED:
        sectors, init = SECTORS[method.partition("_uniform")[0]], PJInit(gates=GATED[method][0])
        return PJBias(heads, length, max_order=MAX_ORDER, sectors=sectors, init=init)
    if method == "alibi_time":
        return Affine(heads, length, slope=alibi_slopes(heads) * length / pace)
    return make_kernel(method, head_dim, heads, length)


def gate_rate(method: str) -> float:
    """How much faster than the rest the gates of a method learn."""
    return GATED.get(method, ("", 1.0))[1]
