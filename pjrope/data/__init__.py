"""Corpora: downloading and verifying them, stand-ins without a network, windows over a text.

Names load on first use, so that the command line can offer `pjrope data` without loading torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pjrope.data.batches import EvaluationWindows, evaluation_windows, sample_windows
    from pjrope.data.corpora import corpus_names, is_prepared, load, load_or_stand_in, prepare
    from pjrope.data.corpus import Corpus
    from pjrope.data.download import fetch, fetch_all
    from pjrope.data.facts import facts_about, model_facts, rotary_config
    from pjrope.data.home import data_home
    from pjrope.data.manifest import CorpusEntry, DataError, FileEntry
    from pjrope.data.synthetic import toy_ideal_nats, toy_language

_HOMES = {
    "corpora": ("corpus_names", "is_prepared", "load", "load_or_stand_in", "prepare"),
    "corpus": ("Corpus",),
    "batches": ("EvaluationWindows", "evaluation_windows", "sample_windows"),
    "synthetic": ("toy_ideal_nats", "toy_language"),
    "manifest": ("CorpusEntry", "DataError", "FileEntry"),
    "download": ("fetch", "fetch_all"),
    "facts": ("facts_about", "model_facts", "rotary_config"),
    "home": ("data_home",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Corpus",
    "CorpusEntry",
    "DataError",
    "EvaluationWindows",
    "FileEntry",
    "corpus_names",
    "data_home",
    "evaluation_windows",
    "facts_about",
    "fetch",
    "fetch_all",
    "is_prepared",
    "load",
    "load_or_stand_in",
    "model_facts",
    "prepare",
    "rotary_config",
    "sample_windows",
    "toy_ideal_nats",
    "toy_language",
]


# Public names of 0.1, for one version more: what takes their place.
_GONE = {"extract": "pjrope.data.archive.take_members reads the members of an archive"}


def __getattr__(name: str) -> Any:
    if name in _GONE:
        raise AttributeError(f"pjrope.data.{name} is gone since 0.2: {_GONE[name]}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
