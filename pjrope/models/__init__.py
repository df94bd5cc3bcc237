"""Models: one small decoder."""

from .config import DecoderConfig
from .decoder import Decoder

__all__ = ["Decoder", "DecoderConfig"]
