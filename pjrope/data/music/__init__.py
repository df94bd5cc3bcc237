"""Music: MIDI files, two tokenisers, the corpora MAESTRO and MusicNet, and generated motifs."""

from pjrope.data.music.byte_text import ByteText, text_header
from pjrope.data.music.corpus import MusicCorpus, MusicTokens, load_music, music_corpus
from pjrope.data.music.event_tokens import EventTokens, token_name
from pjrope.data.music.midi import read_midi
from pjrope.data.music.motifs import (
    FORMS,
    NAMES,
    MotifForm,
    motif_bars,
    motif_corpus,
    music_or_stand_in,
)
from pjrope.data.music.pieces import Piece, pieces, select
from pjrope.data.music.score import GridScore, Score, grid_score

__all__ = [
    "FORMS",
    "NAMES",
    "ByteText",
    "EventTokens",
    "GridScore",
    "MotifForm",
    "MusicCorpus",
    "MusicTokens",
    "Piece",
    "Score",
    "grid_score",
    "load_music",
    "motif_bars",
    "motif_corpus",
    "music_corpus",
    "music_or_stand_in",
    "pieces",
    "read_midi",
    "select",
    "text_header",
    "token_name",
]
