"""The generated parts of the first page, README.md, chapter 16 and the course, from one source each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import found as discoveries
from advice import decision_table, decisions
from contents import Part, chapters, colab, linker
from front_answers import Records, extrapolates, short, tally, ten_lines

Table = Callable[[Any, Any], str]
Link = Callable[[str], str]

PATHS = {
    "An evening": (
        "what the fuss is about",
        ("order", "rope", "alibi", "ledger"),
    ),
    "A course of ten weeks": (
        "all of it, two exercises and a run a week",
        (),
    ),
    "A researcher": (
        "the claims, the mathematics, the traps",
        ("ledger", "stretch", "jordan", "union", "gates", "lightcone", "speed", "language"),
    ),
}


def myst(part: Part) -> str:
    return f"[{part.number}](#ch-{part.label})"


def in_repository(part: Part) -> str:
    return f"[{part.number}]({part.file})"


RECIPE = "appendix/usage.md#6-add-recency-to-a-llama"


def questions(root: Path, rows: Sequence[Any], records: Records, readme: bool) -> str:
    """What people ask first, with answers in words and the page that says more."""
    parts = chapters(root / "book")
    link = linker(parts, in_repository if readme else myst)
    six = next((colab(root, part) for part in parts if part.label == "phase-language"), "")
    became = {row.claim.id: f"**{row.verdict.outcome}**" for row in rows}
    why = short({row.claim.id: row.verdict.because for row in rows}["J-K4"], 90)
    answers = {
        "Does RoPE extrapolate?": (extrapolates(records), f"chapter {link('stretch')}"),
        "What became of the papers' headlines?": (
            f"A trained Transformer uses the coupled mode of Jordan-RoPE: {became['J-K4']}"
            f"{f' ({why})' if why else ''}. The union of PJ-RoPE finds the right sector by itself: "
            f"{became['P-S4a']}; the right order: {became['P-S4b']}. NTK scaling with recency is best "
            f"on long text: {became['P-L3']}. The light cone is best on music: {became['P-M1']}.",
            f"every claim: chapter {link('ledger')}",
        ),
        "How do I add recency to a Llama?": (
            "`pjrope.integrations.huggingface.attach(model, ALiBi(heads))`; the bias is saved, loaded "
            "and trained with the model.",
            f"[recipe](book/{RECIPE})" if readme else f"[recipe]({RECIPE})",
            f"chapter {link('your-model')}",
        ),
        "How do I run chapter 6 on a GPU?": (
            f'[Open it on Colab]({six}), choose a GPU under Runtime, set `preset` to `"book"` and run '
            "all cells. From a shell: `pjrope run phase_lm --preset book --device cuda`.",
            f"chapter {link('phase-language')}",
        ),
    }
    return "\n".join(
        f"- **{question}** {answer} ({', '.join(more)})"
        for question, (answer, *more) in answers.items()
    )


def paths(link: Link, course: str) -> str:
    """Three ways to read the book."""
    lines = []
    for name, (what, slugs) in PATHS.items():
        where = ", ".join(filter(None, map(link, slugs)))
        lines.append(f"- **{name}**: {what}. " + (f"Chapters {where}." if where else course))
    return "\n".join(lines)


def front(root: Path, rows: Sequence[Any], table: Table, readme: bool) -> str:
    """The part that the first page and README.md share.

    Args:
        root: of the repository.
        rows: of the ledger.
        table: writes a Markdown table.
        readme: links for the repository and for Colab, else for the book.
    """
    parts, records = chapters(root / "book"), Records()
    link = linker(parts, in_repository if readme else myst)
    course = (
        "[One table](book/appendix/course.md)." if readme else "{doc}`One table <appendix/course>`."
    )
    # The repository's page offers Colab, the book's own page the question of each chapter.
    middle = "Colab" if readme else "question"
    body = [
        [
            f"{link(p.label)} {p.title}",
            f"[open]({colab(root, p)})" if readme else p.question,
            p.cpu,
            p.gpu,
        ]
        for p in parts
    ]
    glossary = "book/appendix/glossary.md" if readme else "appendix/glossary.md"
    words = WORDS.format(glossary=glossary)
    lines = f"{words}\n\n{ten_lines(rows)}\n\nA verdict is what a rule in code makes of committed records."
    list_of_chapters = table(["chapter", middle, "time on one CPU core", "GPU"], body)
    sections = {
        "Four questions": questions(root, rows, records, readme),
        "In ten lines": folded(tally(rows), lines) if readme else lines,
        "Which position method should I use?": decision_table(
            decisions(rows, records), link, table, evidence=not readme
        )
        + (SHORT_NOTE if readme else LONG_NOTE),
        "Three ways to read": paths(link, course),
        "Chapters": folded("All chapters, each on Colab", list_of_chapters)
        if readme
        else f"{list_of_chapters}\n\n{GAPS}",
    }
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())


WORDS = (
    "A *jet* is a power of the lag d times a wave; a *sector* is one kind of position that a kernel may "
    "hold (a rotation, jets, recency, a table of near lags), and the *union* holds all of them, each "
    "with a learned weight. *Recency* prefers near tokens. L is the training length. More words: the "
    "[glossary]({glossary})."
)
LONG_NOTE = (
    "\n\nLosses in nats per byte of small models (200,000 parameters), so a negative difference is "
    "better; ± is half of a 95 % interval over seeds. L is the training length. "
    "Where the records do not carry an advice the table says so."
)
GAPS = (
    "The numbers 5 and 11 are not used: chapter [4](#ch-jordan) teaches the forms of a Jordan block and "
    "their digits, chapter [10](#ch-lightcone) how a benchmark of positions can flatter."
)
SHORT_NOTE = (
    "\n\nThe numbers behind each row stand on the first page of the book (`book/index.md`)."
)


def folded(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


LEDGER_GROUPS = {
    "Jordan-RoPE": ("J-K",),
    "PJ-RoPE: what a kernel holds": ("P-K", "P-X", "P-R", "P-N"),
    "PJ-RoPE: gates, orders and teachers": ("P-G", "P-S"),
    "PJ-RoPE: text": ("P-L",),
    "PJ-RoPE: music": ("P-M",),
    "PJ-RoPE: the light cone": ("P-F", "P-U"),
}
MOST_FINDINGS = 2


def _claim_row(row: Any, link: Link) -> list[str]:
    claim, verdict = row.claim, row.verdict
    numbers = "; ".join(f.text() for f in verdict.evidence.findings[:MOST_FINDINGS])
    rest = len(verdict.evidence.findings) - MOST_FINDINGS
    seeds = f"{verdict.evidence.seeds} seeds" if verdict.evidence.seeds > 1 else ""
    gap = verdict.evidence.scale.beside(claim.scale)
    reason = short(verdict.because, 400) or verdict.because[:400] + " …"
    judged = "; ".join(filter(None, [f"rule written {claim.written} the record", seeds, gap]))
    rests = (numbers + (f"; {rest} more" if rest > 0 else "")) or "nothing recorded"
    place = "; ".join(
        filter(None, [link(claim.chapter), f"`{row.command}`" if row.command else ""])
    )
    return [
        f"**{claim.id}** {claim.statement} *{claim.where}: {claim.published}*",
        f"**{verdict.outcome}**: {reason}",
        f"{rests}. *{judged}*",
        place or "–",
    ]


def ledger_chapter(root: Path, rows: Sequence[Any], table: Table) -> str:
    """The generated part of chapter 16: ten lines, a row a claim, and the other direction."""
    from pjrope.experiments.analysis.ledger import counts

    parts, records = chapters(root / "book"), Records()
    link = linker(parts, myst)
    head = ("claim, the paper's figure", "here", "rests on", "chapter, command")
    known = [prefix for prefixes in LEDGER_GROUPS.values() for prefix in prefixes]
    if stray := [r.claim.id for r in rows if not r.claim.id.startswith(tuple(known))]:
        raise ValueError(f"claim {stray[0]} has no group: name its letters in LEDGER_GROUPS")
    sections = [counts(rows), ten_lines(rows), "## Every claim"]
    for title, prefixes in LEDGER_GROUPS.items():
        body = [_claim_row(r, link) for r in rows if r.claim.id.startswith(prefixes)]
        sections.append(f"### {title}\n\n{table(head, body)}")
    sections.append(
        "## What the papers do not say\n\nFound here, each with what it rests on and the run that "
        "checks it on other cells."
    )
    sections.append(discoveries.as_sections(discoveries.found(records), records, link))
    return "\n\n".join(sections)


# Week -> title, chapters, experiment to run on a free GPU.
WEEKS = (
    ("Order", ("order",), "order_toy"),
    ("Rotations, and longer than trained", ("rope", "stretch"), "byte_lm/stretched"),
    ("Jordan blocks", ("jordan",), "jet_probes"),
    ("Is the mode used?", ("forms", "phase-language"), "phase_lm"),
    ("Recency", ("alibi",), "byte_lm/extrapolation"),
    ("One space", ("union",), "fixed_kernel"),
    ("Gates", ("gates",), "adaptive_spectrum"),
    ("Bounded coordinates and flattering benchmarks", ("lightcone", "codes"), "pair_resolution"),
    ("Speed, and what language wants", ("speed", "language"), "near_lags"),
    ("Music, your own model, the ledger", ("music", "your-model", "ledger"), "music_lm"),
)


def course(root: Path, table: Table) -> str:
    """Ten weeks: reading, two exercises, one run on a free GPU each."""
    from pjrope import experiments

    parts = chapters(root / "book")
    by_label = {part.label: part for part in parts}
    body = []
    for week, (title, labels, run) in enumerate(WEEKS, 1):
        read = [by_label[label] for label in labels if label in by_label]
        pool = [exercise for part in read for exercise in part.exercises]
        # One from the front, where they are easy, and one from further back.
        chosen = [pool[0], pool[(2 * len(pool)) // 3]] if len(pool) > 1 else pool
        cost = experiments.get(run).presets["book"].cost
        body.append(
            [
                f"{week}. {title}",
                ", ".join(f"chapter {myst(part)}" for part in read) or "–",
                ", ".join(f"[{name}](#{label})" for label, name in chosen) or "–",
                f"`pjrope run {run} --preset book --device cuda`",
                cost,
            ]
        )
    return table(("week", "read", "two exercises", "one run", "its cost on a CPU"), body)
