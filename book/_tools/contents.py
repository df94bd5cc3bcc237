"""The chapters as their files and cards describe them: number, title, question, cost, exercises."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checks import published_ref, published_url, toc_files


@dataclass(frozen=True)
class Part:
    """A chapter of the book.

    Args:
        number: of its file.
        label: as links to it say, without "ch-".
        title: its first heading.
        question: of its card.
        cpu: what its card says of the time on a processor.
        gpu: what its card says of a GPU.
        file: relative to the repository.
        exercises: label and title of each, in order.
    """

    number: int
    label: str
    title: str
    question: str
    cpu: str
    gpu: str
    file: str
    exercises: tuple[tuple[str, str], ...]


# Subjects without a chapter of their own (5 and 11), and the chapter that teaches them.
TAUGHT_IN = {"forms": "jordan", "codes": "lightcone"}


def chapters(book: Path) -> list[Part]:
    """The chapters that the contents name, in their order.

    Raises:
        ValueError: a chapter without label, title, or card.
    """
    names = [n for n in toc_files(book / "_toc.yml") if re.match(r"chapters/ch\d\d_", n)]
    return [_part(book, name) for name in names]


def _part(book: Path, name: str) -> Part:
    stem = re.sub(r"[.](ipynb|md)$", "", name)
    text = (book / f"{stem}.md").read_text(encoding="utf8")

    def found(pattern: str, what: str) -> str:
        match = re.search(pattern, text, re.M | re.S)
        if match is None:
            raise ValueError(f"{stem}.md has no {what}")
        return " ".join(match[1].split())

    cost = found(r"^- \*\*Cost\*\* (.+?)(?=^- \*\*|^:::)", "line **Cost** in its card")
    exercises = re.findall(r"^:+\{exercise\} *(.*?)\n:label: (\S+)$", text, re.M)
    return Part(
        number=int(stem[len("chapters/ch") :][:2]),
        label=found(r"^\(ch-([a-z0-9-]+)\)=$", "label"),
        title=found(r"^# (.+?)$", "title"),
        question=found(r"^- \*\*Question\*\* (.+?)(?=^- \*\*|^:::)", "question in its card"),
        cpu=re.split(r"[;.] ", cost)[0].rstrip(".").removesuffix(" on one CPU core"),
        gpu=_gpu(cost),
        file=f"book/{stem}.ipynb",
        exercises=tuple((label, title) for title, label in exercises),
    )


def colab(root: Path, part: Part) -> str:
    """Where Colab opens a chapter, at the branch or tag that _config.yml names."""
    place = published_url(root).removeprefix("https://github.com/")
    return (
        f"https://colab.research.google.com/github/{place}/blob/{published_ref(root)}/{part.file}"
    )


def linker(parts: list[Part], write: Callable[[Part], str]) -> Callable[[str], str]:
    """From a chapter's slug to a link: of the chapter, of the one that stands in for it, or ""."""
    by_label = {part.label: part for part in parts}

    def link(slug: str) -> str:
        label = slug.replace("_", "-")
        part = by_label.get(label) or by_label.get(TAUGHT_IN.get(label, ""))
        return write(part) if part else ""

    return link


def _gpu(cost: str) -> str:
    """What a chapter's line on its cost says of a GPU, in a few words."""
    if "pays from preset `book` on" in cost:
        return "for preset `book`"
    return "not needed" if re.search(r"\b[Nn]o GPU\b|not even a GPU", cost) else "see the card"
