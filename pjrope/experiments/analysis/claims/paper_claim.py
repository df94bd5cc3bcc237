"""What a paper claims, at which scale, and what it takes to test it fairly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from ...engine.plain_json import ExperimentError
from ...engine.result import Result

__all__ = ["UNKNOWN", "PaperClaim", "Scale"]

NO_NUMBER = "no number known to us"


@dataclass(frozen=True)
class Scale:
    """The size of an experiment; None where it is not known or has no meaning.

    Args:
        length: training length L in tokens (of a probe: lags that it is fitted on).
        longest: longest length tested, in tokens.
        parameters: trained parameters.
        steps: training steps.
        corpus: what was read.
    """

    length: int | None = None
    longest: int | None = None
    parameters: int | None = None
    steps: int | None = None
    corpus: str | None = None

    @classmethod
    def of(cls, result: Result, **known: Any) -> Scale:
        """Read the scale from the settings of a run card.

        Args:
            result: whose card is read.
            known: fields that the settings do not hold, such as ``parameters``; they win.
        """
        settings = result.card["settings"]
        length = settings.get("length")
        longest = max((_longest(settings, length), *_numbers(result, "length")), default=None)
        training = settings.get("training") or {}
        corpora = [entry["name"] for entry in result.card.get("data", ())]
        found = {
            "length": length,
            "longest": longest or None,
            "steps": training.get("steps", settings.get("steps")),
            "corpus": ", ".join(corpora) or None,
        }
        return cls(**{**found, **known})

    def beside(self, other: Scale) -> str:
        """Say in which fields `other`, the paper's scale, is known to differ; "" for none."""
        parts = []
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            if None not in (ours, theirs) and ours != theirs:
                parts.append(f"{WORDS[field.name]} {_say(ours)} (paper {_say(theirs)})")
        return ", ".join(parts)

    def text(self) -> str:
        """Return all that is known: "L 1,024, longest 8,192, …"; "" for nothing."""
        known = ((WORDS[field.name], getattr(self, field.name)) for field in fields(self))
        return ", ".join(f"{word} {_say(value)}" for word, value in known if value is not None)


UNKNOWN = Scale()
WORDS = {
    "length": "L",
    "longest": "longest",
    "parameters": "parameters",
    "steps": "steps",
    "corpus": "corpus",
}


def _say(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def _longest(settings: Mapping[str, Any], length: int | None) -> int:
    multiples = [n * (length or 0) for name in ("times", "spans") for n in _listed(settings, name)]
    direct = [n for name in ("lengths", "positions") for n in _listed(settings, name)]
    return int(max((*multiples, *direct, length or 0), default=0))


def _listed(settings: Mapping[str, Any], name: str) -> list[float]:
    value = settings.get(name)
    if isinstance(value, int | float):
        return [value]
    return [n for n in value or () if isinstance(n, int | float)]


def _numbers(result: Result, name: str) -> set[int]:
    return {row[name] for row in result.rows if isinstance(row.get(name), int)}


@dataclass(frozen=True)
class PaperClaim:
    """One claim of a paper. (`pjrope.kernels.Claims` is something else: what a kernel promises.)

    Args:
        id: such as "J-K4" (Jordan-RoPE) or "P-L3" (PJ-RoPE).
        statement: the claim in one sentence.
        where: where the paper makes it.
        figure: the paper's figure, or "no number known to us".
        scale: the scale of that figure.
        needs: controls without which a test is not fair.
        rule: what yields which outcome, in words.
        written: whether the rule was written before the record it judges was made.
        chapter: slug of the chapter that treats it, without its number.
        untested: why nothing here tests it; "" if something does.
    """

    id: str
    statement: str
    where: str
    needs: tuple[str, ...]
    rule: str
    written: Literal["before", "after"]
    chapter: str
    figure: str = NO_NUMBER
    scale: Scale = UNKNOWN
    untested: str = ""

    def __post_init__(self) -> None:
        if empty := [n for n in ("statement", "where", "rule", "chapter") if not getattr(self, n)]:
            raise ExperimentError(f"claim {self.id}: {empty[0]} is empty; every claim states it")

    @property
    def paper(self) -> str:
        return "Jordan-RoPE" if self.id.startswith("J-") else "PJ-RoPE"

    @property
    def published(self) -> str:
        """The paper's figure with its scale."""
        scale = self.scale.text()
        return f"{self.figure} ({scale})" if scale else self.figure
