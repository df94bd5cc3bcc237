"""Models: one small decoder."""

from .decoder import Decoder, DecoderConfig

__all__ = ["Decoder", "DecoderConfig"]
