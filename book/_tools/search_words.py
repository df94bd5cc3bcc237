"""Sphinx extension: the words that readers type, as index entries of the section that answers them.

The site's search ranks an index entry above every other hit, and the printed book gets its index.
"""

from __future__ import annotations

from collections.abc import Iterable

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

# A page and the id of a section in it; chapters go by their slug.
WORDS = {
    "ch-order": ("Learned positions", "Absolute positions", "Position embeddings", "NoPE"),
    "ch-rope": ("RoPE", "Rotary embeddings", "Partial RoPE"),
    "ch-stretch": (
        "YaRN", "NTK scaling", "Position interpolation", "LongRoPE", "RoPE scaling", "p-RoPE",
        "Extrapolation", "Context length", "Context extension", "Long context",
    ),
    "ch-jordan": ("Jordan block", "Jordan-RoPE", "xPos", "RetNet"),
    "ch-phase-language": ("Phase language", "Coupled mode"),
    "ch-alibi": (
        "ALiBi", "Recency", "T5", "T5 buckets", "KERPLE", "Sliding window", "Length generalization",
    ),
    "ch-union": ("GRAPE", "State space models", "Mamba", "Linear recurrences", "PJ-RoPE"),
    "ch-gates": ("Gates", "Ablation", "Identifiability"),
    "ch-lightcone": ("Light cone", "Needle in a haystack", "Retrieval benchmarks"),
    "ch-speed": (
        "Flash attention", "FlashAttention", "FlexAttention", "KV cache", "Triton", "Memory", "SDPA",
    ),
    "ch-language": ("Language models", "WikiText", "Perplexity"),
    "ch-music": ("Music", "MIDI", "MAESTRO"),
    "ch-your-model": ("Llama", "Fine-tuning", "Your own data", "Diagnose"),
    "ch-ledger": ("Claims", "Verdicts", "Reproduction", "Headlines of the papers"),
    "appendix/usage#add-recency-to-a-llama": ("Llama", "Hugging Face", "Transformers", "Add recency"),
    "appendix/usage#decode-with-a-cache": ("KV cache", "Decoding"),
    "appendix/usage#let-a-rotary-model-read-further": ("Context length", "RoPE scaling"),
    "appendix/usage#a-bias-for-flexattention-or-for-sdpa": ("FlexAttention", "SDPA"),
    "index#run-gpu": ("GPU", "Colab", "Colab GPU", "GPU on Colab", "CUDA"),
    "index#run-here": ("Install", "Installation"),
    "appendix/models#models-in-the-wild": ("Qwen", "Gemma", "DeepSeek", "Mistral"),
}  # fmt: skip


def here(page: str, pages: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Ids of a page's sections and their words."""
    slugs = {name.partition("_")[2].replace("_", "-"): name for name in pages if "/ch" in name}
    found: dict[str, tuple[str, ...]] = {}
    for place, words in WORDS.items():
        owner, _, anchor = place.partition("#")
        if not anchor:
            slug = owner.removeprefix("ch-")
            owner, anchor = slugs.get(slug, ""), f"ch-{slug}"
        if owner == page:
            found[anchor] = (*found.get(anchor, ()), *words)
    return found


class SearchWords(SphinxTransform):
    """Puts the index entries of a page before its sections, where the search collects them."""

    default_priority = 800  # after labels have become ids, before the index is read

    def apply(self, **_: object) -> None:
        env = self.document.settings.env
        sections = {id: node for node in self.document.findall(nodes.section) for id in node["ids"]}
        for anchor, words in here(env.docname, env.found_docs).items():
            if anchor not in sections:
                logging.getLogger(__name__).warning(
                    "search_words.py: %s has no section %r", env.docname, anchor
                )
                continue
            entries = [("single", word, anchor, "main", None) for word in words]
            sections[anchor].insert(1, addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(SearchWords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
