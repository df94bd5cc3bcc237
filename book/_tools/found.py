"""The other direction of the ledger: what the records show and the papers do not say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from front_answers import Records, difference


@dataclass(frozen=True)
class Found:
    """Something found here.

    Args:
        title: a few words.
        why: what was compared and why it matters; no number.
        numbers: what -> value, from records.
        records: experiments it rests on.
        confirm: experiment on fresh seeds or another corpus that checks it.
        chapter: slug of the chapter that treats it.
    """

    title: str
    why: str
    numbers: dict[str, str]
    records: Sequence[str]
    confirm: str
    chapter: str


def found(r: Records) -> list[Found]:
    """All of them, in the order of use."""
    return [_near(r), _slopes(r), _gates(), _missing(r), _straight(r)]


def _near(r: Records) -> Found:
    numbers = {
        f"{m} less {b}, loss at {n:,}": difference(
            r.gap("near_lags", "loss", m, b, length=n)
        )
        for m, b, n in (
            ("alibi_t5", "alibi", 128), ("alibi_t5", "rope_alibi", 128),
            ("alibi_t5", "rope_alibi", 8192), ("alibi_table8", "alibi", 128),
            ("alibi_lc", "alibi", 128),
        )
    }  # fmt: skip
    return Found(
        "Near lags",
        "ALiBi cannot tell the last few tokens apart by more than its slopes. Beside it a bias for "
        "each near lag (T5's buckets, or a table of eight) is compared with RoPE and with a light "
        "cone. In the space of this book such a table is the root 0, which both papers leave out.",
        numbers, ("near_lags", "near_lags/rivals"), "near_lags/confirm", "language",
    )  # fmt: skip


def _slopes(r: Records) -> Found:
    name = "byte_lm/extrapolation"
    numbers = {
        f"{m} less alibi, loss at 256": difference(r.gap(name, "loss", m, "alibi", length=256))
        for m in ("affine", "affine_fast", "affine_spread")
    }
    return Found(
        "Start, rate and budget",
        "What learned slopes lose against ALiBi's depends on where they start, how fast they learn and "
        "how long: the same kernel, three starts and rates.",
        numbers, (name,), "byte_lm/tuned", "alibi",
    )  # fmt: skip


def _gates() -> Found:
    from pjrope.experiments.analysis.ledger import rows

    (row,) = rows(["P-S4a"])
    numbers = {name: f"{v.outcome}: {v.because}" for name, v in row.parts.items()}
    return Found(
        "Gates read rate times steps",
        "A gate moves as far as its rate and the number of steps let it, so a gate that has not moved "
        "says nothing of the sector. Starts and rates of the gates were varied.",
        numbers, ("teacher_sequences/inits",), "byte_lm/allocation", "gates",
    )  # fmt: skip


def _missing(r: Records) -> Found:
    pairs = (
        ("direct_sum_grid", "direct_sum"),
        ("stabilized", "rope_trunc"),
        ("stabilized", "rope"),
    )
    numbers = {
        f"{m} less {b}, accuracy at 8 L": difference(
            r.gap("phase_lm", "accuracy", m, b, "accuracy", times=8)
        )
        for m, b in pairs
    }
    return Found(
        "The missing frequency",
        "The published direct sum does not own the frequency of the task. Given that frequency, it is "
        "another method; the Jordan block is compared with RoPE on the same cut ladder as well.",
        numbers, ("phase_lm",), "signal_regression", "phase-language",
    )  # fmt: skip


def _straight(r: Records) -> Found:
    numbers = {
        f"velocity with a straight phase, {name.split('_')[0]} resolution, fair protocol, fp32": (
            _codes(r, name, value)
        )
        for name, value in (
            ("retrieval_resolution", "top1"),
            ("pair_resolution", "best_threshold"),
        )
    }
    straight = r.gap("near_lags/rivals", "loss", "alibi_straight", "alibi", length=128)
    numbers["alibi_straight less alibi, loss at 128"] = difference(straight)
    return Found(
        "Velocity with a straight phase",
        "A light-cone code has two parts: the velocity, which bounds its amplitude, and the phase that "
        "slows down. The code with the velocity alone is bounded too; here is what it resolves.",
        numbers, ("retrieval_resolution", "pair_resolution"), "near_lags/rivals", "lightcone",
    )  # fmt: skip


def _codes(r: Records, name: str, value: str) -> str:
    """Straight and bent phase in the farthest bucket of a benchmark of codes."""
    result = r.result(name)
    if result is None:
        return "not recorded yet"
    bucket = list(dict.fromkeys(row["bucket"] for row in result.rows))[-1]
    where = {"protocol": "fair", "precision": "fp32", "bucket": bucket}
    told = [
        f"{label} {r.mean(name, value, method=method, **where)}"
        for label, method in (("straight", "lc_amp_only"), ("bent", "lc"))
    ]
    far = re.sub(r"^x(\d+)_(\d+)$", r"at \1 to \2 L", bucket)
    return f"{', '.join(told)}, {far}"


def status(name: str, names: set[str]) -> str:
    """Whether an experiment is recorded, as words with its command."""
    if name in names:
        return f"recorded (`pjrope show {name}`)"
    return f"not recorded yet (`pjrope run {name} --preset book --record`)"


def as_sections(items: Sequence[Found], records: Records, chapter: Any) -> str:
    """A section for each, with what confirms it.

    Args:
        items: of :func:`found`.
        records: knows which experiments are recorded.
        chapter: slug to a Markdown link, "" for a chapter that is not there yet.
    """
    parts = []
    for item in items:
        lines = [f"- {what}: {value}" for what, value in item.numbers.items()]
        shown = ", ".join(f"`{name}`" for name in item.records if name in records.names)
        lines.append(f"- Rests on: {shown or 'nothing recorded yet'}")
        lines.append(
            f"- Confirmation on other cells: `{item.confirm}`, {status(item.confirm, records.names)}"
        )
        if link := chapter(item.chapter):
            lines.append(f"- Told in: {link}")
        parts.append("\n".join([f"### {item.title}", "", item.why, "", *lines]))
    return "\n\n".join(parts)
